"""Changing what is published: a line that somebody sent back, and a pack that is taken back. Nothing under a manifest changes."""

from pathlib import Path

from rungproof.publish.log import KEYS, Log, append, entry_after, locked, read_log
from rungproof.publish.pack.files import MANIFEST, PAGE, PROOF
from rungproof.publish.pack.placing import STANDING, Pack, as_logged, redraw
from rungproof.publish.pack.statements import carries_key, proof_lines, publisher_of
from rungproof.publish.signing import Signer, keyid
from rungproof.records.codec import read, sha256
from rungproof.records.errors import ConfigError, EvidenceError
from rungproof.records.standing import Standing


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
        entry, head = None, ""
        if digest not in {entry.line for entry in log.entries if entry.pack == folder.name}:
            entry, head = entry_after(log, "replay", folder.parent.name, folder.name, signer, reason, line=digest)
        news = b"" if line in proof.splitlines(keepends=True) else line
        pack = redraw(folder, log.after(entry, head) if entry else log, signer, news)
        if entry:
            append(reports, log, entry)
        return pack


def withdraw(folder: Path, signer: Signer | None, reason: str) -> str:
    """Say in the log and on the pack's own page that it is taken back, and why. Its files stay: what was said is not unsaid.

    Returns why the page could not be drawn anew (it was made by a version whose records this one cannot read), "" where it was; the
    log says it all the same. Raises ConfigError without a reason, for a pack that does not stand, and for another key than its
    publisher's.
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
        entry, head = entry_after(log, "withdraw", folder.parent.name, folder.name, signer, reason)
        # The page first: a withdrawal that is logged cannot be asked for again, a page can be drawn twice.
        trouble = _redrawn(folder, log.after(entry, head), signer)
        append(reports, log, entry)
        return trouble


def tell_ended(home: Path, log: Log, signer: Signer | None) -> tuple[str, ...]:
    """Draw the pages of those packs of a study anew that do not say that they were superseded or withdrawn, as the log has it.

    home: reports/<study>. Returns the packs whose page could not be drawn, with the reason. Use it under the log's lock.
    """
    made = []
    for name in dict.fromkeys(entry.pack for entry in log.entries if entry.study == home.name):
        folder, told = home / name, as_logged(log.told(home.name, name), "")
        if not told.ended or not (folder / MANIFEST).is_file():
            continue
        if _shown(folder) != (told.ended, told.ended_at, told.reason, told.successor):
            own = (
                signer if publisher_of(folder)[0] else None
            )  # the page of a pack that nobody signed is signed by nobody
            if trouble := _redrawn(folder, log, own):
                made.append(f"{folder}: {trouble}")
    return tuple(made)


def _shown(folder: Path) -> tuple[str, str, str, str]:
    """What a pack's own page says of its end."""
    try:
        shown = read(Standing, folder / PAGE / STANDING)
    except EvidenceError:
        shown = Standing()
    return shown.ended, shown.ended_at, shown.reason, shown.successor


def _redrawn(folder: Path, log: Log, signer: Signer | None) -> str:
    """Draw the page anew; why it cannot be drawn, where it cannot, and then it is as before."""
    try:
        redraw(folder, log, signer)
    except (ConfigError, EvidenceError) as error:
        return str(error)
    return ""


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
