"""Exact statistics with the standard library alone. What a sample is too small for is refused, by a value of type Refused.

The unit of replication is the fresh server. One to three give a range, called so; four a t interval and a claim of
difference; six a median with its order-statistic interval; eight a bootstrap. docs/statistics.md has the coverage of each.
"""

import hashlib
import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Literal

CONFIDENCE = 0.95
T_LEAST, MEDIAN_LEAST, BOOTSTRAP_LEAST = 4, 6, 8
PERCENTILE_CONFIDENCE, PERCENTILE_FAILURES = 0.99, 1
OUTLIER = 3.5  # modified z-score beyond which a value is flagged (Iglewicz and Hoaglin 1993)
MAD_SCALE = 1.4826  # makes the median absolute deviation of a normal sample its standard deviation


@dataclass(frozen=True, slots=True)
class Refused:
    """A number that the sample cannot carry, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Interval:
    """low to high around `center`. `kind` says what it is; a range has no confidence."""

    kind: str
    center: float
    low: float
    high: float
    n: int
    confidence: float | None


@dataclass(frozen=True, slots=True)
class Ratio:
    """Rate of one arm over that of another. `claim`: the sample allows one, and the interval leaves 1 out."""

    interval: Interval
    pairing: Literal["paired", "unpaired"]
    n: tuple[int, int]
    claim: bool


def median(values: Sequence[float]) -> float:
    """Middle value; the mean of the two middle ones where their number is even. Raises ValueError for no values."""
    if not values:
        raise ValueError("the median of no values was asked for; it needs at least one")
    ordered = sorted(values)
    half = len(ordered) // 2
    return float(ordered[half]) if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def lower_bound(k: int, n: int, confidence: float = CONFIDENCE) -> float | None:
    """Exact one-sided lower confidence bound of a proportion, k of n seen (Clopper and Pearson, Biometrika 26, 1934).

    The largest p for which k or more of n have at most the probability 1 - confidence. None where n is 0.
    Raises ValueError for impossible counts or a confidence outside (0, 1).
    """
    _check(k, n, confidence)
    if n == 0:
        return None
    if k == 0:
        return 0.0
    return _bisect(lambda p: _at_least(k, n, p) > 1 - confidence)


def needed(bound: float, off: int = 0, confidence: float = CONFIDENCE) -> int:
    """The smallest n for which n - off of n support a share of at least `bound` (inverts `lower_bound`).

    Raises ValueError for a bound outside (0, 1), a negative `off`, or one that no sample below a million supports.
    """
    _check(0, 0, confidence)
    if not 0 < bound < 1 or off < 0:
        raise ValueError(f"found bound {bound} with {off} off; expected a share between 0 and 1, and 0 or more off")
    low, high = off, off + 1
    while not _supports(high - off, high, bound, confidence):
        low, high = high, high * 2
        if high > 1_000_000:
            raise ValueError(f"a bound of {bound} with {off} off would need more than a million outputs")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _supports(middle - off, middle, bound, confidence) else (middle, high)
    return high


def wilson(k: int, n: int, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """Two-sided score interval of a proportion (Wilson, JASA 22, 1927), for whiskers. None where n is 0.

    Raises ValueError as `lower_bound` does.
    """
    _check(k, n, confidence)
    if n == 0:
        return None
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    center = (k + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * math.sqrt(k * (n - k) / n + z * z / 4)
    return (0.0 if k == 0 else max(0.0, center - half), 1.0 if k == n else min(1.0, center + half))


def range_of(values: Sequence[float]) -> Interval | Refused:
    """Mean, lowest and highest. It is no interval of confidence, whatever n is."""
    if not values:
        return Refused("there is no value")
    return Interval("range", mean(values), min(values), max(values), len(values), None)


def t_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | Refused:
    """Student's interval of the mean: mean +- t(n - 1) s / sqrt(n) (Student, Biometrika 6, 1908); refused below 4 values.

    It takes the values to be near a normal distribution, which so few cannot show.
    """
    n = len(values)
    if n < T_LEAST:
        return Refused(f"a t interval needs {T_LEAST} values, there are {n}")
    center = mean(values)
    half = t_quantile(n - 1, confidence) * deviation(values) / math.sqrt(n)
    return Interval("t interval of the mean", center, center - half, center + half, n, confidence)


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | Refused:
    """The median between two order statistics, whatever the distribution: the r-th lowest and the r-th highest with the largest r
    for which 1 - 2 P(Binomial(n, 1/2) < r) >= confidence (Thompson, Ann. Math. Stat. 7, 1936). Refused below 6 values.

    `confidence` of the result is the one reached, which is at least the one asked for.
    """
    n = len(values)
    if n < MEDIAN_LEAST:
        return Refused(f"an interval of the median needs {MEDIAN_LEAST} values, there are {n}")
    reached = [1 - 2 * (1 - _at_least(r, n, 0.5)) for r in range(1, n // 2 + 1)]
    held = [r for r, c in enumerate(reached, start=1) if c >= confidence]
    if not held:
        return Refused(f"{n} values reach {reached[0]:.3f} at most, {confidence} was asked for")
    ordered, r = sorted(values), held[-1]
    return Interval(
        "order-statistic interval of the median", median(values), ordered[r - 1], ordered[n - r], n, reached[r - 1]
    )


def bootstrap(
    values: Sequence[float],
    statistic: Callable[[Sequence[float]], float],
    confidence: float = CONFIDENCE,
    draws: int = 2000,
) -> Interval | Refused:
    """Expanded percentile bootstrap (Hesterberg, The American Statistician 69, 2015, section 3.3); refused below 8 values.

    The percentiles are widened for the small sample: their tails hold Phi(-sqrt(n / (n - 1)) t(n - 1)). The draws come from
    SHA-256 over their number, so the same values give the same interval everywhere.
    """
    n = len(values)
    if n < BOOTSTRAP_LEAST:
        return Refused(f"a bootstrap needs {BOOTSTRAP_LEAST} values, there are {n}")
    tail = NormalDist().cdf(-math.sqrt(n / (n - 1)) * t_quantile(n - 1, confidence))
    made = sorted(statistic([values[i] for i in picks]) for picks in _resamples(n, draws))
    low = max(0, math.floor(tail * (draws + 1)) - 1)
    return Interval("expanded percentile bootstrap", statistic(values), made[low], made[draws - 1 - low], n, confidence)


def servers_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | Refused:
    """What so many fresh servers allow: up to 3 the range, 4 and 5 a t interval, from 6 on the median's interval."""
    if len(values) < T_LEAST:
        return range_of(values)
    return t_interval(values, confidence) if len(values) < MEDIAN_LEAST else median_interval(values, confidence)


def rate_ratio(
    got: Sequence[float], base: Sequence[float], paired: bool = False, confidence: float = CONFIDENCE
) -> Ratio | Refused:
    """Rate of `got` over that of `base`, one rate a fresh server: the ratio of their geometric means.

    From 4 servers a side the t interval of the difference of logarithms: paired, over the logarithms of the pairs' ratios;
    unpaired, with Welch's degrees of freedom (Welch, Biometrika 34, 1947). Below that the lowest and highest ratio that two
    of these servers give, called a range, from which nothing is claimed. Refused without values, for values that are not
    above 0, and for pairs that do not match.
    """
    if not got or not base or min(*got, *base) <= 0:
        return Refused("a ratio needs at least one rate above 0 of each side, and none that is not")
    if paired and len(got) != len(base):
        return Refused(f"pairs need as many rates of each side; there are {len(got)} and {len(base)}")
    pairing: Literal["paired", "unpaired"] = "paired" if paired else "unpaired"
    of_got, of_base = [math.log(v) for v in got], [math.log(v) for v in base]
    center, n = mean(of_got) - mean(of_base), (len(got), len(base))
    if min(n) < T_LEAST:
        ratios = (
            [a / b for a, b in zip(got, base, strict=True)] if paired else [min(got) / max(base), max(got) / min(base)]
        )
        return Ratio(Interval("range", math.exp(center), min(ratios), max(ratios), min(n), None), pairing, n, False)
    if paired:
        gaps = [a - b for a, b in zip(of_got, of_base, strict=True)]
        half = t_quantile(len(gaps) - 1, confidence) * deviation(gaps) / math.sqrt(len(gaps))
    else:
        parts = [deviation(v) ** 2 / len(v) for v in (of_got, of_base)]
        below = sum(part**2 / (len(v) - 1) for part, v in zip(parts, (of_got, of_base), strict=True))
        half = t_quantile(sum(parts) ** 2 / below, confidence) * math.sqrt(sum(parts)) if below > 0 else 0.0
    low, high = math.exp(center - half), math.exp(center + half)
    return Ratio(
        Interval("t interval of the log ratio", math.exp(center), low, high, min(n), confidence),
        pairing,
        n,
        not low <= 1 <= high,
    )


def percentile(values: Sequence[float], share: float) -> Interval | Refused:
    """The percentile `share` by nearest rank, and the value that it does not pass at 99 % confidence; refused for too few values.

    high: the smallest order statistic r with P(Binomial(n, share) < r) >= 0.99. The least n is the one at which the second
    highest value is such a bound (one failure tolerated): 64, 130 and 662 for 0.90, 0.95 and 0.99, as in the early stopping
    rule of MLPerf inference. low is the nearest rank itself.
    """
    n, least = len(values), percentile_needs(share)
    if n < least:
        return Refused(f"p{100 * share:g} needs {least} values, there are {n}")
    ordered = sorted(values)
    rank = math.ceil(share * n - 1e-9)
    bound = next(r for r in range(rank, n + 1) if 1 - _at_least(r, n, share) >= PERCENTILE_CONFIDENCE)
    return Interval("upper bound", ordered[rank - 1], ordered[rank - 1], ordered[bound - 1], n, PERCENTILE_CONFIDENCE)


@cache
def percentile_needs(share: float) -> int:
    """Fewest values that certify the percentile `share`. Raises ValueError outside [0.5, 1)."""
    if not 0.5 <= share < 1:
        raise ValueError(f"found {share}; expected a share from 0.5 up to, but not, 1")
    n = PERCENTILE_FAILURES + 1
    while (
        sum(math.comb(n, i) * (1 - share) ** i * share ** (n - i) for i in range(PERCENTILE_FAILURES + 1))
        > 1 - PERCENTILE_CONFIDENCE
    ):
        n += 1
    return n


def outliers(values: Sequence[float]) -> list[int]:
    """Places of values whose modified z-score, |x - median| / (1.4826 MAD), passes 3.5 (Iglewicz and Hoaglin 1993). They are
    flagged, never dropped. Fewer than 4 values, or half of them equal, flag nothing."""
    if len(values) < T_LEAST:
        return []
    middle = median(values)
    scale = MAD_SCALE * median([abs(v - middle) for v in values])
    return [i for i, v in enumerate(values) if scale > 0 and abs(v - middle) / scale > OUTLIER]


def servers_needed(
    half_width: float, spread: float, confidence: float = CONFIDENCE, most: int = 10_000
) -> int | Refused:
    """Fewest fresh servers whose t interval is expected to be center +- half_width, where single servers differ by the standard
    deviation `spread` (both in the same unit). At least 4, below which there is no such interval. Refused above `most`.

    Raises ValueError for a half-width that is not above 0 or a spread below 0.
    """
    if half_width <= 0 or spread < 0:
        raise ValueError(f"found half-width {half_width} and spread {spread}; expected above 0, and at least 0")

    def enough(n: int) -> bool:
        return t_quantile(n - 1, confidence) * spread / math.sqrt(n) <= half_width

    # The quantile and 1 / sqrt(n) both fall with n, so where n is enough every larger one is.
    n = bisect_left(range(most + 1), True, lo=T_LEAST, key=enough)
    return n if n <= most else Refused(f"more than {most} servers would be needed")


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean, summed exactly. Raises ZeroDivisionError for no values."""
    return math.fsum(values) / len(values)


def deviation(values: Sequence[float]) -> float:
    """Standard deviation of a sample (n - 1 below). Raises ZeroDivisionError for fewer than two values."""
    center = mean(values)
    return math.sqrt(math.fsum((v - center) ** 2 for v in values) / (len(values) - 1))


@cache
def t_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """The t that a Student variable with so many degrees of freedom stays within, on both sides, with this probability.

    P(|T| > t) = I_x(freedom / 2, 1 / 2) with x = freedom / (freedom + t^2) (NIST DLMF 8.17; Abramowitz and Stegun 26.7.1).
    """
    _check(0, 0, confidence)
    x = _bisect(lambda at: _beta(at, freedom / 2, 0.5) > 1 - confidence)
    return math.sqrt(freedom * (1 - x) / x)


def _beta(x: float, a: float, b: float) -> float:
    """Regularised incomplete beta function I_x(a, b) by its continued fraction (NIST DLMF 8.17.22), Lentz's method."""
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    value, c, d, m = 1.0, 1.0, 0.0, 0
    while m < 10_000:
        half = m // 2
        if m == 0:
            step = 1.0
        elif m % 2 == 0:
            step = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        else:
            step = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        d = 1 / _away(1 + step * d)
        c = _away(1 + step / c)
        value *= c * d
        if abs(1 - c * d) < 3e-16:
            break
        m += 1
    return front * (value - 1)


def _away(value: float) -> float:
    """`value`, or a tiny number in the place of 0, by which Lentz's method may divide."""
    return value if abs(value) > 1e-300 else 1e-300


@cache
def _resamples(n: int, draws: int) -> tuple[tuple[int, ...], ...]:
    """`draws` times n places, each from 32 bits of a SHA-256 stream."""
    stream = b"".join(hashlib.sha256(f"{n} {i}".encode()).digest() for i in range(math.ceil(n * draws / 8)))
    words = [int.from_bytes(stream[4 * i : 4 * i + 4], "big") * n >> 32 for i in range(n * draws)]
    return tuple(tuple(words[n * i : n * i + n]) for i in range(draws))


def _check(k: int, n: int, confidence: float) -> None:
    if not 0 <= k <= n:
        raise ValueError(f"found {k} of {n}; expected 0 <= k <= n")
    if not 0 < confidence < 1:
        raise ValueError(f"found confidence {confidence}; expected a number between 0 and 1")


def _supports(k: int, n: int, bound: float, confidence: float) -> bool:
    """Whether k of n support at least `bound`: at that share, so many have at most the probability 1 - confidence."""
    return k > 0 and _at_least(k, n, bound) <= 1 - confidence


def _at_least(k: int, n: int, p: float) -> float:
    """Probability that a binomial count reaches k. Terms as logarithms: math.comb outgrows a float near n = 1030."""
    if k <= 0:
        return 1.0
    if k == n:
        return p**n
    log_p, log_q = math.log(p), math.log1p(-p)
    return math.fsum(math.exp(math.log(math.comb(n, i)) + i * log_p + (n - i) * log_q) for i in range(k, n + 1))


def _bisect(too_high: Callable[[float], bool]) -> float:
    """The point in (0, 1) where `too_high` turns from False to True, to the last float; the lower side of it."""
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if too_high(middle) else (middle, high)
    return low
