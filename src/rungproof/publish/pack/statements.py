"""The statements that a publisher signs about a pack, and what the lines of a proof add up to."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rungproof.judge.claims import measurement, provenance
from rungproof.publish.pack.files import MANIFEST, PAGE, PROOF
from rungproof.publish.signing import Signer, holds, keyid, pem, public_from, signed_line
from rungproof.records.codec import sha256
from rungproof.records.errors import EvidenceError
from rungproof.records.plan import Plan
from rungproof.records.proof import (
    MEASUREMENT,
    PROVENANCE,
    REPLAY,
    Envelope,
    key_file,
    read_line,
    statement,
    statement_of,
)
from rungproof.records.proof import PAGE as PAGE_TYPE
from rungproof.records.standing import LineKind, ProofLine, Standing
from rungproof.records.summary import Summary

SIGNER = "signer.pub.pem"
KINDS: dict[str, LineKind] = {PROVENANCE: "provenance", MEASUREMENT: "measurement", PAGE_TYPE: "page", REPLAY: "replay"}


def first_lines(made: Mapping[str, bytes], plan: Plan, summary: Summary, signer: Signer | None) -> bytes:
    """Provenance and measurement, one line each. made: everything that the manifest covers, and the manifest."""
    subject = {MANIFEST: sha256(made[MANIFEST])}
    return b"".join(
        signed_line(statement(subject, kind, predicate), signer)
        for kind, predicate in ((PROVENANCE, provenance(made, plan)), (MEASUREMENT, measurement(summary)))
    )


def page_line(standing: Standing, manifest: bytes, signer: Signer | None) -> bytes:
    """The publisher's word for the page as it stands: its own manifest, the state it shows and the head of the log it was made at."""
    said = {"state": standing.state, "log_head": standing.log_head, "pack": {"sha256": standing.pack}}
    return signed_line(statement({f"{PAGE}/{MANIFEST}": sha256(manifest)}, PAGE_TYPE, said), signer)


def proof_lines(data: bytes, public: bytes, keys: Path) -> list[tuple[bytes, ProofLine]]:
    """Every line of a proof with what it is, its signature checked.

    public: PEM of the publisher, b"" unsigned; a replayer's key is in its statement, else under `keys`. Raises EvidenceError
    for a line that is no envelope of ours.
    """
    made = []
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        where = f"{PROOF}:{number}"
        envelope = read_line(line, where)
        held = statement_of(envelope, where)
        kind = KINDS.get(held["predicateType"], "other")
        if kind == "replay" and held["predicate"].get("kind") == "recompute":
            kind = "recompute"
        good = any(keyid(k) == envelope.keyid and holds(k, envelope.signature, envelope.signed_bytes)
                   for k in _candidates(envelope, held["predicate"], public, keys, where))  # fmt: skip
        subject = held["subject"][0]["digest"]["sha256"]
        made.append((line, ProofLine(kind, envelope.keyid, good, subject, held["predicate"])))
    return made


def _candidates(
    envelope: Envelope, predicate: Mapping[str, Any], public: bytes, keys: Path, where: str
) -> Iterable[Any]:
    """Public keys that may be the one that an envelope names."""
    told = predicate.get("public_key")
    if public:
        yield public_from(public, SIGNER)
    if isinstance(told, str):
        yield public_from(told.encode("utf-8", "replace"), f"{where}: public_key")
    if envelope.keyid and (path := keys / key_file(envelope.keyid)).is_file():
        yield public_from(path.read_bytes(), str(path))


def carries_key(line: ProofLine) -> bool:
    """Whether a line brings the key that it names, written as openssl writes it: whoever has the pack alone must be able to check it."""
    told = line.predicate.get("public_key")
    try:
        key = public_from(told.encode("ascii"), "public_key") if isinstance(told, str) else None
    except (EvidenceError, ValueError):
        return False
    return key is not None and keyid(key) == line.keyid and pem(key) == str(told).encode("ascii")


def public_of(signer: Signer | None) -> dict[str, bytes]:
    """The publisher's key as a file of the pack; none where it is unsigned."""
    return {SIGNER: pem(signer.public)} if signer else {}


def publisher_of(folder: Path) -> tuple[str, bytes]:
    """Key id and PEM of a pack's publisher; "" and b"" for an unsigned pack. Raises EvidenceError for a broken key."""
    path = folder / SIGNER
    if not path.is_file():
        return "", b""
    data = path.read_bytes()
    return keyid(public_from(data, str(path))), data
