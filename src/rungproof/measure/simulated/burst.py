"""S33, the burst server: every stream gets an event at each tick, as from an engine's step, with the server's own stamps in it.

It is what a client's stamps are held against, so it is made to be true itself: one thread on plain sockets, absolute
ticks, the stamp of an event taken right before its own write, and the arrival of a request taken from the kernel's
receive stamp, not from when this process came to read it. `GET /stats` says how late its ticks were.

The text of an event is `<sent> `, the monotonic time [ns] right before its write; that of the first one is
`<arrived>><sent> `. So a client that keeps the text carries the truth beside its own figures. A request may say
`interval_ms`, which holds from the next tick on for all streams, and `max_tokens`.
"""

import json
import select
import socket
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from rungproof.judge.rates import percentile
from rungproof.measure.client.clock import sample
from rungproof.measure.client.connect import allow_files
from rungproof.measure.client.scheduling import first_in_line
from rungproof.measure.client.stream import READ_SIZE, read_stamped, stamp_receives
from rungproof.measure.simulated.options import Options

MAX_REQUEST = 4 * 2**20  # bytes of one request
MAX_STREAMS = 8192
DEFAULT_TOKENS = 64
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
_END = b"data: [DONE]\n\n"


@dataclass(slots=True, eq=False)
class _Peer:
    """One connection: what it has sent us, and the stream that it is waiting for, if any."""

    socket: socket.socket
    got: bytearray = field(default_factory=bytearray)
    unsent: bytearray = field(default_factory=bytearray)
    before: bytes = b""
    between: bytes = b""
    after: bytes = b""
    ask: dict[str, Any] = field(default_factory=dict)
    arrived_ns: int = 0
    tokens: int = 0
    made: int = 0


@dataclass(slots=True)
class Ticks:
    """How true the server was since it was last asked: lateness and length of each tick [ns], events, and writes that blocked."""

    late_ns: list[int] = field(default_factory=list)
    burst_ns: list[int] = field(default_factory=list)
    events: int = 0
    blocked: int = 0
    skipped: int = 0

    def figures(self) -> dict[str, float | int | None]:
        """The same in words for /stats; None where there was no tick."""

        def ms(values: list[int], share: float) -> float | None:
            return percentile(values, share) / 1e6 if values else None

        return {
            "ticks": len(self.late_ns), "events": self.events, "blocked": self.blocked, "skipped": self.skipped,
            "late_p50_ms": ms(self.late_ns, 0.5), "late_p99_ms": ms(self.late_ns, 0.99), "late_max_ms": ms(self.late_ns, 1),
            "burst_p50_ms": ms(self.burst_ns, 0.5), "burst_p99_ms": ms(self.burst_ns, 0.99),
        }  # fmt: skip


class BurstServer:
    """The server, on a bound socket. `run` serves until this process is ended."""

    def __init__(self, bound: socket.socket, model: str, interval_ms: float, tell_rows: bool) -> None:
        allow_files(MAX_STREAMS)
        self._listener = bound
        self._listener.setblocking(False)
        stamp_receives(self._listener)  # connections inherit it, so that no early packet goes without a stamp
        self._listener.listen(4096)
        self._model = model
        self._tell_rows = tell_rows
        self._interval_ns = round(interval_ms * 1e6)
        self._poll = select.epoll()
        self._poll.register(self._listener, select.EPOLLIN)
        self._peers: dict[int, _Peer] = {}
        self._streams: list[_Peer] = []
        self._next_ns = 0
        self._ticks = Ticks()
        self._offset_ns = sample().offset_ns

    def run(self, owner: int | None) -> None:
        """Read between ticks, write at each tick, until the file `owner` (None: nothing) has something to say or ends."""
        if owner is not None:
            self._poll.register(owner, select.EPOLLIN)
        while self._read(self._left_s(), owner):
            if self._streams and time.monotonic_ns() >= self._next_ns:
                self._tick()

    def _left_s(self) -> float:
        """How long to wait for requests [s]. The kernel counts that in milliseconds, so the last one is slept through."""
        if not self._streams:
            return -1
        left_ns = self._next_ns - time.monotonic_ns()
        if 0 < left_ns < 1_000_000:
            time.sleep(left_ns / 1e9)
            left_ns = 0
        return max(0.0, left_ns // 1_000_000 / 1e3)

    def _read(self, timeout_s: float, owner: int | None) -> bool:
        for handle, mask in self._poll.poll(timeout_s):
            if handle == owner:
                return False
            if handle == self._listener.fileno():
                self._accept()
            elif (peer := self._peers.get(handle)) is not None:
                try:
                    if mask & select.EPOLLOUT:
                        self._flush(peer)
                    if mask & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                        self._receive(peer)
                except OSError:
                    self._leave(peer)
        return True

    def _accept(self) -> None:
        while True:
            try:
                made, _ = self._listener.accept()
            except OSError:
                return
            made.setblocking(False)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stamp_receives(made)
            self._peers[made.fileno()] = _Peer(made)
            self._poll.register(made, select.EPOLLIN)

    def _leave(self, peer: _Peer) -> None:
        if peer.socket.fileno() >= 0:
            self._peers.pop(peer.socket.fileno(), None)
            self._poll.unregister(peer.socket)
            peer.socket.close()
        if peer in self._streams:
            self._streams.remove(peer)

    def _receive(self, peer: _Peer) -> None:
        data, kernel_ns = read_stamped(peer.socket)
        if not data or len(peer.got) + len(data) > MAX_REQUEST:
            self._leave(peer)
            return
        peer.got += data
        head, found, rest = bytes(peer.got).partition(b"\r\n\r\n")
        length = _length_of(head)
        if not found or len(rest) < length:
            return
        peer.got = bytearray(rest[length:])
        peer.arrived_ns = time.monotonic_ns() if kernel_ns is None else kernel_ns - self._offset_ns
        method, path = (*head.split(b" ", 2)[:2], b"", b"")[:2]
        if method == b"POST" and path.endswith((b"/completions", b"/chat/completions")):
            self._begin(peer, rest[:length], chat=b"/chat/" in path)
        else:
            self._say(peer, self._page(path))

    def _page(self, path: bytes) -> object:
        if path.startswith(b"/stats"):
            figures, self._ticks = self._ticks.figures(), Ticks()
            return figures | {"cpu_s": time.process_time()}
        if path.startswith(b"/v1/models"):
            return {"object": "list", "data": [{"id": self._model, "object": "model", "max_model_len": 131072}]}
        return {}

    def _say(self, peer: _Peer, value: object, status: bytes = b"200 OK") -> None:
        body = json.dumps(value).encode()
        head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        self._write(peer, head % (status, len(body)) + body)

    def _begin(self, peer: _Peer, body: bytes, chat: bool) -> None:
        """Take a request into the next tick. The first one after a silence begins a new row of ticks."""
        try:
            ask = json.loads(body)
            peer.tokens = int(ask.get("max_tokens") or ask.get("max_completion_tokens") or DEFAULT_TOKENS)
            interval_ns = round(float(ask.get("interval_ms") or self._interval_ns / 1e6) * 1e6)
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            self._say(peer, {"error": {"message": "the body is no completions request"}}, b"400 Bad Request")
            return
        if len(self._streams) >= MAX_STREAMS or not (0 < peer.tokens <= 10**6 and interval_ns >= 10_000):
            self._say(peer, {"error": {"message": "more than this server gives"}}, b"400 Bad Request")
            return
        peer.ask, peer.made = ask, 0
        peer.before, peer.between, peer.after = _dress(self._model, chat)
        self._write(peer, _HEAD)
        self._interval_ns = interval_ns
        if not self._streams:
            self._next_ns = time.monotonic_ns() + interval_ns
            self._offset_ns = sample().offset_ns
            self._tell("begin")
        self._streams.append(peer)

    def _tell(self, words: str) -> None:
        if self._tell_rows:
            print(f"INFO:     ticks {words}", file=sys.stderr, flush=True)

    def _tick(self) -> None:
        begun = time.monotonic_ns()
        self._ticks.late_ns.append(begun - self._next_ns)
        done: list[_Peer] = []
        for peer in self._streams:
            peer.made += 1
            last = peer.made == peer.tokens
            finish = b'"length"' if last else b"null"
            now = time.monotonic_ns()
            said = b"%d " % now if peer.made > 1 else b"%d>%d " % (peer.arrived_ns, now)
            event = b"%b%b%b%d%b%b}]}\n\n" % (peer.before, said, peer.between, peer.made, peer.after, finish)
            data = b"%x\r\n%b\r\n" % (len(event), event)
            if last:
                data += self._ending(peer)
                done.append(peer)
            self._write(peer, data)
        self._ticks.events += len(self._streams)
        if done:
            self._streams = [peer for peer in self._streams if peer.made < peer.tokens]
            if not self._streams:
                self._tell(f"end after {self._ticks.events} events")
        now = time.monotonic_ns()
        self._ticks.burst_ns.append(now - begun)
        self._next_ns += self._interval_ns
        if self._next_ns < now - self._interval_ns:  # it cannot keep up: it says so, and does not hurry after
            self._ticks.skipped += 1
            self._next_ns = now

    def _ending(self, peer: _Peer) -> bytes:
        options = peer.ask.get("stream_options")
        usage = b""
        if isinstance(options, dict) and options.get("include_usage"):
            prompt = peer.ask.get("prompt")
            counts = {
                "prompt_tokens": len(prompt) if isinstance(prompt, (list, str)) else 1,
                "completion_tokens": peer.made,
            }
            counts["total_tokens"] = sum(counts.values())
            usage = b"data: %b\n\n" % json.dumps({"model": self._model, "choices": [], "usage": counts}).encode()
        return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (usage, _END) if part) + b"0\r\n\r\n"

    def _write(self, peer: _Peer, data: bytes) -> None:
        """Write now, or keep what the kernel does not take."""
        if peer.unsent:
            peer.unsent += data
            self._ticks.blocked += 1
            return
        try:
            sent = peer.socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # the read that follows reports that it is gone
        if sent < len(data):
            self._ticks.blocked += 1
            peer.unsent += data[sent:]
            self._poll.modify(peer.socket, select.EPOLLIN | select.EPOLLOUT)

    def _flush(self, peer: _Peer) -> None:
        del peer.unsent[: peer.socket.send(peer.unsent[:READ_SIZE])]
        if not peer.unsent:
            self._poll.modify(peer.socket, select.EPOLLIN)


def _length_of(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:") and line[15:].strip().isdigit():
            return int(line[15:])
    return 0


def _dress(model: str, chat: bool) -> tuple[bytes, bytes, bytes]:
    """An event but for its text, its token id and its finish reason."""
    kind = "chat.completion.chunk" if chat else "text_completion"
    head = json.dumps({"id": "burst", "object": kind, "created": int(time.time()), "model": model})[:-1]
    opened, closed = ('"delta":{"content":"', '"}') if chat else ('"text":"', '"')
    before = f'data: {head},"choices":[{{"index":0,{opened}'
    return before.encode(), f'{closed},"logprobs":null,"token_ids":['.encode(), b'],"finish_reason":'


def serve(bound: socket.socket, shown: str, options: Options) -> int:
    """Run the burst server on a bound socket, host:port of which is `shown`, until the process is told to end or its standard input ends."""
    if not sys.platform.startswith("linux"):
        print("the burst server needs Linux (epoll and receive stamps)", file=sys.stderr)
        return 1
    server = BurstServer(bound, options.served_model_name, options.burst_ms, options.tell_rows)
    with first_in_line():
        return _run(server, shown, options)


def _run(server: BurstServer, shown: str, options: Options) -> int:
    print(f"INFO:     Burst server running on http://{shown} (SIGTERM to quit)", file=sys.stderr, flush=True)
    server.run(sys.stdin.fileno() if options.end_with_stdin else None)
    return 0
