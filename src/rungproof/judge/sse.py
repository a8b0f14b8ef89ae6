"""Server-sent events out of the bytes of a body (WHATWG HTML, section 9.2.6), without input or output.

Works on bytes, so a character or a line ending that was cut by a write cannot be damaged; no line has a limit.
"""

import re
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\n|\r")
_MARK = b"\xef\xbb\xbf"  # byte order mark, allowed once at the start


@dataclass(frozen=True, slots=True)
class Frame:
    """One event. `last`: offset in the body of the byte that completes it; `whole`: a blank line ended it.

    A frame that is not whole is what stood behind the last blank line when the body ended.
    """

    kind: bytes
    data: bytes
    last: int
    whole: bool


@dataclass(frozen=True, slots=True)
class Split:
    """All events of a body; `strays`: complete lines that are no field of one; `cut`: such a line, begun at the end."""

    frames: tuple[Frame, ...]
    strays: tuple[bytes, ...]
    cut: bytes


class _Pending:
    """The event whose lines are being read."""

    def __init__(self) -> None:
        self.kind = b""
        self.data: list[bytes] = []

    def take(self, line: bytes) -> bool:
        """Read one line; False: it is not a field of the standard."""
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self.data.append(value)
        elif name == b"event":
            self.kind = value
        return name in (b"data", b"event", b"id", b"retry", b"")

    def close(self, last: int, whole: bool) -> Frame | None:
        """The event so far, None where it says nothing (only comments, ids or empty data)."""
        data = b"\n".join(self.data)
        made = Frame(self.kind, data, last, whole) if data or self.kind else None
        self.kind, self.data = b"", []
        return made


def split(body: bytes) -> Split:
    """Events of a body, whichever of the three line endings it uses. Never raises.

    A line ending in CR LF is complete at its CR already, so the offsets do not depend on what follows.
    """
    frames: list[Frame] = []
    strays: list[bytes] = []
    pending = _Pending()
    start = len(_MARK) if body.startswith(_MARK) else 0
    for match in _LINE_END.finditer(body, start):
        line = body[start : match.start()]
        start = match.end()
        if not line:
            frame = pending.close(match.start(), whole=True)
            if frame is not None:
                frames.append(frame)
        elif not pending.take(line):
            strays.append(line)
    cut = body[start:]
    if pending.take(cut):
        cut = b""
    tail = pending.close(len(body) - 1, whole=False)
    if tail is not None:
        frames.append(tail)
    return Split(tuple(frames), tuple(strays), cut)
