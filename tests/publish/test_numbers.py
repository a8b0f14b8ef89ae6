"""Numbers and names as people read them."""

import pytest

from rungproof.publish.pages.text import anchor, bound_words, count_of, shortened
from rungproof.records.shown import percent_down, shown, whole


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (259.7049, "259.7"),
        (1059.34, "1059.3"),
        (100.0, "100.0"),
        (99.994, "99.99"),
        (33.9127, "33.91"),
        (0.5, "0.50"),
        (0.0123456, "0.0123"),
        (0.0, "0.00"),
    ],
)
def test_rates_are_rounded_for_people(value: float, text: str) -> None:
    """One decimal from 100 up, two below, and small ones keep three digits."""
    assert shown(value) == text


def test_counts_and_bounds_are_words() -> None:
    """Counts read as k of n; nothing compared is said, never shown as 0 of 0; a bound is rounded down."""
    assert count_of(7, 8) == "7 of 8"
    assert count_of(0, 0) == "not compared"
    assert percent_down(0.77999) == "77.9\u00a0%"
    assert percent_down(1.0) == "100.0\u00a0%"
    assert bound_words(12, 12, 0.7790778) == "12 of 12 supports at least 77.9\u00a0%"
    assert bound_words(0, 0, None) == "nothing compared, so nothing is supported"


def test_large_counts_are_grouped() -> None:
    """Digits are grouped from 10 000 up, and a broken number stays as it is."""
    assert [whole(4096.0), whole(32768.0), whole(2.5)] == ["4096", "32\u202f768", "2.5"]


def test_every_form_is_a_function_of_the_value_and_its_name() -> None:
    """An int stays in plain digits; counts, shares and ratios have forms of their own; another form is refused."""
    assert [shown(17), shown(12345), shown(12345.0, "whole")] == ["17", "12345", "12\u202f345"]
    assert [shown(0.77999, "percent"), shown(1.23456, "ratio")] == ["77.9\u00a0%", "1.235"]
    assert [shown(0.00001, "percent-up"), shown(0.0, "percent-up"), shown(0.012, "percent-up")] == [
        "0.1\u00a0%",
        "0.0\u00a0%",
        "1.2\u00a0%",
    ]
    with pytest.raises(ValueError, match="expected one of"):
        shown(1.0, "roman")


def test_different_names_have_different_anchors() -> None:
    """An anchor holds nothing that needs escaping, and two names never share one."""
    names = ["a/b", "a b", "a-b", "a\u202eb", "", " ", "a<b", "a>b"]
    made = [anchor("gate", name) for name in names]
    assert len(set(made)) == len(names)
    assert all(set(one) <= set("abcdefghijklmnopqrstuvwxyz0123456789._/-") for one in made)


def test_long_text_says_how_long_it_was() -> None:
    """What is cut off is never cut off silently."""
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdefg", 6) == "abcdef\u2026 (7 characters)"
