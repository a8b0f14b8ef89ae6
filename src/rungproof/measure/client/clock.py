"""From the kernel's receive stamps (real-time clock) to the monotonic clock, and how well that is known."""

import time
from collections.abc import Callable
from dataclasses import dataclass

SAMPLES = 64


@dataclass(frozen=True, slots=True)
class Mapping:
    """monotonic = realtime - offset_ns, within error_ns."""

    offset_ns: int
    error_ns: int


def sample(
    monotonic: Callable[[], int] = time.monotonic_ns,
    realtime: Callable[[], int] = time.time_ns,
    samples: int = SAMPLES,
) -> Mapping:
    """Read the real-time clock between two monotonic reads, many times, and keep the tightest pair.

    The true offset lies within half the pair's distance of its middle, whatever interrupted the other pairs.
    """
    best: Mapping | None = None
    for _ in range(samples):
        before, real, after = monotonic(), realtime(), monotonic()
        error_ns = (after - before + 1) // 2 + 1
        if best is None or error_ns < best.error_ns:
            best = Mapping(real - (before + after) // 2, error_ns)
    if best is None:
        raise ValueError("no sample of the clocks was asked for; expected at least one")
    return best


def span(first: Mapping, second: Mapping) -> Mapping:
    """One mapping for all that happened between two: the middle offset, with an error that covers drift or a step."""
    low = min(first.offset_ns - first.error_ns, second.offset_ns - second.error_ns)
    high = max(first.offset_ns + first.error_ns, second.offset_ns + second.error_ns)
    return Mapping((low + high) // 2, (high - low + 1) // 2)
