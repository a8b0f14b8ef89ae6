"""The raw file of an attempt or a canary: every byte a server sent, with its receive stamps.

A gzip file of UTF-8 JSON lines, one gzip member a flush (so a killed writer loses at most the batch in flight).
Line kinds, told apart by "kind":

header   first line; format "rungproof.raw/1", session, boot, and what is measured
metrics  text of the server's /metrics, `when` "before" or "after", `settled`: counters stood still
batch    one start barrier: name, start_ns, the keys planned, stamp source, clock mapping, processor time of the client
request  one request of the batch above: body, connection and send stamps, chunks [[at_ns, length], ...], bytes, end

`bytes` and `body` hold the exact bytes as ISO-8859-1 text (byte n is code point n), so that the file can be read
with zcat. `at_ns` is the moment the kernel (or, where it cannot, this process) received the chunk, mapped to the
monotonic clock: at_ns = realtime stamp - offset_ns, known to within error_ns.
"""

import builtins
import gzip
import io
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from rungproof.records.codec import build, load_json, plain
from rungproof.records.errors import EvidenceError
from rungproof.records.formats import EndKind

# Limits of one raw file, which writing, publishing and verifying share (verify.py repeats them, a test holds them equal). A token of a
# vLLM stream takes about 340 bytes here, so 1,024 streams of 4,096 tokens with an oracle pass and two passes take 4.3 GB, 0.3 GB packed.
MAX_RAW = 6 * 2**30  # bytes after decompression
MAX_FILE = 512 * 2**20  # bytes as it lies on the disk


@dataclass(frozen=True, slots=True)
class Header:
    """First line of a raw file."""

    session: str
    boot: str
    what: str
    kind: Literal["header"] = "header"
    format: Literal["rungproof.raw/1"] = "rungproof.raw/1"


@dataclass(frozen=True, slots=True)
class Metrics:
    """The text of the server's /metrics at one moment; empty text: the server has none."""

    when: Literal["before", "after"]
    at_ns: int
    settled: bool
    text: str
    kind: Literal["metrics"] = "metrics"


@dataclass(frozen=True, slots=True)
class Batch:
    """One start barrier. `planned` are the keys of its requests; offset_ns and error_ns map kernel stamps to the monotonic clock.

    cpu_ns: processor time that the client took from the barrier to the last end, over its `processes`; wait_ns: how long it
    waited for a processor meanwhile (the longest of its processes), since what arrives then is merged and stamped late.
    None: not known. scheduling: "fifo" where all of them had real-time priority.
    """

    batch: str
    start_ns: int
    planned: tuple[str, ...]
    stamp_source: Literal["kernel", "user"]
    offset_ns: int
    error_ns: int
    cpu_ns: int | None = None
    wait_ns: int | None = None
    scheduling: Literal["fifo", "ordinary"] = "ordinary"
    processes: int = 1
    kind: Literal["batch"] = "batch"


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it went over the wire. sent_ns: before the first byte was given to the kernel; None: never sent."""

    batch: str
    key: str
    body: str
    connected_ns: int | None
    sent_ns: int | None
    sent_end_ns: int | None
    end: EndKind
    end_ns: int
    detail: str
    chunks: tuple[tuple[int, int], ...]
    bytes: str
    kind: Literal["request"] = "request"

    def data(self) -> builtins.bytes:
        """The response's bytes, headers included."""
        return self.bytes.encode("latin-1")


Line = Header | Metrics | Batch | Request
KINDS: dict[str, type[Any]] = {"header": Header, "metrics": Metrics, "batch": Batch, "request": Request}


class Members:
    """The gzip members of one raw file, as they are appended to it one after another."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._size = self._packed = 0

    def encode(self, lines: Iterable[Line]) -> bytes:
        """One gzip member that holds these lines. Raises EvidenceError where the file would become larger than one may be, which is
        then to be left as it is."""
        held = io.BytesIO()
        size = self._size
        with gzip.GzipFile(fileobj=held, mode="wb", compresslevel=6, mtime=0) as member:
            for line in lines:
                text = json.dumps(plain(line), ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
                size += len(text)
                if size > MAX_RAW:
                    raise too_large(self._where, f"{MAX_RAW} bytes before compression")
                member.write(text)
        if self._packed + held.tell() > MAX_FILE:
            raise too_large(self._where, f"{MAX_FILE} bytes")
        self._size, self._packed = size, self._packed + held.tell()
        return held.getvalue()


def too_large(where: str, most: str) -> EvidenceError:
    """What to say of a raw file that nobody would read."""
    return EvidenceError(
        f"{where}: more than {most}, the most that a raw file may hold, or nobody could verify it. Ask for fewer tokens, users or "
        "passes in one item"
    )


def encode(lines: Iterable[Line]) -> bytes:
    """A whole raw file, or one gzip member to be appended to a small one."""
    return Members("raw file").encode(lines)


def check_size(data: bytes, where: str) -> None:
    """Raises EvidenceError for a raw file that is larger than one may be; damage is found where it is read."""
    size = 0
    if len(data) > MAX_FILE:
        raise too_large(where, f"{MAX_FILE} bytes")
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            while block := file.read(2**20):
                size += len(block)
                if size > MAX_RAW:
                    raise too_large(where, f"{MAX_RAW} bytes after decompression")
    except (OSError, EOFError, zlib.error):
        return


def decode(data: bytes, where: str, limit: int = MAX_RAW) -> list[Line]:
    """All lines of a raw file, unpacked one after another, so that it takes no more memory than they do.

    Raises EvidenceError for damage, an unknown line, a first line that is no header, or more than `limit` bytes.
    """
    made: list[Line] = []
    left = limit
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            while line := file.readline(left + 1):
                left -= len(line)
                if left < 0:
                    raise EvidenceError(f"{where}: more than {limit} bytes after decompression; refused")
                at = f"{where}:{len(made) + 1}"
                value = load_json(line, at)
                kind = KINDS.get(value.get("kind", "")) if isinstance(value, dict) else None
                if kind is None:
                    raise EvidenceError(f"{at}: not a line of a raw file; expected one of {', '.join(KINDS)}")
                made.append(build(kind, value, at))
    except (OSError, EOFError, zlib.error) as error:
        raise EvidenceError(f"{where}: the raw file is damaged ({error}); expected gzip") from error
    if not made or not isinstance(made[0], Header):
        raise EvidenceError(f"{where}: does not begin with a header line")
    return made
