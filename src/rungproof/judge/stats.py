"""Exact statistics with the standard library alone."""

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist


def median(values: Sequence[float]) -> float:
    """Middle value; the mean of the two middle ones where their number is even. Raises ValueError for no values."""
    if not values:
        raise ValueError("the median of no values was asked for; it needs at least one")
    ordered = sorted(values)
    half = len(ordered) // 2
    return float(ordered[half]) if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def lower_bound(k: int, n: int, confidence: float = 0.95) -> float | None:
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


def wilson(k: int, n: int, confidence: float = 0.95) -> tuple[float, float] | None:
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


def _check(k: int, n: int, confidence: float) -> None:
    if not 0 <= k <= n:
        raise ValueError(f"found {k} of {n}; expected 0 <= k <= n")
    if not 0 < confidence < 1:
        raise ValueError(f"found confidence {confidence}; expected a number between 0 and 1")


def _at_least(k: int, n: int, p: float) -> float:
    """Probability that a binomial count reaches k. Terms as logarithms: math.comb outgrows a float near n = 1030."""
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
