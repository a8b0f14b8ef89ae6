"""From the received bytes of one answer to its events: tokens with their arrival, usage, ending, errors.

Pure and total: any bytes give a `Response`. The result depends on the bytes and the stamp of each byte alone, never on
how the bytes were cut into chunks. An event arrives with the byte that completes it.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rungproof.judge.http1 import Framing
from rungproof.judge.meaning import Meaning, TokensArrived, Usage, error_text
from rungproof.judge.sse import split

__all__ = ["Response", "TokensArrived", "Usage", "parse_response"]


@dataclass(frozen=True, slots=True)
class Response:
    """What one answer says.

    status            HTTP status, None where no status line came
    headers           names in lower case
    events            every event that carried token ids or text, in order of arrival
    usage             the last value of each of its fields, None where no event had usage
    finish_reason     of the one choice, None where none came
    done              `[DONE]` came; for an answer that is one JSON document: the document is whole
    error             the first thing that makes this answer no answer: HTTP error, error inside the stream, damage
    complete_framing  the response is whole as far as HTTP can tell (see Framing.complete)
    notes             what was unusual and harmless
    text              all text in order of arrival, reasoning channels included; always valid Unicode
    streamed          the body was a stream of events, not one JSON document
    until_close       nothing but the end of the connection ended the body
    problem           why the bytes are not one HTTP/1.1 response
    """

    status: int | None
    headers: dict[str, str]
    events: tuple[TokensArrived, ...]
    usage: Usage | None
    finish_reason: str | None
    done: bool
    error: str | None
    complete_framing: bool
    notes: tuple[str, ...]
    text: str
    streamed: bool = True
    until_close: bool = False
    problem: str | None = None


def parse_response(chunks: Sequence[tuple[int, bytes]]) -> Response:
    """Read one answer from its chunks, each (stamp [ns], bytes). Never raises on any bytes."""
    framing = Framing()
    pieces: list[bytes] = []
    ends: list[int] = []
    stamps: list[int] = []
    length = 0
    for at_ns, data in chunks:
        for piece in framing.feed(data):
            pieces.append(piece)
            length += len(piece)
            ends.append(length)
            stamps.append(at_ns)
    body = b"".join(pieces)
    meaning = Meaning()
    if framing.problem is not None:
        meaning.note(f"framing: {framing.problem}")
    if framing.surplus:
        meaning.note(f"{framing.surplus} bytes followed the end of the response")
    streamed = True
    if framing.status == 200:
        streamed = _read_body(meaning, framing, body, lambda offset: stamps[bisect_right(ends, offset)])
    elif framing.status is not None:
        meaning.fail(f"HTTP status {framing.status}: {error_text(body)}")
    return Response(
        status=framing.status,
        headers=framing.headers,
        events=tuple(meaning.events),
        usage=meaning.usage,
        finish_reason=meaning.finish_reason,
        done=meaning.done,
        error=meaning.error,
        complete_framing=framing.complete,
        notes=tuple(meaning.notes),
        text=meaning.text(),
        streamed=streamed,
        until_close=framing.until_close,
        problem=framing.problem,
    )


def _read_body(meaning: Meaning, framing: Framing, body: bytes, stamp_of: Callable[[int], int]) -> bool:
    """Read a body of status 200 into `meaning`; returns whether it was a stream of events."""
    start = body.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:1] in (b"{", b"["):
        meaning.document(body, stamp_of(len(body) - 1), whole=framing.finished)
        return False
    found = split(body)
    for frame in found.frames:
        meaning.frame(frame, stamp_of(frame.last))
    if found.strays:
        meaning.fail(f"the stream holds a line that belongs to no event: {error_text(found.strays[0])}")
    elif found.cut and framing.finished:
        meaning.fail(f"the body ends in words that are no event: {error_text(found.cut)}")
    elif found.cut:
        meaning.note(f"the stream was cut inside a line: {error_text(found.cut)}")
    return True
