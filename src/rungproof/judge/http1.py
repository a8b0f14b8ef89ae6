"""HTTP/1.1 response framing without input or output: feed bytes, get body bytes, learn where the response ends.

Follows RFC 9112 (message framing) for a response to a POST. Lenient where servers differ harmlessly (a lone line feed
ends a line), strict where a guess could hide a cut or a damaged answer: then `problem` says what was found.
"""

import re
from collections.abc import Callable

MAX_RESPONSE = 64 * 2**20  # bytes of one response, headers included; no single line has a limit of its own in a body
MAX_HEAD = 256 * 2**10  # bytes of all header lines, of all trailer lines, or of one chunk-size line

_STATUS = re.compile(rb"HTTP/1\.[0-9] ([1-5][0-9][0-9])(?: .*)?", re.DOTALL)
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;.*)?", re.DOTALL)
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})\r\n")
_LENGTH = re.compile(r"[0-9]{1,18}")


class Framing:
    """One response as it arrives. `feed` it every received chunk; the same bytes cut in any way give the same state.

    status       of the final response (interim 1xx responses are skipped), None before its status line
    headers      names in lower case; fields that stand several times are joined with ", "
    finished     the response's own framing says that it is over; needs no end of the connection
    until_close  the body has no length of its own: only the end of the connection ends it
    problem      why the bytes are not one HTTP/1.1 response, None while they may be; nothing is read after a problem
    oversize     more than MAX_RESPONSE bytes came
    surplus      bytes that followed the end of the response
    """

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.finished = False
        self.until_close = False
        self.problem: str | None = None
        self.oversize = False
        self.surplus = 0
        self._fed = 0
        self._left = 0
        self._modern = True
        self._chunked = False
        self._pending = bytearray()
        self._section = 0
        self._fields: list[tuple[str, str]] = []
        self._on_line: Callable[[bytes], None] | None = self._status_line

    @property
    def complete(self) -> bool:
        """The response is whole, if nothing but the end of the connection follows."""
        return self.problem is None and (self.finished or self.until_close)

    @property
    def reusable(self) -> bool:
        """The connection can carry another request: an HTTP/1.1 response ended by its own framing, without surplus."""
        wish = self.headers.get("connection", "").lower()
        kept = "close" not in wish if self._modern else "keep-alive" in wish
        return self.finished and kept and not self.surplus

    def feed(self, data: bytes) -> list[bytes]:
        """Take received bytes; returns the pieces of the body among them, in order. Never raises."""
        room = MAX_RESPONSE - self._fed
        over = len(data) > room
        if over:
            data = data[:room]
        self._fed += len(data)
        pieces: list[bytes] = []
        at, end = 0, len(data)
        while at < end and not self.finished and self.problem is None:
            if self._at_chunk and (after := self._whole_chunks(data, at, pieces)) > at:
                at = after
            elif self._on_line is not None:
                at = self._take_line(data, at)
            elif self.until_close:
                pieces.append(data[at:])
                at = end
            else:
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if self._left == 0:
                    self._body_ended()
        if self.finished:
            self.surplus += end - at
        if over and not self.finished and self.problem is None:
            self.oversize = True
            self._fail(f"more than {MAX_RESPONSE} bytes came; expected a response within that bound")
        return pieces

    @property
    def _at_chunk(self) -> bool:
        """The next byte is the first of a chunk's size line."""
        return self._chunked and not self._pending and self._on_line == self._size_line

    def _whole_chunks(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        """Take the plain chunks that lie whole in `data`, as an event a chunk does; returns the position after them.

        It says what reading line by line says, in a fraction of the time, which counts while measuring.
        """
        while (match := _CHUNK.match(data, at)) is not None:
            start = match.end()
            stop = start + int(match[1], 16)
            if stop == start or data[stop : stop + 2] != b"\r\n":
                break
            pieces.append(data[start:stop])
            at = stop + 2
        return at

    def _fail(self, problem: str) -> None:
        self.problem = problem
        self._pending.clear()

    def _take_line(self, data: bytes, at: int) -> int:
        """Add to the pending line; hand it on once its line feed is here. Returns the next position."""
        found = data.find(b"\n", at)
        stop = len(data) if found < 0 else found + 1
        self._pending += data[at:stop]
        if self._section + len(self._pending) > MAX_HEAD:
            self._fail(f"a header section or chunk-size line of more than {MAX_HEAD} bytes; expected a shorter one")
        elif found >= 0:
            self._section += len(self._pending)
            line = bytes(self._pending[:-1]).removesuffix(b"\r")
            self._pending.clear()
            if self._on_line is not None:
                self._on_line(line)
        return stop

    def _status_line(self, line: bytes) -> None:
        match = _STATUS.fullmatch(line)
        if match is None:
            self._fail(f"found {line[:80]!r}; expected an HTTP/1.1 status line")
            return
        self.status = int(match[1])
        self._modern = not line.startswith(b"HTTP/1.0")
        self._fields = []
        self._on_line = self._header_line

    def _header_line(self, line: bytes) -> None:
        if not line:
            self._head_ended()
            return
        text = line.decode("latin-1")
        if text[0] in " \t" and self._fields:
            name, value = self._fields[-1]
            self._fields[-1] = (name, f"{value} {text.strip()}")
            return
        name, colon, value = text.partition(":")
        if not colon or not name or name != name.strip():
            self._fail(f"found the header line {line[:80]!r}; expected `name: value`")
            return
        self._fields.append((name.lower(), value.strip()))

    def _head_ended(self) -> None:
        self._section = 0
        if self.status is not None and 100 <= self.status < 200:
            if self.status == 101:
                self._fail("found status 101 (switching protocols); expected an HTTP/1.1 answer")
            self.status = None
            self._on_line = self._status_line
            return
        joined: dict[str, list[str]] = {}
        for name, value in self._fields:
            joined.setdefault(name, []).append(value)
        self.headers = {name: ", ".join(values) for name, values in joined.items()}
        self._choose_body()

    def _choose_body(self) -> None:
        transfer = self.headers.get("transfer-encoding", "identity").strip().lower()
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        lengths = {part.strip() for part in self.headers.get("content-length", "").split(",")}
        self._on_line = None
        if encoding not in ("identity", ""):
            self._fail(f"found content-encoding {encoding[:40]!r}; expected none, as none was asked for")
        elif self.status in (204, 304):
            self.finished = True
        elif transfer == "chunked":
            self._chunked = True
            self._on_line = self._size_line
        elif transfer != "identity":
            self._fail(f"found transfer-encoding {transfer[:40]!r}; expected chunked or none")
        elif "content-length" not in self.headers:
            self.until_close = True
        elif len(lengths) > 1 or not _LENGTH.fullmatch(next(iter(lengths))):
            self._fail(f"found content-length {self.headers['content-length'][:40]!r}; expected one whole number")
        else:
            self._left = int(lengths.pop())
            self.finished = self._left == 0

    def _size_line(self, line: bytes) -> None:
        self._section = 0
        match = _SIZE.fullmatch(line)
        if match is None:
            self._fail(f"found {line[:80]!r}; expected the size of a chunk in hexadecimal digits")
            return
        self._left = int(match[1], 16)
        self._on_line = None if self._left else self._trailer_line

    def _body_ended(self) -> None:
        if self._chunked:
            self._on_line = self._chunk_end_line
        else:
            self.finished = True

    def _chunk_end_line(self, line: bytes) -> None:
        self._section = 0
        if line:
            self._fail(f"found {line[:80]!r} after the data of a chunk; expected the end of a line")
        self._on_line = self._size_line

    def _trailer_line(self, line: bytes) -> None:
        self.finished = not line
