#!/usr/bin/env python3
"""Checks a proof pack, or a results folder: `python3 -I verify.py [PACK] [--level L4] [--trust KEY.pem] [--log LOG] [--json]`.

Needs Python 3.11 and, for signatures, the program openssl (3.0 or newer); nothing else. Levels, each printed as it ends:
L0 bytes     every file is the one that MANIFEST.sha256 and page/MANIFEST.sha256 name, and there is no other
L1 signer    the statements in proof.intoto.jsonl speak of these bytes and are signed by the pack's key, and by yours with --trust
L2 numbers   every number of records, summary, page, twins and signed claims follows from the raw bytes
L3 identity  every k of n, verdict and state follows from the token ids
L4 sense     populations whole, environment unchanged, one server at a time, plan registered first, clocks that agree, possible rates
No level proves that the run was honest: whoever makes every file can make them agree. That takes a replay on another machine.

L2 to L4 run the pack's own `reducer/`, from the bytes that L0 has read. Whoever distrusts it compares its digest with that of
the published release, or uses an installed `rungproof verify PACK`. Exit code: 0; 10 to 14, the first level that failed; 2, wrong use.
"""

import sys

if __name__ == "__main__" and not __package__ and not sys.flags.safe_path:
    del sys.path[0]  # the folder of this script is a stranger's: nothing in it may stand in for a module of Python

import argparse
import base64
import gzip
import hashlib
import importlib
import importlib.abc
import importlib.util
import io
import json
import os
import re
import signal
import stat
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

LEVELS = {"L0": "bytes", "L1": "signer", "L2": "numbers", "L3": "identity", "L4": "sense"}
MANIFEST, PAGE, PROOF, SIGNER = "MANIFEST.sha256", "page/", "proof.intoto.jsonl", "signer.pub.pem"
MOST_FILES, MOST_BYTES, LARGEST, DEEPEST = 200_000, 16 * 2**30, 512 * 2**20, 16
UNPACKED = 6 * 2**30  # bytes of one raw file after decompression, as records/raw.py has it
MOST_LINES, LONGEST_NAME, SHOWN = 10_000, 1000, 20
LINE = re.compile(r"([0-9a-f]{64})  ([^\n]+)")
NAME = re.compile(r"[!#-\[\]-~][ -!#-\[\]-~]*")  # printable ASCII without quotes and backslashes
STATEMENT, PAYLOAD = "https://in-toto.io/Statement/v1", "application/vnd.in-toto+json"
KINDS = {
    "https://slsa.dev/provenance/v1": "provenance",
    "https://rungproof.dev/measurement/v1": "measurement",
    "https://rungproof.dev/page/v1": "page",
    "https://rungproof.dev/replay/v1": "replay",
}
UNSIGNED = "unsigned: there is no signer.pub.pem, so nobody stands for this pack"
ED25519 = bytes.fromhex("302a300506032b6570032100")  # RFC 8410: what stands before the 32 bytes of a public key
SECONDS, LATER, MEMORY = 3600, 10, 12 * 2**30  # of one call, seconds until it is told again, and bytes


class Refused(Exception):
    """The pack is not what it says, or this machine cannot look at it; the text says found, expected, and what to do."""


@dataclass
class Level:
    """One level. ok: None where it does not apply (no pack). facts: what was compared; failures: shown first, bounded."""

    level: str
    ok: bool | None = True
    facts: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def fail(self, text: str) -> None:
        """One failure; more than a screenful are only counted."""
        self.ok = False
        if len(self.failures) < SHOWN:
            self.failures.append(_clean(text))

    @property
    def lines(self) -> list[str]:
        """For people."""
        state = {True: "ok", False: "FAILED", None: "not checked"}[self.ok]
        head = f"{self.level} {LEVELS[self.level]:9} {state}"
        return [
            head + (f"  {_clean('; '.join(self.facts), 3000)}" if self.facts else ""),
            *(f"   {text}" for text in self.failures),
        ]


class Files:
    """A folder of a stranger. Only plain files with one name each are seen; nothing is followed. After `hold` every read is compared."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sizes: dict[str, int] = {}
        self.troubles: list[str] = []
        self._digests: dict[str, str] = {}
        self._walk("", 0)

    def _walk(self, place: str, depth: int) -> None:
        if depth > DEEPEST:
            self.troubles.append(f"{place[:80]}: folders deeper than {DEEPEST}")
            return
        with os.scandir(self.root / place) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                path, found = f"{place}{entry.name}", entry.stat(follow_symlinks=False)
                if len(self.sizes) + len(self.troubles) > MOST_FILES:
                    return
                if why := wrong_name(path):
                    self.troubles.append(f"{path!a:.100}: {why}")
                elif stat.S_ISDIR(found.st_mode):
                    self._walk(f"{path}/", depth + 1)
                elif not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
                    self.troubles.append(f"{path}: a link or no plain file; a pack holds plain files alone")
                else:
                    self.sizes[path] = found.st_size

    @property
    def names(self) -> list[str]:
        """Every plain file."""
        return list(self.sizes)

    def hold(self, digests: Mapping[str, str]) -> None:
        """From now on a file that is not the one with this sha256 is refused, whenever it is read."""
        self._digests.update(digests)

    def read(self, path: str, limit: int = LARGEST) -> bytes | None:
        """Its bytes; None where there is no such plain file. Raises Refused for one that is too large or has changed."""
        if path not in self.sizes:
            return None
        handle = os.open(self.root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            data = file.read(min(limit, os.fstat(handle).st_size) + 1)  # as much memory is taken as is asked for
        if len(data) > limit:
            raise Refused(f"{path}: more than {limit} bytes; refused")
        if path in self._digests and hashlib.sha256(data).hexdigest() != self._digests[path]:
            raise Refused(f"{path}: its sha256 is not the one in the manifest")
        return data


def wrong_name(path: str) -> str:
    """Why a path may not stand in a pack; "" where it may."""
    parts = path.split("/")
    if len(path) > LONGEST_NAME or any(len(part) > 255 for part in parts):
        return f"a name of {len(path)} characters"
    if any(part in ("", ".", "..") for part in parts):
        return "leaves the folder or is no path"
    return "" if all(NAME.fullmatch(part) for part in parts) else "a character that is not allowed in names"


def read_manifest(data: bytes, where: str) -> dict[str, str]:
    """Path -> sha256. Raises Refused for anything but sorted lines of `sha256sum`, each path once."""
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError as error:
        raise Refused(f"{where}: not ASCII ({error})") from error
    made: dict[str, str] = {}
    last = ""
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        found = LINE.fullmatch(line)
        if found is None or (why := wrong_name(found[2])):
            raise Refused(f"{where}:{number}: {line!a:.90}: {why if found else 'not a line of sha256sum'}")
        if found[2] <= last:
            raise Refused(f"{where}:{number}: {found[2]}: named twice, or not in order")
        last = found[2]
        made[last] = found[1]
    if not made or not text.endswith("\n"):
        raise Refused(f"{where}: holds no line, or ends in the middle of one")
    return made


def l0_bytes(files: Files) -> Level:
    """Every file that a manifest names is there with these bytes, and nothing else is. Does not say who made them."""
    level = Level("L0")
    for trouble in files.troubles:
        level.fail(trouble)
    if len(files.sizes) > MOST_FILES or sum(files.sizes.values()) > MOST_BYTES:
        level.fail(f"more than {MOST_FILES} files or {MOST_BYTES} bytes; refused")
        return level
    named: dict[str, str] = {}
    for where, home in ((MANIFEST, ""), (PAGE + MANIFEST, PAGE)):
        try:
            listed = read_manifest(files.read(where, 64 * 2**20) or b"", where)
            named |= {f"{home}{path}": digest for path, digest in listed.items()}
            own = {p for p in listed if not home and (p in (MANIFEST, PROOF) or p.startswith(PAGE))}
            for path in sorted(own):
                level.fail(f"{where}: names {path}, which it cannot cover")
        except Refused as error:
            level.fail(str(error))
    for path in sorted(set(files.sizes) - set(named) - {MANIFEST, PAGE + MANIFEST, PROOF}):
        level.fail(f"{path}: in the folder, but in no manifest")
    for path, digest in named.items():
        if path not in files.sizes:
            level.fail(f"{path}: in the manifest, but not in the folder")
        elif _digest(files.root / path) != digest:
            level.fail(f"{path}: its sha256 is not the one in the manifest")
    files.hold(named)
    for path in bombs(files):
        level.fail(f"{path}: more than {UNPACKED} bytes after decompression; refused")
    level.facts.append(
        f"{len(named)} files, {sum(files.sizes.values()) / 1e6:.1f} MB, each as the manifests say and no other"
    )
    return level


def bombs(files: Files) -> list[str]:
    """Compressed files that are too large inside; nothing is held while it is looked at. Damage is found where it is judged."""
    found = []
    for path in (p for p in files.sizes if p.endswith(".gz")):
        size = 0
        try:
            with open(files.root / path, "rb") as raw, gzip.GzipFile(fileobj=raw) as inside:
                while size <= UNPACKED and (block := inside.read(2**20)):
                    size += len(block)
        except (OSError, EOFError, zlib.error):
            continue
        if size > UNPACKED:
            found.append(path)
    return found


def _digest(path: Path) -> str:
    whole = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(2**20):
            whole.update(block)
    return whole.hexdigest()


def public_key(pem: bytes, where: str) -> tuple[str, bytes]:
    """(key id, PEM) of an ed25519 public key. Raises Refused for any other text."""
    found = re.fullmatch(rb"\s*-----BEGIN PUBLIC KEY-----\s+([A-Za-z0-9+/=\s]{1,400})-----END PUBLIC KEY-----\s*", pem)
    der = base64.b64decode(found[1]) if found else b""
    if len(der) != len(ED25519) + 32 or not der.startswith(ED25519):
        raise Refused(f"{where}: not an ed25519 public key in PEM")
    return f"ed25519:{hashlib.sha256(der[len(ED25519) :]).hexdigest()}", pem


def holds(pem: bytes, message: bytes, signature: bytes) -> bool:
    """Whether openssl says that the signature is by this key. Raises Refused where openssl cannot say."""
    with tempfile.TemporaryDirectory() as home:
        for name, data in (("key", pem), ("message", message), ("signature", signature)):
            Path(home, name).write_bytes(data)
        words = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", f"{home}/key", "-rawin", "-in", f"{home}/message"]
        try:
            done = subprocess.run([*words, "-sigfile", f"{home}/signature"], capture_output=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Refused(f"openssl cannot be run ({error}); install it (3.0 or newer) to check signatures") from error
    said = done.stdout + done.stderr
    if done.returncode == 0 and b"Verified Successfully" in said:
        return True
    if b"Verification Failure" in said:
        return False
    raise Refused(f"openssl said {said[:160]!r}; expected a verdict on an ed25519 signature (3.0 or newer)")


def pae(kind: str, payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: what is signed."""
    return b"DSSEv1 %d %b %d %b" % (len(kind.encode()), kind.encode(), len(payload), payload)


def statement(line: bytes, where: str) -> tuple[dict[str, Any], bytes, list[dict[str, str]]]:
    """(statement, payload, signatures) of one DSSE envelope. Raises Refused."""
    try:
        envelope = strict_json(line)
        kind, payload = envelope["payloadType"], base64.b64decode(envelope["payload"], validate=True)
        made, signatures = strict_json(payload), envelope["signatures"]
        sound = kind == PAYLOAD and made["_type"] == STATEMENT and isinstance(made["predicate"], dict)
        sound = sound and all(
            isinstance(s["name"], str) and isinstance(s["digest"]["sha256"], str) for s in made["subject"]
        )
        sound = sound and all(isinstance(s["keyid"], str) and isinstance(s["sig"], str) for s in signatures)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Refused(f"{where}: not a DSSE envelope with an in-toto statement ({error!r:.80})") from error
    if not sound or len(made["subject"]) != 1 or len(signatures) > 1:
        raise Refused(f"{where}: not an in-toto Statement v1 about one file, by at most one signer")
    return made, payload, signatures


def strict_json(data: bytes) -> Any:
    """JSON without doubled keys, NaN and infinities. Raises ValueError."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(made := dict(items)) != len(items):
            raise ValueError("a key stands twice")
        return made

    def number(text: str) -> float:
        if (value := float(text)) in (float("inf"), float("-inf")) or value != value:
            raise ValueError("a number that is not finite")
        return value

    return json.loads(data.decode("utf-8"), object_pairs_hook=pairs, parse_constant=number, parse_float=number)


@dataclass
class Proof:
    """What L1 learnt. lines: kind, keyid, holds, subject, predicate and sha256 of each line; publisher: "" for an unsigned pack;
    withdrawn: the failure that says so, "" where the log does not."""

    pack: str = ""
    publisher: str = ""
    withdrawn: str = ""
    lines: list[dict[str, Any]] = field(default_factory=list)


def l1_signer(files: Files, trust: bytes | None, log: Path | None, proof: Proof) -> Level:
    """Who stands for these bytes. Does not say that what they measured is true; a key is worth what you know of its holder."""
    level = Level("L1")
    proof.pack = hashlib.sha256(files.read(MANIFEST) or b"").hexdigest()
    own = files.read(SIGNER, 4096)
    keys = dict(_known_keys(files))
    if own is not None:
        proof.publisher, keys[proof.publisher] = public_key(own, SIGNER)
    data = files.read(PROOF, 64 * 2**20) or b""
    if data and not data.endswith(b"\n"):
        level.fail(f"{PROOF}: ends in the middle of a line")
    lines = data.split(b"\n")[:-1]
    if len(lines) > MOST_LINES:
        raise Refused(f"{PROOF}: more than {MOST_LINES} lines; refused")
    page = hashlib.sha256(files.read(PAGE + MANIFEST) or b"").hexdigest()
    for number, line in enumerate(lines, start=1):
        proof.lines.append(_line(line, f"{PROOF}:{number}", keys, level))
    for kind, subject in (("provenance", proof.pack), ("measurement", proof.pack), ("page", page)):
        mine = [one for one in proof.lines if one["kind"] == kind and one["keyid"] == proof.publisher]
        if not mine or mine[-1]["subject"] != subject or (proof.publisher and not mine[-1]["holds"]):
            level.fail(f"{PROOF}: no {kind} statement of the publisher that speaks of these bytes")
    if not proof.publisher:
        level.fail(UNSIGNED)
    _trusted(proof, trust, level)
    if ended := _ended(files):
        level.facts.append(ended)
    if log is not None:
        _in_log(log, proof, level)
    return level


def _known_keys(files: Files) -> Iterator[tuple[str, bytes]]:
    """Public keys that lie beside the pack, in reports/keys/; they say who signed, not whom to believe."""
    home = files.root.resolve().parent.parent / "keys"
    for path in sorted(home.glob("*.pem"))[:MOST_LINES]:
        try:
            if path.is_file() and path.stat().st_size < 4096:
                yield public_key(path.read_bytes(), str(path))
        except (OSError, Refused):
            continue


def _line(line: bytes, where: str, keys: dict[str, bytes], level: Level) -> dict[str, Any]:
    made, payload, signatures = statement(line, where)
    kind = KINDS.get(str(made.get("predicateType")), "other")
    predicate, subject = made["predicate"], made["subject"][0]
    if kind == "replay" and predicate.get("kind") == "recompute":
        kind = "recompute"
    if isinstance(pem := predicate.get("public_key"), str):
        keyid, held = public_key(pem.encode(), f"{where} public_key")
        keys.setdefault(keyid, held)
    keyid = signatures[0]["keyid"] if signatures else ""
    good = False
    if signatures and keyid in keys:
        good = holds(keys[keyid], pae(PAYLOAD, payload), base64.b64decode(signatures[0]["sig"]))
        if not good:
            level.fail(f"{where}: the signature is not by {keyid[:24]} over these bytes")
    elif signatures:
        level.facts.append(
            f"{where}: the key {keyid[:24]} is not here, so its signature was not checked and counts for nothing"
        )
    digest = hashlib.sha256(line).hexdigest()
    return {
        "kind": kind,
        "keyid": keyid,
        "holds": good,
        "subject": subject["digest"]["sha256"],
        "predicate": predicate,
        "sha256": digest,
    }


def _trusted(proof: Proof, trust: bytes | None, level: Level) -> None:
    signed = sum(one["holds"] for one in proof.lines)
    level.facts.append(
        f"{signed} of {len(proof.lines)} statements signed, by {len({o['keyid'] for o in proof.lines if o['holds']})} keys"
    )
    if trust is None:
        level.facts.append(
            f"publisher {proof.publisher[:24] or 'unknown'}: you have not said whom you trust (--trust KEY.pem)"
        )
    elif (wanted := public_key(trust, "--trust")[0]) == proof.publisher:
        level.facts.append(f"publisher {wanted[:24]}, the key that you trust")
    else:
        level.fail(f"published by {proof.publisher[:24] or 'nobody'}; you trust {wanted[:24]}")


def _ended(files: Files) -> str:
    """What the pack's own page says of its end; "" where it says nothing. L2 holds the rest of that file."""
    try:
        said = strict_json(files.read(PAGE + "standing.json", 2**20) or b"{}")
    except (ValueError, RecursionError):
        return ""
    if not isinstance(said, dict) or said.get("ended") not in ("withdrawn", "superseded"):
        return ""
    by = f" by pack {said['successor']!s:.64}" if said.get("successor") else ""
    return f"its page says: {said['ended']} {said.get('ended_at')!s:.30}{by}: {said.get('reason')!s:.300}"


def _in_log(log: Path, proof: Proof, level: Level) -> None:
    """The log is a chain, it publishes this pack and has not withdrawn it, and every replay that it tells of is here."""
    previous, last, after, why, here = "", "", "", "", {one["sha256"] for one in proof.lines}
    with open(log, "rb") as file:
        data = file.read(64 * 2**20)
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        entry = strict_json(line)
        if entry.get("previous") != previous or entry.get("seq") != number:
            level.fail(f"{log.name}:{number}: does not follow the line before it: the chain is broken")
            return
        previous = hashlib.sha256(line).hexdigest()
        if str(entry.get("pack", "?")) in (proof.pack, proof.pack[:12]):
            if entry.get("event") != "replay":
                last, after, why = str(entry.get("event")), "", f"{entry.get('at')!s:.30}: {entry.get('reason')!s:.300}"
            elif entry.get("line") not in here:
                level.fail(f"{log.name}:{number}: a replay of this pack was published that is not in {PROOF} any more")
        elif entry.get("event") == "supersede" and str(entry.get("supersedes", "?")) in (proof.pack, proof.pack[:12]):
            after = str(entry.get("pack"))
    if after and last in ("publish", "supersede"):
        level.facts.append(
            f"superseded by pack {after:.64} in {log.name}, which says why: what it claims stands no more"
        )
    if last == "withdraw":
        proof.withdrawn = _clean(f"{log.name}: this pack was withdrawn {why}")
        level.fail(proof.withdrawn)
    elif last not in ("publish", "supersede"):
        level.fail(f"{log.name}: does not publish this pack")


class Reducer(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """`rungproof` from the bytes that L0 has compared, and from nowhere else: no path of the pack, no cached code."""

    def __init__(self, files: Files) -> None:
        self._sources: dict[str, tuple[bool, bytes, str]] = {}
        lines = []
        for path in sorted(p for p in files.names if p.startswith("reducer/")):
            data = files.read(path) or b""
            lines.append(f"{hashlib.sha256(data).hexdigest()}  {path.removeprefix('reducer/')}\n")
            words = path.removeprefix("reducer/").removesuffix(".py").split("/")
            if path.endswith(".py") and words[0] == "rungproof":
                package = words[-1] == "__init__"
                self._sources[".".join(words[:-1] if package else words)] = (package, data, path)
        self.digest = hashlib.sha256("".join(lines).encode()).hexdigest()

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> Any:
        """A module of the reducer; None for any other."""
        if name not in self._sources:
            return None
        return importlib.util.spec_from_loader(
            name, self, origin=self._sources[name][2], is_package=self._sources[name][0]
        )

    def create_module(self, spec: Any) -> None:
        """The usual one."""

    def exec_module(self, module: ModuleType) -> None:
        """Compile and run the source."""
        _, data, path = self._sources[module.__name__]
        exec(compile(data, path, "exec", dont_inherit=True), module.__dict__)


Room = Callable[[str], Any]
More = Callable[[Path], tuple[list[str], list[str]]]


def installed(name: str) -> Any:
    """A room of the package that this file lies in."""
    return importlib.import_module(f"rungproof.{name}")


def of_pack(files: Files, level: Level) -> Room:
    """Rooms of the pack's own reducer, whose digest goes to `level`."""
    reducer = Reducer(files)
    sys.meta_path.insert(0, reducer)
    level.facts.append(f"reducer {reducer.digest}: compare it with the published release")
    return installed


def deeper(files: Files, proof: Proof | None, room: Room, upto: str) -> list[Level]:
    """L2 to L4, as `judge/checks/levels.py` has them."""
    made = {name: Level(name) for name in ("L2", "L3", "L4") if name <= upto}
    try:
        found = room("judge.checks.levels").check(files.read, files.names, asdict(proof) if proof else None, upto)
    except (Exception, SystemExit) as error:  # whatever a stranger's files do: told in one line, never a traceback
        made["L2"].fail(f"cannot be judged: {why(error)}"[:300])
        return [made["L2"]]
    for name, level in made.items():
        for text in found.failures[name]:
            level.fail(text)
        level.facts += [*found.facts(name), *([f"{found.more[name]} failures more"] if found.more[name] else [])]
    return list(made.values())


def check(
    root: Path,
    upto: str = "L4",
    trust: bytes | None = None,
    log: Path | None = None,
    room: Room | None = None,
    more: More | None = None,
) -> Iterator[Level]:
    """Each level as it ends, up to the first that fails; an unsigned or withdrawn pack goes on. room: None, the pack's own reducer;
    else also a results folder, which has no manifest. more: further checks of numbers (failures, facts) of an installed rungproof.
    """
    try:
        files, proof = Files(root), Proof()
    except OSError as error:
        yield Level("L0", False, [], [_clean(f"{error.filename}: cannot be read ({error.strerror})")])
        return
    parts = {path.split("/")[0] for path in files.names}
    if room is not None and not parts & {MANIFEST, "reducer", PROOF, SIGNER}:
        yield from _results(files, room, upto, trust, more)
        return
    bytes_level = _guarded("L0", lambda: l0_bytes(files))
    yield bytes_level
    if not bytes_level.ok or upto == "L0":
        return
    signer = _guarded("L1", lambda: l1_signer(files, trust, log, proof))
    if signer.ok and room is None and upto > "L1":
        room = of_pack(files, signer)
    yield signer
    if upto > "L1" and not set(signer.failures) - {UNSIGNED, proof.withdrawn}:
        yield from _numbers(files, proof, room or of_pack(files, signer), upto, more)


def _results(files: Files, room: Room, upto: str, trust: bytes | None, more: More | None) -> Iterator[Level]:
    """A results folder: nobody signed it, and no manifest says which bytes it should have."""
    found = bombs(files)
    left = [f"{len(files.troubles)} left out, first {files.troubles[0]}"] if files.troubles else []
    yield Level("L0", False if found else None, ["no pack: a results folder has no manifest", *left], found)
    yield Level("L1", None if trust is None else False, ["no pack: nobody signed it"])
    if upto > "L1" and not found and trust is None:
        yield from _numbers(files, None, room, upto, more)


def _numbers(files: Files, proof: Proof | None, room: Room, upto: str, more: More | None) -> Iterator[Level]:
    made = deeper(files, proof, room, upto)
    if more is None and (left := sum(name.endswith(".parquet") for name in files.names)):
        made[0].facts.append(f"{left} Parquet files not compared (needs pyarrow; an installed rungproof verify does)")
    if more is not None:
        failures, facts = more(files.root)
        made[0].facts += facts
        for text in failures:
            made[0].fail(text)
    yield from made


def _guarded(name: str, run: Callable[[], Level]) -> Level:
    try:
        return run()
    except Exception as error:  # whatever a stranger's files do: told in one line, never a traceback
        level = Level(name)
        level.fail(why(error))
        return level


def why(error: BaseException) -> str:
    """An error in one line."""
    if isinstance(error, MemoryError):
        return f"takes more than {MEMORY // 2**30} GiB of memory, or than this process may have; refused"
    return str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"


def levels(pack: Path, upto: str = "L4") -> dict[str, str]:
    """Each level of a pack by the installed reducer: "ok", its first problem, or "not checked" (no pack, or unsigned)."""
    told = {}
    for level in check(pack, upto, room=installed):
        unknown = level.ok is None or level.failures == [UNSIGNED]
        told[level.level] = "ok" if level.ok else "not checked" if unknown else (level.failures or ["failed"])[0]
    return told


def exit_code(levels: Sequence[Level]) -> int:
    """0, or 10 + the number of the first level that failed."""
    return next((10 + int(level.level[1]) for level in levels if level.ok is False), 0)


def _clean(text: str, most: int = 500) -> str:
    return "".join(char if char.isprintable() else " " for char in text[:most])


def options(to: argparse.ArgumentParser) -> None:
    """What script and command have in common."""
    to.add_argument(
        "--level", choices=list(LEVELS), default="L4", help="the last level to check (default: %(default)s)"
    )
    to.add_argument("--trust", type=Path, metavar="KEY.pem", help="public key of the publisher whom you trust")
    to.add_argument(
        "--log",
        type=Path,
        metavar="LOG",
        help="reports/log.jsonl of the publisher: what was published, replayed, withdrawn",
    )
    to.add_argument("--json", action="store_true", help="one JSON object in place of lines")


def report(levels: Iterator[Level], as_json: bool, tell: Callable[[str], None] = print) -> int:
    """Tell each level as it ends; returns the exit code."""
    made = []
    for level in levels:
        made.append(level)
        for line in [] if as_json else level.lines:
            tell(line)
    code = exit_code(made)
    if as_json:
        tell(
            json.dumps(
                {"format": "rungproof.verify/1", "levels": [asdict(level) for level in made], "exit": code}, indent=1
            )
        )
    elif code == 0:
        tell("Nothing here proves that the run was honest: that takes a replay on another machine.")
    return code


def bounded() -> None:
    """Limits of a whole process: a hostile pack must hold neither the machine's memory nor its time. Past the time Refused is raised
    wherever it is, and again until the process ends."""

    def late(_number: int, _frame: FrameType | None) -> None:
        raise Refused(f"not done after {SECONDS} s; refused")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS, LATER)
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    except (ImportError, ValueError, OSError):
        return  # not every system has such a limit


def main(words: Sequence[str] | None = None) -> int:
    """The script: a pack, by default the one that it lies in."""
    parser = argparse.ArgumentParser(
        prog="verify.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "pack", nargs="?", type=Path, default=Path(__file__).parent, metavar="PACK", help="default: this folder"
    )
    options(parser)
    asked = parser.parse_args(words)
    if (
        not asked.pack.is_dir()
        or (asked.trust and not asked.trust.is_file())
        or (asked.log and not asked.log.is_file())
    ):
        parser.error("PACK must be a folder, KEY.pem and LOG files")
    bounded()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may not have every letter of a stranger's text
    trust = asked.trust.read_bytes()[:65536] if asked.trust else None
    try:
        return report(check(asked.pack, asked.level, trust, asked.log), asked.json)
    except (Refused, MemoryError) as error:  # past the time between two levels, or while one is told
        print(f"verify.py: {why(error)}", file=sys.stderr)
        return 10


if __name__ == "__main__":
    sys.exit(main())
