"""Emitted tokens beside the likeliest ones: rounding is a tie, anything else fails, and nothing looked at is no pass."""

import math

import pytest

from rungproof.judge.forced import Forced, by_arm, chosen, forced, good


def counted(gaps: list[float], margin: float = 0.5, most: float = 0.0) -> Forced:
    """One answer of these gaps."""
    return forced("base", "base.a/strict/suite", "strict-00", "p", gaps, margin, most)


CASES: dict[str, tuple[list[float], float, tuple[str, int, int, int]]] = {
    "all likeliest": ([0.0, 0.0], 0.0, ("ok", 2, 0, 0)),
    "one near tie": ([0.0, 0.5], 0.0, ("ok", 1, 1, 0)),
    "one just beyond": ([0.0, 0.501], 0.0, ("failed", 1, 0, 1)),
    "one beyond, allowed": ([0.0] * 9 + [4.0], 0.1, ("ok", 9, 0, 1)),
    "two beyond, one allowed": ([0.0] * 8 + [4.0, 4.0], 0.1, ("failed", 8, 0, 2)),
    "no token at all": ([], 1.0, ("failed", 0, 0, 0)),
    "a gap that is no number": ([0.0, math.nan], 0.0, ("failed", 1, 0, 1)),
    "a gap without bound": ([0.0, math.inf], 0.0, ("failed", 1, 0, 1)),
}


@pytest.mark.parametrize(("gaps", "most", "expected"), CASES.values(), ids=CASES)
def test_an_answer_is_what_its_gaps_say(gaps: list[float], most: float, expected: tuple[str, int, int, int]) -> None:
    """Likeliest, within the margin, beyond it; more beyond than declared fails."""
    made = counted(gaps, most=most)
    assert (made.state, made.likeliest, made.ties, made.beyond) == expected
    assert made.tokens == len(gaps)


def test_the_worst_token_is_named() -> None:
    """Its gap and its place, the first of equals."""
    made = counted([0.0, 0.2, 0.4, 0.4])
    assert (made.worst, made.at) == (0.4, 2)


def test_an_arm_of_which_nothing_was_looked_at_is_no_pass() -> None:
    """All too long, or no arm at all."""
    fine = counted([0.0])
    assert good(by_arm([fine], {"base": 3}))
    assert not good(by_arm([fine], {"base": 0, "draft": 12}))
    assert not good(by_arm([], {}))
    assert not good(by_arm([fine, counted([9.0])], {}))


def test_nobody_picks_the_sample() -> None:
    """The same for the same pack, another for another, in the order of sending."""
    names = [f"pass-1/p{i:02d}" for i in range(40)]
    one = chosen(names, 5, "a" * 64)
    assert one == chosen(names, 5, "a" * 64)
    assert one != chosen(names, 5, "b" * 64)
    assert len(one) == 5
    assert list(one) == sorted(one)
    assert chosen(names, 99, "a") == tuple(names)
