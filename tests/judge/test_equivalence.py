"""Two rates are called the same only by a test that enough servers carry, or by every pair of servers, and never from nothing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from rungproof.judge.equivalence import Equivalence, equivalence
from rungproof.judge.stats import Refused


def by_scipy(got: list[float], base: list[float], limit: float) -> bool:
    """Both one-sided Welch tests on the logarithms reject at 5 %."""
    edge = math.log1p(limit)
    a, b = [math.log(v) for v in got], [math.log(v) for v in base]
    low = scipy_stats.ttest_ind([v + edge for v in a], b, equal_var=False, alternative="greater").pvalue
    high = scipy_stats.ttest_ind([v - edge for v in a], b, equal_var=False, alternative="less").pvalue
    return bool(max(low, high) <= 0.05)


rates = st.lists(st.floats(95.0, 105.0), min_size=4, max_size=9, unique=True)


@given(rates, rates)
def test_from_four_servers_it_is_the_two_one_sided_tests_of_scipy(got: list[float], base: list[float]) -> None:
    """Equivalent exactly where both tests reject."""
    found = equivalence(got, base)
    assert isinstance(found, Equivalence)
    assert (found.state == "equivalent") == by_scipy(got, base, 0.02)


CASES: dict[str, tuple[list[float], list[float], str]] = {
    "one and one, near": ([101.9], [100.0], "within"),
    "one and one, too far": ([102.1], [100.0], "beyond"),
    "one and one, too slow": ([97.9], [100.0], "beyond"),
    "two and two, one server off": ([100.0, 103.0], [100.0, 100.5], "beyond"),
    "three and nine have no test": ([100.0] * 3, [100.1] * 9, "within"),
    "four and four, near": ([100.0, 100.1, 99.9, 100.2], [100.1, 100.0, 99.8, 100.3], "equivalent"),
    "four and four, far": ([110.0, 110.1, 109.9, 110.2], [100.1, 100.0, 99.8, 100.3], "differs"),
    "four and four, too wide": ([95.0, 105.0, 99.0, 101.0], [100.1, 100.0, 99.8, 100.3], "undecided"),
}


@pytest.mark.parametrize(("got", "base", "state"), CASES.values(), ids=CASES)
def test_what_is_said_of_so_many_servers(got: list[float], base: list[float], state: str) -> None:
    """A test from four servers a side on, the range below."""
    found = equivalence(got, base)
    assert isinstance(found, Equivalence)
    assert found.state == state
    assert found.n == (len(got), len(base))


@pytest.mark.parametrize(("got", "base"), [([], [1.0]), ([1.0], []), ([], []), ([0.0], [1.0])])
def test_nothing_to_compare_is_refused(got: list[float], base: list[float]) -> None:
    """No value, or one that is no rate, never passes."""
    assert isinstance(equivalence(got, base), Refused)


def test_a_limit_of_nothing_is_a_mistake() -> None:
    """A limit has to be above 0."""
    with pytest.raises(ValueError, match="limit"):
        equivalence([1.0], [1.0], 0.0)
