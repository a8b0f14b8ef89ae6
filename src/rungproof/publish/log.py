"""`reports/log.jsonl`: what was published, superseded, withdrawn and replayed. Append-only, each line bound to the one before it.

A line is canonical JSON; `previous` is the sha256 of the bytes of the line before without its end, "" in the first. A line that
was cut short by a crash was never an entry: it is taken off before the next one is appended, and every whole line stays.
"""

import base64
import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

from rungproof.publish.signing import Signer, holds, keyid, pem, public_from
from rungproof.records.codec import canonical, parse, sha256
from rungproof.records.errors import EvidenceError, HostError
from rungproof.records.files import append_synced, write_atomic
from rungproof.records.proof import key_file, pae

Event = Literal["publish", "supersede", "withdraw", "replay"]
Status = Literal["unlogged", "current", "superseded", "withdrawn"]
EVENTS: tuple[Event, ...] = get_args(Event)
NAME, KEYS, LOCK = "log.jsonl", "keys", ".lock"
STUDY, PACK = re.compile(r"[a-z0-9][a-z0-9_@-]{0,90}"), re.compile(r"[0-9a-f]{12}")
LOG_TYPE = "application/vnd.rungproof.log+json"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line. `pack`: the pack's id; `supersedes`: id of the pack before it (supersede); `line`: sha256 of a line of the pack's
    proof without its end (replay); `key`, `sig`: key id and signature over the entry without `sig`, "" where it is unsigned."""

    seq: int
    at: str
    event: Event
    study: str
    pack: str
    previous: str
    reason: str = ""
    supersedes: str = ""
    line: str = ""
    key: str = ""
    sig: str = ""

    @property
    def signed_bytes(self) -> bytes:
        """What the signature is over."""
        return pae(LOG_TYPE, canonical({name: getattr(self, name) for name in self.__slots__ if name != "sig"}))


@dataclass(frozen=True, slots=True)
class Told:
    """The last word of the log on one pack. `published`, `ended_at`: UTC; `supersedes`, `successor`: ids of packs; `reason`: why it
    was superseded or withdrawn."""

    status: Status = "unlogged"
    published: str = ""
    supersedes: str = ""
    ended_at: str = ""
    reason: str = ""
    successor: str = ""


@dataclass(frozen=True, slots=True)
class Log:
    """The whole entries, the digest of each line in order (`heads`), and the bytes of a last line that was cut short (`torn`)."""

    entries: tuple[Entry, ...]
    heads: tuple[str, ...]
    torn: bytes

    @property
    def head(self) -> str:
        """Digest of the last line, "" of an empty log."""
        return self.heads[-1] if self.heads else ""

    def current(self, study: str) -> Entry | None:
        """The entry by which a study's pack was published that stands now; None where there is none, or it was withdrawn."""
        found: Entry | None = None
        for entry in self.entries:
            if entry.study == study and entry.event in ("publish", "supersede"):
                found = entry
            elif found and entry.event == "withdraw" and entry.pack == found.pack and entry.study == study:
                found = None
        return found

    def told(self, study: str, pack: str) -> Told:
        """What became of a pack. Published again after it was withdrawn, it stands as if it had never ended."""
        made = Told()
        for entry in (e for e in self.entries if e.study == study):
            if entry.event in ("publish", "supersede") and entry.pack == pack:
                made = Told("current", entry.at, entry.supersedes)
            elif entry.event == "supersede" and entry.supersedes == pack and made.status != "withdrawn":
                made = replace(made, status="superseded", ended_at=entry.at, reason=entry.reason, successor=entry.pack)
            elif entry.event == "withdraw" and entry.pack == pack:
                made = replace(made, status="withdrawn", ended_at=entry.at, reason=entry.reason)
        return made

    def after(self, entry: Entry, head: str) -> "Log":
        """The log as it is once this entry, made for it, is written."""
        return Log((*self.entries, entry), (*self.heads, head), b"")


@contextmanager
def locked(reports: Path) -> Iterator[None]:
    """One publisher at a time: waits for the other. Raises HostError where the folder cannot be written."""
    try:
        reports.mkdir(parents=True, exist_ok=True)
        handle = os.open(reports / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise HostError(
            f"{reports}: cannot be written ({error.strerror}); mend its permissions or free some space"
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def read_log(reports: Path) -> Log:
    """The log with its chain checked. Raises EvidenceError that names the first line that does not follow from the one before."""
    path = reports / NAME
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Log((), (), b"")
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be read ({error.strerror})") from error
    whole, _, torn = data.rpartition(b"\n")
    lines = whole.split(b"\n") if whole else []
    entries: list[Entry] = []
    heads: list[str] = []
    for number, line in enumerate(lines, start=1):
        entry, head = parse(Entry, line, f"{path}:{number}"), heads[-1] if heads else ""
        if entry.seq != number or entry.previous != head:
            raise EvidenceError(
                f"{path}:{number}: found seq {entry.seq} after {entry.previous[:12] or 'nothing'}; expected seq {number} after "
                f"{head[:12] or 'nothing'}. A line was changed, taken out or put in; bring the file back from its history."
            )
        if line + b"\n" != canonical(entry):
            raise EvidenceError(f"{path}:{number}: not in canonical form; the line was written over")
        entries.append(entry)
        heads.append(sha256(line))
    return Log(tuple(entries), tuple(heads), torn)


def entry_after(
    log: Log,
    event: Event,
    study: str,
    pack: str,
    signer: Signer | None,
    reason: str = "",
    supersedes: str = "",
    line: str = "",
) -> tuple[Entry, str]:
    """The next entry, signed where there is a signer, and the head of the log with it. Not written yet."""
    key = keyid(signer.public) if signer else ""
    reason = reason.encode("utf-8", "replace").decode("utf-8")  # a command line may hold bytes that are no text
    made = Entry(len(log.entries) + 1, _now(), event, study, pack, log.head, reason, supersedes, line, key)
    if signer:
        signature = base64.b64encode(signer.sign(made.signed_bytes)).decode("ascii")
        made = replace(made, sig=signature)
    return made, sha256(canonical(made).rstrip(b"\n"))


def append(reports: Path, log: Log, entry: Entry) -> None:
    """Write an entry made for this log, under its lock. Raises HostError."""
    path = reports / NAME
    if log.torn:
        write_atomic(path, path.read_bytes().removesuffix(log.torn))
    append_synced(path, canonical(entry))


def write_key(reports: Path, signer: Signer) -> None:
    """`reports/keys/<first digits of the key id>.pem`."""
    place = reports / KEYS / key_file(keyid(signer.public))
    if not place.exists():
        write_atomic(place, pem(signer.public))


def check(reports: Path, log: Log) -> list[str]:
    """What is wrong with a log whose chain holds: signatures, packs that are not there or not what it names, impossible events."""
    wrong: list[str] = []
    known: set[tuple[str, str]] = set()
    for number, entry in enumerate(log.entries, start=1):
        where, pack = f"{reports / NAME}:{number}", (entry.study, entry.pack)
        if not STUDY.fullmatch(entry.study) or not PACK.fullmatch(entry.pack):
            wrong.append(f"{where}: names no pack: study {entry.study!r:.80}, pack {entry.pack!r:.80}")
            continue
        if entry.event in ("publish", "supersede"):
            known.add(pack)
        elif pack not in known:
            wrong.append(f"{where}: {entry.event} of {'/'.join(pack)}, which was not published before")
        wrong += [f"{where}: {word}" for word in (*_signature(reports, entry), *_pack(reports, entry))]
    return wrong


def _signature(reports: Path, entry: Entry) -> Sequence[str]:
    if not entry.key:
        return ["has a signature and names no key"] if entry.sig else []
    place = reports / KEYS
    try:
        place = place / key_file(entry.key)
        public = public_from(place.read_bytes(), str(place))
        signature = base64.b64decode(entry.sig, validate=True)
    except OSError:
        return [f"its key is not there: {place}"]
    except (EvidenceError, ValueError) as error:
        return [f"cannot be checked ({error})"]
    if keyid(public) != entry.key:
        return [f"{place} holds another key than it names"]
    return (
        [] if holds(public, signature, entry.signed_bytes) else ["its signature does not hold: the entry was changed"]
    )


def _pack(reports: Path, entry: Entry) -> Sequence[str]:
    folder = reports / entry.study / entry.pack
    try:
        digest = sha256((folder / "MANIFEST.sha256").read_bytes())
        lines = (folder / "proof.intoto.jsonl").read_bytes().split(b"\n") if entry.line else []
        own = folder / "signer.pub.pem"
        publisher = keyid(public_from(own.read_bytes(), str(own))) if own.is_file() else ""
    except EvidenceError as error:
        return [str(error)]
    except OSError as error:
        return [f"{entry.event} of {folder}: its {Path(str(error.filename)).name} is not there"]
    if not digest.startswith(entry.pack):
        return [f"{folder}: its manifest's sha256 begins {digest[:12]}; expected {entry.pack}"]
    if publisher != entry.key:
        return [
            f"{entry.event} of {folder}: by {entry.key or 'nobody'}; its publisher is {publisher or 'nobody (unsigned)'}"
        ]
    if entry.line and entry.line not in map(sha256, lines):
        return [f"{folder}: the line that was merged is not in its proof any more"]
    return []


def _now() -> str:
    """UTC; SOURCE_DATE_EPOCH in its place where it is set, as reproducible builds have it."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH", "")
    when = datetime.fromtimestamp(int(fixed), UTC) if fixed.isdigit() else datetime.now(UTC)
    return when.isoformat(timespec="seconds").replace("+00:00", "Z")
