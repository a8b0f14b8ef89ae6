"""Counters out of /metrics text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungproof.judge.prometheus import counters, delta, delta_by, labelled

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


def positions(*counts: tuple[int, int, int]) -> str:
    """Samples of (engine, position, count)."""
    return "".join(f'p{{engine="{e}",model_name="position=9",position="{k}"}} {n}\n' for e, k, n in counts)


def test_growth_by_a_label_sums_the_engines() -> None:
    """Two engines count their own positions; a position's growth is that of both."""
    before, after = positions((0, 0, 5), (1, 0, 7), (0, 1, 2)), positions((0, 0, 9), (1, 0, 8), (0, 1, 2))
    assert delta_by(before, after, "p", "position") == {"0": 5.0, "1": 0.0}
    assert delta_by(before, after, "p", "nothing") == {}


@pytest.mark.parametrize(
    ("before", "after"),
    [(positions((0, 0, 5)), positions((0, 0, 4))), (positions((0, 0, 5), (1, 0, 5)), positions((0, 0, 50))),
     (positions((0, 0, 5), (1, 0, 5)), positions((0, 0, 3), (1, 0, 50))), ("", positions((0, 0, 4))),
     (positions((0, 0, 5)), "")],
    ids=["shrank", "an engine vanished", "one of two shrank", "absent before", "absent after"],
)  # fmt: skip
def test_a_position_that_was_reset_or_is_absent_is_unknown(before: str, after: str) -> None:
    """A restarted engine or a missing sample gives no growth, never a part of it or 0."""
    assert delta_by(before, after, "p", "position") == {"0": None}


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    """No text makes the reader fail."""
    assert all(isinstance(value, float) for value in counters(text).values())
