"""Rates, against published figures and against what they must refuse."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungproof.judge.rates import RESOLUTION_NS, aggregate_rate, class_balanced_median, decode_rate, percentile


@pytest.fixture
def published() -> dict[str, Any]:
    """One raw strict row under speculation, with the figures its authors published (the file names its source)."""
    made = json.loads((Path(__file__).parent / "data" / "strict_request.json").read_text())
    assert isinstance(made, dict)
    return made


def test_published_decode_rate_to_the_last_digit(published: dict[str, Any]) -> None:
    """The rate over 100 tokens is the published one, digit for digit; whole nanoseconds move it by less than 1e-11."""
    exact = [Fraction(offset) * 10**9 for offset in published["token_offsets_s"]]
    expected = published["expected"]["decode_rate_99_intervals"]
    assert decode_rate(exact, 100) == expected
    assert decode_rate([round(at) for at in exact], 100) == pytest.approx(expected, rel=1e-11)


def test_published_headline_to_the_last_digit(published: dict[str, Any]) -> None:
    """The class-balanced median is the published one, digit for digit, whatever the number of prompts in a class."""
    exact = [Fraction(offset) * 10**9 for offset in published["token_offsets_s"]]
    rates = {}
    for name, middle in published["class_medians"].items():
        spread = {1: [0.0], 2: [0.0, 0.0], 3: [7.0, 0.0, -30.0]}[published["class_prompt_counts"][name]]
        rates[name] = [middle + off for off in spread]
    measured = decode_rate(exact, 100)
    assert measured is not None
    rates["operations"][1] = measured
    assert class_balanced_median(rates) == published["expected_class_balanced_median"]


def test_window_is_counted_from_the_first_token() -> None:
    """w tokens have w - 1 intervals; later tokens do not matter, fewer give no rate."""
    arrivals = [10**6, 2 * 10**6, 3 * 10**6, 10**12]
    assert decode_rate(arrivals, 3) == 2 * 10**9 / (2 * 10**6)
    assert decode_rate(arrivals[:2], 3) is None
    assert decode_rate([], 3) is None


def test_no_rate_without_time() -> None:
    """A window that took no time, less than can be told, or ran backwards has no rate instead of a huge one."""
    assert decode_rate([5, 5, 5], 3) is None
    assert decode_rate([5, 6, 4], 3) is None
    assert decode_rate([0, 5, RESOLUTION_NS - 1], 3) is None
    assert decode_rate([0, 5, RESOLUTION_NS], 3) == 2 * 10**9 / RESOLUTION_NS


def test_a_window_of_one_token_is_refused() -> None:
    """A rate needs an interval."""
    with pytest.raises(ValueError, match="window of 1"):
        decode_rate([1, 2], 1)


def test_aggregate() -> None:
    """Tokens over wall time, and nothing where either is missing."""
    assert aggregate_rate(300, 2 * 10**9) == 150
    assert aggregate_rate(0, 10**9) is None
    assert aggregate_rate(5, RESOLUTION_NS - 1) is None


def test_percentiles_are_values_that_were_seen() -> None:
    """The nearest rank: at least the share of all values does not exceed it."""
    assert [percentile([4, 1, 3, 2], share) for share in (0.25, 0.5, 0.99, 1)] == [1, 2, 4, 4]
    for values, share in (([], 0.5), ([1], 0), ([1], 1.1)):
        with pytest.raises(ValueError, match="share"):
            percentile(values, share)


def test_a_class_without_a_rate_is_refused() -> None:
    """A headline is not made from fewer classes than it names."""
    with pytest.raises(ValueError, match="'prose'"):
        class_balanced_median({"code": [1.0], "prose": []})
    with pytest.raises(ValueError, match="no values"):
        class_balanced_median({})


@given(st.lists(st.integers(10**6, 10**9), min_size=2, max_size=50), st.integers(0, 10**18))
def test_the_rate_does_not_depend_on_when_the_clock_began(gaps: list[int], start: int) -> None:
    """Shifting all stamps changes no digit of the rate."""
    at, arrivals = 0, []
    for gap in gaps:
        at += gap
        arrivals.append(at)
    assert decode_rate(arrivals, len(gaps)) == decode_rate([start + one for one in arrivals], len(gaps))
