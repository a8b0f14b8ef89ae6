"""Coverage of every interval of judge/stats at the sample sizes that it allows, as a table; `python tests/judge/coverage_table.py` prints it.

Binomial intervals are enumerated, not simulated: over a grid of true shares, the least and the mean probability with which the
interval holds the share. The others are simulated with fixed seeds on three shapes of distribution.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from random import Random

from rungproof.judge.stats import (
    Interval,
    Ratio,
    Refused,
    bootstrap,
    lower_bound,
    median_interval,
    rate_ratio,
    t_interval,
    wilson,
)

DRAWS, BOOTSTRAP_DRAWS = 4000, 500
GRID = [i / 200 for i in range(1, 200)]
Row = tuple[str, int, str, float, float]  # what, n, shape, coverage (for a share: the least over the grid), its mean

# Rates of fresh servers: a centre of 100 and what else differs. Each: (draw, its mean, its median).
SHAPES: dict[str, tuple[Callable[[Random], float], float, float]] = {
    "normal, 1 %": (lambda r: r.gauss(100, 1), 100.0, 100.0),
    "uniform": (lambda r: r.uniform(98, 102), 100.0, 100.0),
    "skewed (log-normal, sigma 0.5)": (lambda r: r.lognormvariate(0, 0.5), math.exp(0.125), 1.0),
}


@cache
def rows() -> tuple[Row, ...]:
    """All rows of the table."""
    return tuple(_rows())


def _rows() -> Iterator[Row]:
    for n in (1, 2, 3, 12, 18, 59, 128):
        yield "Clopper-Pearson, one-sided", n, "binomial", *_enumerated(n, lambda k, n: (lower_bound(k, n) or 0.0, 1.0))
    for n in (1, 2, 3, 12, 18, 59, 128):
        yield "Wilson, two-sided", n, "binomial", *_enumerated(n, lambda k, n: wilson(k, n) or (0.0, 1.0))
    for name, sizes, make, of_mean, draws in (
        ("t interval of the mean", (4, 5, 6, 8, 12), t_interval, True, DRAWS),
        ("order-statistic interval of the median", (6, 7, 8, 9, 12, 20), median_interval, False, DRAWS),
        ("expanded percentile bootstrap of the mean", (8, 10, 15), _bootstrap, True, BOOTSTRAP_DRAWS),
    ):
        for n in sizes:
            for shape in SHAPES:
                share = _simulated(make, n, shape, of_mean, draws)
                yield name, n, shape, share, share
    for n in (4, 5, 8):
        for paired in (False, True):
            share = _ratio(n, paired)
            yield f"ratio of two arms, {'paired' if paired else 'unpaired'}", n, "log-normal, 2 %", share, share


def table() -> str:
    """The rows as Markdown."""
    lines = ["| interval (95 %) | n | distribution | coverage | mean |", "|---|---|---|---|---|"]
    lines += [f"| {what} | {n} | {shape} | {least:.3f} | {mean:.3f} |" for what, n, shape, least, mean in rows()]
    return "\n".join(lines) + "\n"


def _enumerated(n: int, make: Callable[[int, int], tuple[float, float]]) -> tuple[float, float]:
    intervals = [make(k, n) for k in range(n + 1)]
    held = []
    for p in GRID:
        chances = (math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1))
        held.append(math.fsum(c for c, (low, high) in zip(chances, intervals, strict=True) if low <= p <= high))
    return min(held), math.fsum(held) / len(held)


def _simulated(
    make: Callable[[Sequence[float]], Interval | Refused], n: int, shape: str, of_mean: bool, draws: int
) -> float:
    draw, mean, median = SHAPES[shape]
    truth, random, held = mean if of_mean else median, Random(f"{shape} {n}"), 0
    for _ in range(draws):
        made = make([draw(random) for _ in range(n)])
        assert isinstance(made, Interval), made
        held += made.low <= truth <= made.high
    return held / draws


def _bootstrap(values: Sequence[float]) -> Interval | Refused:
    return bootstrap(values, lambda v: math.fsum(v) / len(v), draws=999)


def _ratio(n: int, paired: bool) -> float:
    random, held = Random(f"ratio {n} {paired}"), 0
    for _ in range(DRAWS):
        hosts = [random.lognormvariate(0, 0.02) if paired else 1.0 for _ in range(n)]
        got = [1.5 * host * random.lognormvariate(0, 0.02) for host in hosts]
        base = [host * random.lognormvariate(0, 0.01) for host in hosts]
        made = rate_ratio(got, base, paired)
        assert isinstance(made, Ratio), made
        held += made.interval.low <= 1.5 <= made.interval.high
    return held / DRAWS


if __name__ == "__main__":
    print(table(), end="")
