"""Stamps are true: the kernel's are on before a batch begins, their absence is told, and a clock that steps is not trusted."""

import socket
import sys
import time
from collections.abc import Iterator

import pytest

from measure.client_kit import go, judge, plans, stamped
from measure.client_server import TOKENS, Server
from rungproof.judge.wire import parse_response
from rungproof.measure.client import stamps
from rungproof.measure.client.stream import Stream, read_stamped
from rungproof.measure.selftest import burst_server, one_round


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server on the IPv4 loopback."""
    made = Server("127.0.0.1")
    yield made
    made.close()


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has measured nothing yet."""
    monkeypatch.setattr(stamps, "_kept", [])


@pytest.mark.usefixtures("fresh")
def test_stamps_are_on_when_it_says_so() -> None:
    """A connection made and read at once after that has a stamp on its first byte."""
    if not stamps.switch_on():
        pytest.skip("this kernel gives no receive stamps")
    for _ in range(50):
        with (
            socket.create_server(("127.0.0.1", 0)) as listener,
            socket.create_connection(listener.getsockname()) as sends,
        ):
            receives, _ = listener.accept()
            with receives:
                stamps.stamp_receives(receives)
                sends.send(b".")
                assert read_stamped(receives)[1] is not None


def test_every_batch_of_a_process_has_the_same_source_of_stamps() -> None:
    """Many short batches, each on fresh connections: none falls back because stamps came too late for its first byte."""
    with burst_server(1.0) as address:
        sources = [one_round(address, 1, 1.0, 2).stamp_source for _ in range(30)]
    assert len(set(sources)) == 1


@pytest.mark.usefixtures("fresh")
def test_a_kernel_without_stamps_is_waited_for_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no stamp ever comes it says so, and where no loopback is to be had nothing is raised."""
    monkeypatch.setattr(stamps, "PATIENCE_S", 0.05)
    monkeypatch.setattr(stamps, "read_stamped", lambda connection: (connection.recv(1), None))
    assert not stamps.switch_on()

    def refuse(*_: object) -> None:
        raise OSError(99, "Cannot assign requested address")

    monkeypatch.setattr(stamps, "_kept", [])
    monkeypatch.setattr(socket, "create_server", refuse)
    assert not stamps.switch_on()


def test_many_streams_with_true_stamps(server: Server) -> None:
    """64 streams at once: all are in flight together, and no stamp lies before the server's own send stamp."""
    batch, requests = go(server.address, "/normal", plans(64))
    if sys.platform.startswith("linux"):
        assert batch.stamp_source == "kernel"
    assert batch.error_ns < 1_000_000
    lags = []
    for request in requests:
        assert judge(request) == "complete"
        assert request.connected_ns is not None
        assert request.connected_ns <= batch.start_ns
        for one in parse_response(stamped(request)).events:
            lags.append(one.at_ns - int(one.text))
    assert len(lags) == 64 * TOKENS
    assert min(lags) >= -batch.error_ns
    assert sorted(lags)[len(lags) // 2] < 1_000_000_000
    sent = [r.sent_ns for r in requests if r.sent_ns is not None]
    assert max(sent) < min(r.end_ns for r in requests)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="kernel stamps are Linux's")
def test_a_slow_client_does_not_move_the_stamps(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """B22: where this process reads late, the stamps still say when the bytes came."""
    prompt_receive = Stream.receive

    def late_receive(stream: Stream) -> None:
        time.sleep(1.0)
        prompt_receive(stream)

    monkeypatch.setattr(Stream, "receive", late_receive)
    batch, (request,) = go(server.address, "/silent", plans(1), idle_s=1.5)
    assert batch.stamp_source == "kernel"
    lags = [one.at_ns - int(one.text) for one in parse_response(stamped(request)).events]
    assert len(lags) == 2
    assert max(lags) < 900_000_000


def test_own_stamps_where_the_kernel_has_none(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without kernel stamps the batch says so and carries stamps that are later, never earlier."""
    monkeypatch.setattr("rungproof.measure.client.stream.SO_TIMESTAMPNS", 32_000)
    batch, (request,) = go(server.address, "/normal", plans(1))
    assert batch.stamp_source == "user"
    assert all(e.at_ns >= int(e.text) for e in parse_response(stamped(request)).events)


def test_a_stepped_clock_is_not_trusted(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the real-time clock steps during a batch, its kernel stamps are not used and the error covers the step."""
    from rungproof.measure.client import clock

    true = clock.sample().offset_ns
    offsets = iter([clock.Mapping(true, 10), clock.Mapping(true + 50_000_000, 10)])
    monkeypatch.setattr(clock, "sample", lambda: next(offsets))
    batch, (request,) = go(server.address, "/normal", plans(1))
    assert (batch.stamp_source, batch.offset_ns, batch.error_ns) == ("user", true + 25_000_000, 25_000_010)
    assert judge(request) == "complete"


def test_a_clock_stepped_and_stepped_back_is_not_trusted(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """If kernel stamps lie after the reads they belong to, they are not used, although both ends of the batch agree."""
    from rungproof.measure.client import clock

    true = clock.sample()
    monkeypatch.setattr(clock, "sample", lambda: clock.Mapping(true.offset_ns - 10**9, 10))
    batch, (request,) = go(server.address, "/normal", plans(1))
    assert batch.stamp_source == "user"
    assert judge(request) == "complete"
