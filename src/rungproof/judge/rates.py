"""Rates from arrival stamps [ns] and counts [tokens]. None wherever a number would not mean anything."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from rungproof.judge.stats import median

SECOND = 10**9  # ns


def decode_rate(arrivals_ns: Sequence[int | Fraction], window: int) -> float | None:
    """Decode rate over the first `window` tokens [tokens/s]: (w - 1) / (t_w - t_1), counting tokens from 1.

    `arrivals_ns` holds one arrival a token, in order; tokens of one event share their arrival. None: fewer tokens than
    the window, or no time passed between its ends (a rate would be a division by the clock's resolution).
    Exact: one correctly rounded division. Raises ValueError for a window below 2 tokens.
    """
    if window < 2:
        raise ValueError(f"found a window of {window} tokens; a rate needs at least 2")
    if len(arrivals_ns) < window:
        return None
    span = arrivals_ns[window - 1] - arrivals_ns[0]
    return float((window - 1) * SECOND / span) if span > 0 else None


def aggregate_rate(completion_tokens: int, wall_ns: int) -> float | None:
    """Tokens of all requests of a batch over its wall time [tokens/s]; None without tokens or without time."""
    return completion_tokens * SECOND / wall_ns if completion_tokens > 0 and wall_ns > 0 else None


def class_balanced_median(rates: Mapping[str, Sequence[float]]) -> float:
    """Median of the medians of the classes, so that a class with more prompts weighs no more than another.

    Raises ValueError where there is no class, or a class has no rate.
    """
    for name, values in rates.items():
        if not values:
            raise ValueError(f"class {name!r} has no rate; the class-balanced median needs at least one of every class")
    return median([median(values) for values in rates.values()])
