"""The mapping from the real-time to the monotonic clock."""

import random
import time

import pytest

from rungproof.measure.client.clock import Mapping, sample, span


class Clocks:
    """Two clocks that read the same moment, each read taking some time; `late` reads are interrupted for 5 ms."""

    def __init__(self, offset: int, seed: int) -> None:
        self.now = 10**12
        self.offset = offset
        self.rng = random.Random(seed)

    def _pass(self) -> None:
        self.now += self.rng.randrange(30, 90) + (5_000_000 if self.rng.random() < 0.5 else 0)

    def monotonic(self) -> int:
        """Reading of the monotonic clock."""
        self._pass()
        return self.now

    def realtime(self) -> int:
        """Reading of the real-time clock."""
        self._pass()
        return self.now + self.offset


@pytest.mark.parametrize("seed", range(20))
def test_the_error_covers_the_truth_and_interrupts_do_not_widen_it(seed: int) -> None:
    """The true offset lies within the error, which is that of the quietest reading."""
    clocks = Clocks(1_700_000_000 * 10**9 + seed, seed)
    found = sample(clocks.monotonic, clocks.realtime)
    assert abs(found.offset_ns - clocks.offset) <= found.error_ns < 100


def test_span_covers_both_ends() -> None:
    """A drift or a step between two mappings lies inside the error of their span."""
    found = span(Mapping(100, 5), Mapping(1100, 9))
    for true in (95, 105, 1091, 1109):
        assert abs(found.offset_ns - true) <= found.error_ns
    assert found.error_ns == 507
    assert span(Mapping(7, 3), Mapping(7, 3)) == Mapping(7, 3)


def test_real_clocks() -> None:
    """On a real host the mapping is known to well below a millisecond."""
    found = sample()
    assert 0 < found.error_ns < 1_000_000
    assert abs(time.time_ns() - found.offset_ns - time.monotonic_ns()) < 1_000_000_000


def test_no_sample_is_refused() -> None:
    """No mapping is made from nothing."""
    with pytest.raises(ValueError, match="no sample"):
        sample(samples=0)
