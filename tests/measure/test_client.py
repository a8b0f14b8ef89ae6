"""The measured path against a small server: every way to end, every byte kept."""

import json
import select
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from measure.client_kit import go, judge, once_answered, plans, received, stamped
from measure.client_server import TOKENS, Server
from measure.test_simulated_server import serving
from rungproof.judge.outcome import batch_of, result_of
from rungproof.judge.wire import parse_response
from rungproof.measure.client import Address, Kept, Planned, run_batch
from rungproof.records import raw


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server on the IPv4 loopback."""
    made = Server("127.0.0.1")
    yield made
    made.close()


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
        assert [e.token_ids for e in parse_response(stamped(request)).events] == [(0,), (1,)]
        assert request.detail
    assert len(server.hits) == hits + 1


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
            assert parse_response(stamped(request)).complete_framing


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
