"""What a few fresh servers allow to say: intervals with scipy as the oracle, their coverage, and what is refused."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats  # type: ignore[import-untyped]

from judge.coverage_table import rows, table
from rungproof.judge import stats
from rungproof.judge.stats import Interval, Ratio, Refused

ROOT = Path(__file__).parents[2]
RATES = st.floats(1.0, 1000.0)


def some(made: Any) -> Any:
    """What was made, which was not refused."""
    assert not isinstance(made, Refused), made
    return made


@settings(max_examples=60)
@given(st.floats(1, 400), st.sampled_from([0.5, 0.9, 0.95, 0.99, 0.999]))
def test_t_quantiles_are_scipys(freedom: float, confidence: float) -> None:
    """Also for degrees of freedom that are no whole number, as Welch's are not."""
    assert stats.t_quantile(freedom, confidence) == pytest.approx(
        scipy_stats.t.ppf((1 + confidence) / 2, freedom), rel=1e-9
    )


@settings(max_examples=40)
@given(st.lists(RATES, min_size=4, max_size=12))
def test_the_t_interval_is_scipys(values: list[float]) -> None:
    """Mean and ends, at 95 %."""
    made = some(stats.t_interval(values))
    error = scipy_stats.sem(values)
    if error > 0:
        low, high = scipy_stats.t.interval(0.95, len(values) - 1, loc=sum(values) / len(values), scale=error)
        assert (made.low, made.high) == (pytest.approx(low, rel=1e-9), pytest.approx(high, rel=1e-9))


@settings(max_examples=40)
@given(st.lists(RATES, min_size=6, max_size=40))
def test_the_medians_interval_has_the_confidence_it_says(values: list[float]) -> None:
    """Its ends are order statistics, its confidence is scipy's binomial sum, at least 95 %, and one step further in would have less."""
    made = some(stats.median_interval(values))
    n, ordered = len(values), sorted(values)
    reach = {r: 1 - 2 * scipy_stats.binom.cdf(r - 1, n, 0.5) for r in range(1, n // 2 + 1)}
    r = max(rank for rank, held in reach.items() if held >= 0.95)
    assert (made.low, made.high) == (ordered[r - 1], ordered[n - r])
    assert made.confidence == pytest.approx(reach[r])


@settings(max_examples=40)
@given(st.lists(RATES, min_size=4, max_size=9), st.lists(RATES, min_size=4, max_size=9))
def test_the_unpaired_ratio_is_welchs(got: list[float], base: list[float]) -> None:
    """The interval of the log ratio is scipy's for two samples of unequal variance."""
    made = some(stats.rate_ratio(got, base))
    logs = [[math.log(v) for v in side] for side in (got, base)]
    if min(max(side) - min(side) for side in logs) > 1e-6:
        expected = scipy_stats.ttest_ind(*logs, equal_var=False).confidence_interval(0.95)
        assert (math.log(made.interval.low), math.log(made.interval.high)) == pytest.approx(
            (expected.low, expected.high), rel=1e-7, abs=1e-9
        )
    assert made.pairing == "unpaired"
    assert made.claim == (not made.interval.low <= 1 <= made.interval.high)


@settings(max_examples=30)
@given(st.lists(st.tuples(RATES, RATES), min_size=4, max_size=9))
def test_the_paired_ratio_is_scipys(pairs: list[tuple[float, float]]) -> None:
    """The interval of the log ratio is scipy's for pairs."""
    got, base = [a for a, _ in pairs], [b for _, b in pairs]
    made = some(stats.rate_ratio(got, base, paired=True))
    logs = [math.log(a / b) for a, b in pairs]
    if max(logs) - min(logs) > 1e-6:
        expected = scipy_stats.ttest_1samp(logs, 0).confidence_interval(0.95)
        assert (math.log(made.interval.low), math.log(made.interval.high)) == pytest.approx(
            (expected.low, expected.high), rel=1e-7, abs=1e-9
        )


@settings(max_examples=60)
@given(st.floats(0.05, 0.999), st.integers(0, 3), st.sampled_from([0.9, 0.95, 0.99]))
def test_what_a_bound_needs_is_the_least_that_supports_it(bound: float, off: int, confidence: float) -> None:
    """So many support the bound and one fewer does not, by the bound itself."""
    n = stats.needed(bound, off, confidence)
    assert (stats.lower_bound(n - off, n, confidence) or 0) >= bound * (1 - 1e-12)
    assert n - 1 <= off or (stats.lower_bound(n - 1 - off, n - 1, confidence) or 0) < bound


def test_known_needs_and_bounds() -> None:
    """18 of 18 supports at least 84.7 %; 95 % takes 59 without a failure and 93 with one, 99 % takes 299."""
    assert f"{100 * (stats.lower_bound(18, 18) or 0):.1f}" == "84.7"
    assert (stats.needed(0.95), stats.needed(0.95, 1), stats.needed(0.99)) == (59, 93, 299)


@pytest.mark.parametrize(("share", "least"), [(0.90, 64), (0.95, 130), (0.99, 662)])
def test_percentiles_only_where_the_sample_certifies_them(share: float, least: int) -> None:
    """One value fewer is refused; at the least n the second highest value is the bound, as with one failure tolerated at 99 %."""
    assert stats.percentile_needs(share) == least
    refused = stats.percentile([1.0] * (least - 1), share)
    assert isinstance(refused, Refused)
    assert str(least) in refused.why
    made = some(stats.percentile(list(range(1, least + 1)), share))
    assert made.high == least - 1
    assert made.low == math.ceil(share * least)
    assert scipy_stats.binom.cdf(least - 2, least, share) >= 0.99


REFUSALS: dict[str, tuple[Callable[[], Any], str]] = {
    "a range of nothing": (lambda: stats.range_of([]), "no value"),
    "a t interval of 3": (lambda: stats.t_interval([1.0, 2.0, 3.0]), "needs 4 values, there are 3"),
    "a median's interval of 5": (lambda: stats.median_interval([1.0] * 5), "needs 6 values, there are 5"),
    "a median's interval at 99.9 % of 6": (lambda: stats.median_interval([1.0] * 6, 0.999), "reach 0.969 at most"),
    "a bootstrap of 7": (lambda: stats.bootstrap([1.0] * 7, max), "needs 8 values, there are 7"),
    "a ratio without rates": (lambda: stats.rate_ratio([], [1.0]), "at least one rate"),
    "a ratio of a rate of 0": (lambda: stats.rate_ratio([1.0, 0.0], [1.0]), "above 0"),
    "pairs that do not match": (lambda: stats.rate_ratio([1.0, 2.0], [1.0], paired=True), "there are 2 and 1"),
    "p90 of 63": (lambda: stats.percentile([1.0] * 63, 0.9), "p90 needs 64 values, there are 63"),
    "p95 of 129": (lambda: stats.percentile([1.0] * 129, 0.95), "p95 needs 130"),
    "p99 of 661": (lambda: stats.percentile([1.0] * 661, 0.99), "p99 needs 662"),
    "a half-width beyond reach": (lambda: stats.servers_needed(1e-6, 1.0), "more than 10000"),
}


@pytest.mark.parametrize(("made", "why"), REFUSALS.values(), ids=REFUSALS)
def test_what_a_sample_cannot_carry_is_refused(made: Callable[[], Any], why: str) -> None:
    """A refusal is a value that says why, so that no number can be taken from it by mistake."""
    refused = made()
    assert isinstance(refused, Refused)
    assert why in refused.why


def test_every_refusal_is_documented() -> None:
    """docs/statistics.md has a line for each."""
    text = (ROOT / "docs/statistics.md").read_text(encoding="utf-8")
    assert all(f"| {name} |" in text for name in REFUSALS)


def test_servers_get_what_their_number_allows() -> None:
    """1 to 3: the range, without a confidence; 4 and 5: a t interval; from 6 on: the median's interval."""
    kinds = {n: some(stats.servers_interval([100.0 + i for i in range(n)])) for n in (1, 2, 3, 4, 5, 6, 9)}
    assert {kinds[n].kind for n in (1, 2, 3)} == {"range"}
    assert {kinds[n].confidence for n in (1, 2, 3)} == {None}
    assert {kinds[n].kind for n in (4, 5)} == {"t interval of the mean"}
    assert {kinds[n].kind for n in (6, 9)} == {"order-statistic interval of the median"}


def test_no_difference_is_claimed_from_three_servers() -> None:
    """However far apart: a range of ratios, and no claim; from four on each side, a claim only where 1 is left out."""
    few = some(stats.rate_ratio([200.0, 201.0, 202.0], [100.0, 101.0, 102.0]))
    assert isinstance(few, Ratio)
    assert (few.claim, few.interval.kind, few.interval.confidence) == (False, "range", None)
    assert (few.interval.low, few.interval.high) == (200 / 102, 202 / 100)
    assert some(stats.rate_ratio([200.0, 201.0, 202.0, 203.0], [100.0, 101.0, 102.0, 103.0])).claim
    assert not some(stats.rate_ratio([100.0, 101.0, 99.0, 102.0], [100.0, 101.0, 102.0, 99.0])).claim


def test_the_bootstrap_gives_the_same_everywhere() -> None:
    """No chance is in it: the same values give the same interval, which holds the statistic."""
    values = [100.0, 101.0, 99.5, 100.2, 103.0, 98.0, 100.9, 99.9]
    first, second = (some(stats.bootstrap(values, stats.median)) for _ in range(2))
    assert first == second
    assert isinstance(first, Interval)
    assert first.low <= stats.median(values) <= first.high
    assert min(values) <= first.low < first.high <= max(values)


def test_outliers_are_flagged_and_stay() -> None:
    """A value far off is flagged by its place; too few values, or a spread of nothing, flag none."""
    values = [100.0, 101.0, 99.0, 100.5, 160.0]
    assert stats.outliers(values) == [4]
    assert values[4] == 160.0
    assert stats.outliers([1.0, 1.0, 1.0, 50.0]) == []
    assert stats.outliers([1.0, 2.0, 500.0]) == []


def test_servers_needed_is_the_least_number() -> None:
    """At that number the expected half-width is reached, at one fewer it is not; never fewer than four."""
    for half, spread in ((1.0, 1.0), (0.5, 1.0), (0.2, 1.3)):
        n = some(stats.servers_needed(half, spread))
        assert scipy_stats.t.ppf(0.975, n - 1) * spread / math.sqrt(n) <= half
        assert n == 4 or scipy_stats.t.ppf(0.975, n - 2) * spread / math.sqrt(n - 1) > half
    assert stats.servers_needed(5.0, 0.0) == 4
    with pytest.raises(ValueError, match="expected above 0"):
        stats.servers_needed(0.0, 1.0)


def test_every_interval_covers_what_it_says() -> None:
    """At each n that is allowed: exact bounds never below 95 %; t, ratio and bootstrap near it on normal samples; the median's on any.

    The allowance below the nominal value is four standard errors of the simulation, except where docs/statistics.md names a
    shortfall: Wilson's interval (exact on the average only) and t intervals of uniform and of strongly skewed samples.
    """
    assert len(rows()) > 60
    for what, n, shape, least, mean in rows():
        skewed = shape.startswith("skewed")
        if what.startswith("Clopper"):
            assert least >= 0.95 - 1e-9, (what, n)
        elif what.startswith("Wilson"):
            assert mean >= 0.945, (what, n, mean)
        elif what.startswith("order"):
            assert least >= 0.95 - 0.014, (what, n, shape, least)
        elif what.startswith("expanded"):
            assert least >= (0.86 if skewed else 0.95 - 0.039), (what, n, shape, least)
        elif shape == "uniform":
            assert least >= 0.91, (what, n, least)
        else:
            assert least >= (0.87 if skewed else 0.95 - 0.014), (what, n, shape, least)


def test_the_coverage_table_is_the_one_in_the_docs() -> None:
    """docs/statistics.md shows what the simulation gives; `python tests/judge/coverage_table.py` prints it."""
    assert table() in (ROOT / "docs/statistics.md").read_text(encoding="utf-8")
