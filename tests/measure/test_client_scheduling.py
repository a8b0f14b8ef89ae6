"""The client's claim on a processor: taken while it measures, given back, and its waiting told as it was."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from rungproof.measure.client import scheduling
from rungproof.measure.selftest import burst_server, one_round
from rungproof.records import raw


@pytest.fixture
def crowd() -> Iterator[None]:
    """Three busy processes for every processor of this one."""
    cores = len(os.sched_getaffinity(0))
    made = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3 * cores)]
    yield
    for one in made:
        one.kill()
        one.wait()


def policies() -> set[int]:
    found = set()
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # one of an earlier test's that ends now
            found.add(os.sched_getscheduler(int(thread)))
    return found


def test_all_threads_come_first_inside_and_none_after() -> None:
    """Every thread has real-time priority inside, where the user may have it; everything is as before afterwards."""
    before, stop = policies(), threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    try:
        with scheduling.first_in_line() as got:
            inside = policies()
            child = subprocess.run(
                [sys.executable, "-c", "import os; print(os.sched_getscheduler(0))"], capture_output=True
            )
        assert inside == ({os.SCHED_FIFO | os.SCHED_RESET_ON_FORK} if got == "fifo" else before)
        assert int(child.stdout) == os.SCHED_OTHER
        assert policies() == before
    finally:
        stop.set()
        other.join()


def test_a_user_who_may_not_measures_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused by the kernel, or on a system without such a call, the client goes on as it is and says so."""

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    with scheduling.first_in_line() as got:
        assert got == "ordinary"
    monkeypatch.delattr(os, "sched_setscheduler")
    with scheduling.first_in_line() as got:
        assert got == "ordinary"


def test_a_kernel_that_tells_nothing_is_not_taken_for_no_wait(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    """Without schedstat the wait is unknown, never 0."""
    monkeypatch.setattr(scheduling, "TASKS", tmp_path)
    assert scheduling.waited_ns(scheduling.waits(), {}) in (None, 0)
    monkeypatch.setattr(scheduling, "_threads", lambda: [1])
    assert scheduling.waits() is None
    assert scheduling.waited_ns(None, {1: 5}) is None
    assert scheduling.waited_ns({1: 5, 2: 9}, {1: 12}) == 7


@pytest.mark.usefixtures("crowd")
def test_the_wait_in_a_crowd_is_in_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of equal rank among busy processes waits, and its record tells; one that comes first waits less."""
    with burst_server(5.0) as address:
        first = one_round(address, 4, 5.0, 40).lines[0]
        monkeypatch.setattr(os, "sched_setscheduler", lambda *_: (_ for _ in ()).throw(PermissionError(1, "no")))
        equal = one_round(address, 4, 5.0, 40).lines[0]
    assert isinstance(first, raw.Batch)
    assert isinstance(equal, raw.Batch)
    assert equal.scheduling == "ordinary"
    assert equal.wait_ns is not None
    assert equal.wait_ns > 0
    if first.scheduling == "fifo":
        assert first.wait_ns is not None
        assert first.wait_ns < equal.wait_ns
