"""Several measuring processes behind one barrier, and what each leaves as it was."""

import gc
import subprocess
import time
from collections.abc import Iterator

import pytest

from measure.client_kit import go, judge, once_answered, plans, stamped
from measure.client_server import Server
from rungproof.judge.wire import parse_response
from rungproof.measure.client import processes


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server on the IPv4 loopback."""
    made = Server("127.0.0.1")
    yield made
    made.close()


def test_several_processes_share_one_barrier(server: Server) -> None:
    """Streams spread over processes are one batch: one start, one clock, the planned order, no token lost."""
    batch, requests = go(server.address, "/slow", plans(24), processes=3)
    assert (batch.processes, batch.planned) == (3, tuple(f"k{i}" for i in range(24)))
    assert [r.key for r in requests] == list(batch.planned)
    assert [judge(r) for r in requests] == ["complete"] * 24
    assert batch.cpu_ns is not None
    assert batch.cpu_ns > 0
    for request in requests:
        assert request.connected_ns is not None
        assert request.sent_ns is not None
        assert request.connected_ns <= batch.start_ns <= request.sent_ns
        for one in parse_response(stamped(request)).events:
            assert one.at_ns >= int(one.text) - batch.error_ns
    assert max(r.sent_ns for r in requests if r.sent_ns) < min(r.end_ns for r in requests)


def test_a_process_that_dies_loses_its_own_requests_alone(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The requests of a measuring process that ends are client errors with the reason; the others are measured."""
    start = processes._start
    made: list[subprocess.Popen[bytes]] = []

    def second_dies() -> subprocess.Popen[bytes]:
        made.append(start())
        if len(made) == 2:
            made[-1].kill()
        return made[-1]

    monkeypatch.setattr(processes, "_start", second_dies)
    _, requests = go(server.address, "/normal", plans(4), processes=2)
    assert [judge(r) for r in requests] == ["complete", "client_error"] * 2
    assert "process ended" in requests[1].detail
    assert all(one.poll() is not None for one in made)


def test_several_processes_are_cancelled_together(server: Server) -> None:
    """A caller that must stop ends all processes, and gets what came so far."""
    began, hits = time.monotonic(), len(server.hits)
    _, requests = go(server.address, "/silent", plans(4), processes=2, cancelled=once_answered(server, hits + 4))
    assert [r.end for r in requests] == ["cancelled"] * 4
    assert all(r.chunks for r in requests)
    assert time.monotonic() - began < 50


def test_garbage_collection_is_as_before(server: Server) -> None:
    """The collector is off while measuring only, and left as it was found."""
    seen = []

    def look() -> bool:
        seen.append(gc.isenabled())
        return True

    assert gc.isenabled()
    go(server.address, "/silent", plans(1), cancelled=look)
    assert seen == [False]
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    gc.disable()
    try:
        go(server.address, "/normal", plans(1))
        assert not gc.isenabled()
    finally:
        gc.enable()
