"""Changing what is published: a line that somebody sent back, and a pack that is taken back. Nothing under a manifest changes."""

import shutil
from pathlib import Path

from rungproof.publish.log import KEYS, Log, append, entry_after, locked, read_log
from rungproof.publish.pack.files import MANIFEST, PROOF
from rungproof.publish.pack.placing import Pack, finish, place, workshop
from rungproof.publish.pack.statements import carries_key, proof_lines, publisher_of
from rungproof.publish.signing import Signer, keyid
from rungproof.records.codec import sha256
from rungproof.records.errors import ConfigError, EvidenceError


def add_line(folder: Path, line: bytes, signer: Signer | None, reason: str = "") -> Pack:
    """Append a replayer's signed line to a published pack (`reports/<study>/<id>`), write the log, and draw the page anew.

    line: one DSSE envelope, its end included, with its key in the statement (`public_key`). signer: the pack's publisher. The
    same line twice changes nothing. Raises EvidenceError for a line that is not a replayer's about this pack or whose signature does
    not hold, ConfigError for another signer or a pack that is not published.
    """
    reports = folder.parents[1]
    with locked(reports):
        log = read_log(reports)
        _standing(log, folder)
        _, pem = publisher_of(folder)
        proof = (folder / PROOF).read_bytes()
        told = proof_lines(line, pem, reports / KEYS)
        if len(told) != 1 or told[0][1].kind not in ("replay", "recompute") or not told[0][1].holds:
            raise EvidenceError(
                f"{folder.name}: found no line of a replay whose signature holds; expected one, with its end, signed by the key it names"
            )
        if not carries_key(told[0][1]):
            raise EvidenceError(
                f"{folder.name}: the line does not bring its key; expected public_key, in PEM as `openssl pkey -pubout` writes it"
            )
        if told[0][1].subject != sha256((folder / MANIFEST).read_bytes()):
            raise EvidenceError(
                f"{folder.name}: the line speaks of the pack {told[0][1].subject[:12]}; it was made from another one"
            )
        digest = sha256(line.rstrip(b"\n"))
        entry, head = None, log.head
        if digest not in {entry.line for entry in log.entries if entry.pack == folder.name}:
            entry, head = entry_after(log, "replay", folder.parent.name, folder.name, signer, reason, line=digest)
        with workshop(folder.parent) as temporary:
            new = temporary / folder.name
            shutil.copytree(folder, new)
            if line not in proof.splitlines(keepends=True):
                (new / PROOF).write_bytes(proof + line)
            known = log.published(folder.parent.name, folder.name)
            made = finish(new, reports, head, known.at if known else "", known.supersedes if known else "", signer)
            pack = place(new, folder, False, made)
        if entry:
            append(reports, log, entry)
        return pack


def withdraw(folder: Path, signer: Signer | None, reason: str) -> None:
    """Say in the log that a published pack is taken back, and why. Its files stay: what was said is not unsaid.

    Raises ConfigError without a reason, for a pack that does not stand, and for another key than its publisher's.
    """
    reports = folder.parents[1]
    if not reason.strip():
        raise ConfigError(f"{folder}: a pack is withdrawn with a reason; say --reason 'what is wrong with it'")
    with locked(reports):
        log = read_log(reports)
        _standing(log, folder)
        publisher, _ = publisher_of(folder)
        if publisher != (keyid(signer.public) if signer else ""):
            raise ConfigError(
                f"{folder}: its publisher is {publisher or 'nobody (unsigned)'}; found {keyid(signer.public) if signer else 'no key'}. "
                "A pack is withdrawn with the key that signed it."
            )
        entry, _ = entry_after(log, "withdraw", folder.parent.name, folder.name, signer, reason)
        append(reports, log, entry)


def _standing(log: Log, folder: Path) -> None:
    """Raises ConfigError for a pack that is not published, or was withdrawn."""
    events = [
        e.event for e in log.entries if (e.study, e.pack) == (folder.parent.name, folder.name) and e.event != "replay"
    ]
    if not events or events[-1] == "withdraw":
        raise ConfigError(
            f"{folder}: {'was withdrawn' if events else 'no such pack is published'} by {folder.parents[1] / 'log.jsonl'}; "
            "name a folder reports/<study>/<id> that the log publishes"
        )
