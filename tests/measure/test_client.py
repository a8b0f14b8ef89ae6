"""The measured path against a small server: every way to end, every byte kept, stamps that are true."""

import gc
import json
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from measure.client_server import TOKENS, Server
from measure.test_simulated_server import serving
from rungproof.judge.outcome import batch_of, result_of
from rungproof.judge.wire import parse_response
from rungproof.measure.client import Address, Kept, Planned, processes, run_batch
from rungproof.measure.client.stream import Stream
from rungproof.records import raw


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server on the IPv4 loopback."""
    made = Server("127.0.0.1")
    yield made
    made.close()


def plans(count: int, delay_ns: int = 0) -> list[Planned]:
    """`count` requests, each `delay_ns` after the one before."""
    return [Planned(f"k{i}", {"prompt": [i], "stream": True}, delay_ns * i) for i in range(count)]


def go(address: Address, path: str, planned: list[Planned], **how: Any) -> tuple[raw.Batch, list[raw.Request]]:
    """One batch. Its limits are only for what never ends: a test in which one passes sets another."""
    return run_batch(address, planned, batch="b", path=path, **{"deadline_s": 120.0, "idle_s": 60.0, **how})


def received(request: raw.Request) -> bytes:
    """The bytes of the response."""
    return request.bytes.encode("latin-1")


def judge(request: raw.Request, tokens: int = TOKENS) -> str:
    """The state of a request."""
    return result_of(request, window=2, tokens=tokens, exact_length=True, prompt_tokens=1).state


def test_normal_stream(server: Server) -> None:
    """A good answer is stored whole, in order, from connect to end."""
    batch, (request,) = go(server.address, "/normal", plans(1))
    found = result_of(request, window=TOKENS, tokens=TOKENS, exact_length=True, prompt_tokens=1)
    assert (found.state, found.reasons, request.end) == ("complete", (), "framed")
    assert found.token_ids == tuple(range(TOKENS))
    assert found.decode_rate is not None
    assert request.connected_ns is not None
    assert request.sent_ns is not None
    assert request.sent_end_ns is not None
    assert request.connected_ns <= batch.start_ns <= request.sent_ns <= request.sent_end_ns <= request.end_ns
    summed = batch_of(batch, [found])
    assert summed.aggregate is not None
    assert summed.states["complete"] == 1
    lines = raw.decode(raw.encode([raw.Header("s", "n", "w"), batch, request]), "x")
    assert lines[1:] == [batch, request]


def test_the_body_is_what_was_recorded(server: Server) -> None:
    """The server gets exactly the recorded bytes: compact UTF-8 JSON, with nothing added, on a kept connection."""
    body = {"prompt": '狐 "a"\n', "temperature": 0.0, "seed": 42}
    _, (request,) = go(server.address, "/echo", [Planned("k", body)])
    sent = request.body.encode("latin-1")
    assert sent == json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    assert received(request).endswith(b"\r\n\r\n" + sent)
    head = server.hits[-1][1].lower()
    assert f"host: 127.0.0.1:{server.address.port}" in head
    assert "connection:" not in head


def test_proxies_are_never_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """B55: a proxy in the environment does not touch the measured path."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert judge(go(server.address, "/normal", plans(1))[1][0]) == "complete"


def test_one_byte_at_a_time(server: Server) -> None:
    """A server that writes single bytes is measured as any other."""
    _, (request,) = go(server.address, "/drip", plans(1))
    assert judge(request, tokens=2) == "complete"


@pytest.mark.parametrize(
    ("path", "end", "state"),
    [("/reset", "reset", "truncated"), ("/early", "eof", "truncated"), ("/silent", "timeout", "timeout"),
     ("/503", "framed", "http_error"), ("/noise", "client_error", "client_error"), ("/open", "framed", "complete")],
)  # fmt: skip
def test_each_ending(server: Server, path: str, end: str, state: str) -> None:
    """However a server ends an answer, the request ends so, soon, with its bytes kept, and is never sent again."""
    hits = len(server.hits)
    began = time.monotonic()
    _, (request,) = go(server.address, path, plans(1), idle_s=1.0 if end == "timeout" else 60.0)
    assert time.monotonic() - began < 30
    assert (request.end, judge(request)) == (end, state)
    if state in ("truncated", "timeout"):
        assert [e.token_ids for e in parse_response(_stamped(request)).events] == [(0,), (1,)]
        assert request.detail
    assert len(server.hits) == hits + 1


def _stamped(request: raw.Request) -> list[tuple[int, bytes]]:
    data, at, made = received(request), 0, []
    for at_ns, length in request.chunks:
        made.append((at_ns, data[at : at + length]))
        at += length
    assert at == len(data)
    return made


def test_deadline_ends_the_batch(server: Server) -> None:
    """A batch is over at its deadline, whatever its idle limit, and keeps what came."""
    began = time.monotonic()
    _, requests = go(server.address, "/silent", plans(3), deadline_s=1.5, idle_s=60.0)
    assert 1.4 < time.monotonic() - began < 30
    assert [r.end for r in requests] == ["timeout"] * 3
    assert all("deadline" in r.detail and r.chunks for r in requests)


def test_cancelled_by_the_caller(server: Server) -> None:
    """A caller that must stop gets what came so far, each request marked cancelled."""
    hits = len(server.hits)
    _, requests = go(server.address, "/silent", plans(2), cancelled=once_answered(server, hits + 2))
    assert [r.end for r in requests] == ["cancelled"] * 2
    assert all(r.chunks for r in requests)


def once_answered(server: Server, hits: int) -> Callable[[], bool]:
    """True some time after the server has had so many requests: long enough for the first tokens of their answers to come."""
    seen: list[float] = []

    def asked() -> bool:
        if len(server.hits) >= hits:
            seen.append(time.monotonic())
        return bool(seen) and time.monotonic() - seen[0] > 0.3

    return asked


def test_refused() -> None:
    """A closed port ends every request as refused, and nothing is raised."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = Address("127.0.0.1", free.getsockname()[1])
    batch, requests = go(address, "/normal", plans(3))
    assert [(r.end, r.sent_ns, r.chunks) for r in requests] == [("refused", None, ())] * 3
    assert batch.planned == ("k0", "k1", "k2")
    assert batch.stamp_source == "user"


def test_unknown_host() -> None:
    """A name without an address ends every request as a client error that names it."""
    _, (request,) = go(Address("no-such-host.invalid", 80), "/normal", plans(1))
    assert request.end == "client_error"
    assert "no-such-host.invalid" in request.detail


def test_a_server_that_never_accepts() -> None:
    """A connection that is taken but never served ends by the idle limit with no bytes."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        _, (request,) = go(Address("127.0.0.1", listener.getsockname()[1]), "/normal", plans(1), idle_s=0.5)
    assert (request.end, request.bytes) == ("timeout", "")
    assert request.sent_ns is not None


def test_oversize_is_bounded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body without end is cut at the bound, and the request says so."""
    monkeypatch.setattr("rungproof.judge.http1.MAX_RESPONSE", 3_000_000)
    _, (request,) = go(server.address, "/flood", plans(1))
    assert (request.end, judge(request)) == ("oversize", "client_error")
    assert 3_000_000 <= len(request.bytes) < 3_200_000


def test_large_request_is_sent_whole(server: Server) -> None:
    """A request larger than the socket's buffer goes out whole while answers of others come in."""
    body = {"prompt": list(range(400_000))}
    _, requests = go(server.address, "/echo", [Planned("a", body), Planned("b", {"prompt": []})])
    assert [r.end for r in requests] == ["framed"] * 2
    assert all(received(r).endswith(r.body.encode("latin-1")) and r.sent_end_ns is not None for r in requests)


def test_stagger(server: Server) -> None:
    """Delayed requests are sent after their delay from the barrier, not before, on connections that were open at it."""
    batch, requests = go(server.address, "/normal", plans(4, delay_ns=40_000_000))
    for i, request in enumerate(requests):
        assert request.sent_ns is not None
        assert request.connected_ns is not None
        assert 0 <= request.sent_ns - batch.start_ns - i * 40_000_000 < 10_000_000_000
        assert request.connected_ns <= batch.start_ns
        assert judge(request) == "complete"


def test_a_delay_longer_than_the_idle_limit(server: Server) -> None:
    """The idle limit counts from the send, so a late admission is no silence."""
    _, requests = go(server.address, "/normal", plans(2, delay_ns=1_500_000_000), idle_s=1.0)
    assert [judge(r) for r in requests] == ["complete"] * 2


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
        for one in parse_response(_stamped(request)).events:
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
    lags = [one.at_ns - int(one.text) for one in parse_response(_stamped(request)).events]
    assert len(lags) == 2
    assert max(lags) < 900_000_000


def test_own_stamps_where_the_kernel_has_none(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without kernel stamps the batch says so and carries stamps that are later, never earlier."""
    monkeypatch.setattr("rungproof.measure.client.stream.SO_TIMESTAMPNS", 32_000)
    batch, (request,) = go(server.address, "/normal", plans(1))
    assert batch.stamp_source == "user"
    assert all(e.at_ns >= int(e.text) for e in parse_response(_stamped(request)).events)


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


def test_ipv6() -> None:
    """An IPv6 server is measured as any other."""
    try:
        made = Server("::1")
    except OSError:
        pytest.skip("this host has no IPv6 loopback")
    try:
        _, (request,) = go(made.address, "/normal", plans(1))
        assert judge(request) == "complete"
        assert "host: [::1]:" in made.hits[0][1].lower()
    finally:
        made.close()


def test_a_name_with_several_addresses(server: Server) -> None:
    """A name that also has an address where nobody listens still reaches the server."""
    _, requests = go(Address("localhost", server.address.port), "/normal", plans(2))
    assert [judge(r) for r in requests] == ["complete"] * 2


def test_a_request_has_a_deadline_of_its_own(server: Server) -> None:
    """A request that goes on too long ends by itself, counted from its own send; the batch goes on."""
    _, requests = go(server.address, "/silent", plans(2, delay_ns=300_000_000), request_s=1.0)
    assert [r.end for r in requests] == ["timeout"] * 2
    for request in requests:
        assert request.sent_ns is not None
        assert 1_000_000_000 < request.end_ns - request.sent_ns < 30_000_000_000
        assert "within" in request.detail
        assert request.chunks


def test_interim_responses_and_every_body_framing(tmp_path: Path) -> None:
    """1xx responses are passed over; chunked, sized and until-close bodies end where they end."""
    with serving(tmp_path) as simulated:
        address = Address("127.0.0.1", simulated.port)
        body = {"prompt": [1], "max_tokens": 8, "stream": True}
        ends = {"S66": "framed", "S00": "framed", "S03": "eof", "S42": "framed"}
        for name, end in ends.items():
            _, (request,) = go(address, f"/{name}/v1/completions", [Planned("k", body)])
            assert request.end == end, name
            assert parse_response(_stamped(request)).complete_framing


def test_connections_are_kept_where_asked_for(tmp_path: Path) -> None:
    """With `kept`, the next batch goes out on the same connections; without, each request has a fresh one."""
    body = {"prompt": "x", "max_tokens": 4, "stream": True, "return_token_ids": True}
    planned = [Planned(f"k{i}", body) for i in range(3)]
    with serving(tmp_path) as simulated:
        address = Address("127.0.0.1", simulated.port)
        kept = Kept()
        try:
            first = go(address, "/v1/completions", planned, kept=kept)[1]
            held = {one.fileno() for one in kept.idle}
            ports = {one.getsockname()[1] for one in kept.idle}
            second = go(address, "/v1/completions", planned[:2], kept=kept)[1]
            assert {one.fileno() for one in kept.idle} == held
            assert {one.getsockname()[1] for one in kept.idle} == ports
        finally:
            kept.close()
        assert len(held) == 3
        assert {r.end for r in (*first, *second)} == {"framed"}


def test_a_kept_connection_that_was_closed_is_not_used(server: Server) -> None:
    """The test server closes after each answer: the next request finds that out before it is sent, and is sent fresh."""
    kept = Kept()
    for _ in range(2):
        _, (request,) = go(server.address, "/normal", plans(1), kept=kept)
        assert judge(request) == "complete"
        assert select.select(kept.idle, [], [], 60)[0] == kept.idle, "the server has closed it"
    assert kept.take() is None
    _, (request,) = go(server.address, "/reset", plans(1), kept=kept)
    assert (request.end, kept.idle) == ("reset", [])


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
        for one in parse_response(_stamped(request)).events:
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


@pytest.mark.parametrize(
    "change",
    [{"planned": []}, {"planned": [Planned("a", {}), Planned("a", {})]}, {"planned": [Planned("a", {}, -1)]},
     {"path": "x"}, {"path": "/a b"}, {"path": "/a\r\nX: y"}, {"address": Address("a\r\nb", 1)},
     {"address": Address("a", 0)}, {"deadline_s": 0.0}, {"idle_s": -1.0},
     {"planned": [Planned("a", {"x": float("nan")})]}, {"request_s": 0.0}, {"processes": 0}, {"processes": 2}],
)  # fmt: skip
def test_a_wrong_call_is_refused_before_anything_is_sent(server: Server, change: dict[str, Any]) -> None:
    """What cannot be sent as asked is an error of the caller, and the server sees nothing of it."""
    hits = len(server.hits)
    call = {
        "address": server.address,
        "planned": plans(1),
        "path": "/normal",
        "deadline_s": 1.0,
        "idle_s": 1.0,
        **change,
    }
    with pytest.raises(ValueError, match=r"expected|JSON"):
        run_batch(call.pop("address"), call.pop("planned"), batch="b", **call)
    assert len(server.hits) == hits
