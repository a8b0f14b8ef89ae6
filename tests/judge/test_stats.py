"""Exact statistics, with scipy as the oracle."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats  # type: ignore[import-untyped]

from rungproof.judge.stats import lower_bound, median, wilson


@settings(max_examples=60)
@given(st.integers(1, 400), st.data(), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_lower_bound_is_clopper_pearson(n: int, data: st.DataObject, confidence: float) -> None:
    """The bound is the exact one-sided one of the textbooks."""
    k = data.draw(st.integers(0, n))
    expected = scipy_stats.beta.ppf(1 - confidence, k, n - k + 1) if k else 0.0
    assert lower_bound(k, n, confidence) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_lower_bound_at_the_ends() -> None:
    """All of n has the closed form, none has 0, and no comparison has no bound."""
    assert lower_bound(12, 12) == pytest.approx(0.05 ** (1 / 12), rel=1e-12)
    assert lower_bound(0, 12) == 0.0
    assert lower_bound(0, 0) is None
    large = lower_bound(1990, 2000)
    assert large == pytest.approx(scipy_stats.beta.ppf(0.05, 1990, 11), rel=1e-9)


@pytest.mark.parametrize(("k", "n"), [(-1, 3), (4, 3), (0, -1)])
def test_impossible_counts_are_refused(k: int, n: int) -> None:
    """More identical outputs than outputs is an error, not a bound."""
    with pytest.raises(ValueError, match="expected 0 <= k <= n"):
        lower_bound(k, n)
    with pytest.raises(ValueError, match="expected 0 <= k <= n"):
        wilson(k, n)


@pytest.mark.parametrize("confidence", [0.0, 1.0, math.nan, 95.0])
def test_confidence_is_a_probability(confidence: float) -> None:
    """A confidence in per cent is refused."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        lower_bound(1, 2, confidence)


@settings(max_examples=50)
@given(st.integers(1, 500), st.data())
def test_wilson_is_scipys(n: int, data: st.DataObject) -> None:
    """Whiskers are the score interval."""
    k = data.draw(st.integers(0, n))
    expected = scipy_stats.binomtest(k, n).proportion_ci(0.95, method="wilson")
    assert wilson(k, n) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert wilson(0, 0) is None


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=30))
def test_median_is_in_the_middle(values: list[float]) -> None:
    """As many values lie below the median as above it."""
    found = median(values)
    assert sum(v < found for v in values) <= len(values) / 2
    assert sum(v > found for v in values) <= len(values) / 2


def test_median_of_nothing_is_refused() -> None:
    """No number is made from no values."""
    assert median([3, 1, 2]) == 2
    assert median([4, 1, 3, 2]) == 2.5
    with pytest.raises(ValueError, match="no values"):
        median([])
