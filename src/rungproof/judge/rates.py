"""Rates from arrival stamps [ns] and counts [tokens]. None wherever a number would not mean anything."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil

from rungproof.judge.stats import median

SECOND = 10**9  # ns
# A span below this is within the reach of one late stamp (client-side stamps have been seen 0.4 ms late), and no engine
# makes a window or a batch in less: a rate over it would be the clock's, not the server's.
RESOLUTION_NS = 1_000_000


def decode_rate(arrivals_ns: Sequence[int | Fraction], window: int) -> float | None:
    """Decode rate over the first `window` tokens [tokens/s]: (w - 1) / (t_w - t_1), counting tokens from 1.

    `arrivals_ns` holds one arrival a token, in order; tokens of one event share their arrival. None: fewer tokens than
    the window, or less than RESOLUTION_NS passed between its ends.
    Exact: one correctly rounded division. Raises ValueError for a window below 2 tokens.
    """
    if window < 2:
        raise ValueError(f"found a window of {window} tokens; a rate needs at least 2")
    if len(arrivals_ns) < window:
        return None
    span = arrivals_ns[window - 1] - arrivals_ns[0]
    return float((window - 1) * SECOND / span) if span >= RESOLUTION_NS else None


def aggregate_rate(completion_tokens: int, wall_ns: int) -> float | None:
    """Tokens of all requests of a batch over its wall time [tokens/s]; None without tokens or in less than RESOLUTION_NS."""
    return completion_tokens * SECOND / wall_ns if completion_tokens > 0 and wall_ns >= RESOLUTION_NS else None


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all values do not exceed (nearest rank); 1 gives the largest.

    Raises ValueError for no values or a share outside (0, 1].
    """
    if not values or not 0 < share <= 1:
        raise ValueError(f"found {len(values)} values and share {share}; expected at least one, and 0 < share <= 1")
    return float(sorted(values)[ceil(share * len(values)) - 1])


def class_balanced_median(rates: Mapping[str, Sequence[float]]) -> float:
    """Median of the medians of the classes, so that a class with more prompts weighs no more than another.

    Raises ValueError where there is no class, or a class has no rate.
    """
    for name, values in rates.items():
        if not values:
            raise ValueError(f"class {name!r} has no rate; the class-balanced median needs at least one of every class")
    return median([median(values) for values in rates.values()])
