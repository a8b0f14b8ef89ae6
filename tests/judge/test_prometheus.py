"""Counters out of /metrics text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungproof.judge.prometheus import counters, delta, labelled

TEXT = r"""# HELP vllm:num_preemptions_total Cumulative number of preemptions.
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="a b"} 3.0
vllm:num_preemptions_total{engine="1",model_name="q\"}{ \\ x, y=\"z\""} 4 1700000000000
vllm:generation_tokens_total{ } 1.5e+03
plain 7
spaced{a="b" , c="d",}   2   # {trace_id="x"} 1.0
negative -2.5
infinite +Inf
nothing NaN
broken{a="b" 3
bad value here
1digit 4
under 1_000
 42
empty_value
"""


def test_values_are_summed_over_labels() -> None:
    """All label sets of a name count, whatever stands inside the quotes; what is no sample or no number is skipped."""
    assert counters(TEXT) == {
        "vllm:num_preemptions_total": 7.0,
        "vllm:generation_tokens_total": 1500.0,
        "plain": 7.0,
        "spaced": 2.0,
        "negative": -2.5,
    }
    assert counters("") == {}


def test_label_sets_are_kept_as_written() -> None:
    """A reader can pick one label set."""
    found = labelled(TEXT, "vllm:num_preemptions_total")
    assert found['engine="0",model_name="a b"'] == 3.0
    assert len(found) == 2
    assert labelled(TEXT, "plain") == {"": 7.0}
    assert labelled(TEXT, "absent") == {}


def test_delta_is_the_growth() -> None:
    """S64: three preemptions more are three, also where a label set is new."""
    before, after = 'p{e="0"} 5\n', 'p{e="0"} 8\np{e="1"} 2\n'
    assert delta(before, after, "p") == 5
    assert delta(before, before, "p") == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [("", "p 3"), ("p 3", ""), ("", ""), ("p 4", "p 3"), ('p{e="0"} 1\np{e="1"} 1', 'p{e="0"} 9'),
     ('p{e="0"} 4\np{e="1"} 1', 'p{e="0"} 1\np{e="1"} 9')],
)  # fmt: skip
def test_missing_or_reset_is_not_zero(before: str, after: str) -> None:
    """A counter that is absent or went backwards has no delta."""
    assert delta(before, after, "p") is None


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    """No text makes the reader fail."""
    assert all(isinstance(value, float) for value in counters(text).values())
