"""The last steps of every pack, new or changed: page, the publisher's word for it, zip, and the move to its place, whole."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rungproof.judge.checks.page import names_a_rate
from rungproof.judge.replay import claimed_items
from rungproof.judge.standing import standing
from rungproof.publish.log import KEYS, Log, Told
from rungproof.publish.pack.files import MANIFEST, PAGE, PROOF, manifest, write_zip
from rungproof.publish.pack.statements import page_line, proof_lines, publisher_of
from rungproof.publish.pages import render
from rungproof.publish.pages.text import visible
from rungproof.publish.signing import Signer, keyid
from rungproof.records.codec import canonical, plain, read, sha256
from rungproof.records.errors import ConfigError, EvidenceError, HostError
from rungproof.records.files import to_disk, write_atomic
from rungproof.records.plan import Plan
from rungproof.records.standing import ProofLine, Standing
from rungproof.records.summary import Summary

UNFINISHED, BEFORE = ".building-", "before"
NAMES_A_RATE = "it names a rate, which no page shows without its evidence; the publisher's log has it"
STANDING = "standing.json"


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack in its place. `files`, `size`: of the folder [bytes]; `zip_size`: of the zip beside it [bytes]; `new`: it was not
    published before; `standing`: what its page says; `stale`: packs of the study whose pages do not say that they ended, and why."""

    folder: Path
    files: int
    size: int
    zip_size: int
    new: bool
    standing: Standing
    stale: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The first digits of the sha256 of its manifest."""
        return self.folder.name

    @property
    def zip(self) -> Path:
        """The zip beside the folder."""
        return zip_of(self.folder)

    def __str__(self) -> str:
        what = "published" if self.new else "already published, nothing new"
        by = f"signed by {self.standing.signer[:24]}" if self.standing.signed else "unsigned"
        return "\n".join(
            (
                f"{self.folder}: {what}, {by}: {self.files} files, {self.size / 1e6:.1f} MB, zip {self.zip_size / 1e6:.1f} MB",
                *(
                    f"Its page does not say that it is superseded or withdrawn (log and site do): {one}"
                    for one in self.stale
                ),
            )
        )


def zip_of(folder: Path) -> Path:
    """Where the zip of a pack's folder lies."""
    return folder.with_name(f"{folder.name}.zip")


@contextmanager
def workshop(home: Path) -> Iterator[Path]:
    """A folder beside the packs of a study, gone at the end; what a killed publisher left there is swept first, and a pack that it
    was about to replace is put back. Use it under the log's lock. Raises HostError where the disk refuses."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        for left in home.glob(f"{UNFINISHED}*"):
            for kept in left.glob(f"{BEFORE}/*"):  # killed between the two moves of `place`
                if not (home / kept.name).exists():
                    kept.rename(home / kept.name)
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=home) as temporary:
            yield Path(temporary)
    except OSError as error:
        raise HostError(
            f"{home}: the pack could not be written ({error.strerror or error}). Nothing of it is left; free some space or mend "
            "the folder's permissions and run the same command again."
        ) from error


def redraw(folder: Path, log: Log, signer: Signer | None, line: bytes = b"") -> Pack:
    """Draw the page of a published pack anew, as the log tells of it, after `line` has joined its proof. Nothing under a manifest
    changes. Use it under the log's lock. Raises what `finish` and `workshop` do."""
    with workshop(folder.parent) as temporary:
        new = temporary / folder.name
        shutil.copytree(folder, new)
        if line:
            (new / PROOF).write_bytes((new / PROOF).read_bytes() + line)
        return place(new, folder, False, finish(new, log, log.head, signer))


def finish(folder: Path, log: Log, head: str, signer: Signer | None) -> Standing:
    """Draw the page of a pack that is being made, from its summary and its proof, and add the publisher's word for it where the page
    is not the one of the last word. folder: in a workshop; log: with the entry that is about to be written; head: of it, or the one
    that the page is to show. Raises ConfigError where that needs a key that `signer` is not."""
    home = folder.parents[1]
    pack = sha256((folder / MANIFEST).read_bytes())
    publisher, pem = publisher_of(folder)
    if publisher != (keyid(signer.public) if signer else ""):
        raise ConfigError(
            f"{folder.name}: its publisher is {publisher or 'nobody (unsigned)'}, so its page can be changed with that key alone; "
            f"found {keyid(signer.public) if signer else 'no key'}"
        )
    summary, plan = read(Summary, folder / "summary.json"), read(Plan, folder / "plan.json")
    proof = (folder / PROOF).read_bytes()
    lines = [line for _, line in proof_lines(proof, pem, home.parent / KEYS)]
    made = standing(
        [line for line in lines if line.kind != "page"],  # the page's own line speaks of this very standing
        pack,
        publisher,
        claimed_items(plan, summary.points),
        as_logged(log.told(home.name, folder.name), head),
    )
    shutil.rmtree(folder / PAGE, ignore_errors=True)
    render(summary, folder / PAGE, made)
    write_atomic(folder / PAGE / STANDING, canonical(_as_known(folder, made)))
    pages = {p.relative_to(folder / PAGE).as_posix(): p.read_bytes() for p in (folder / PAGE).rglob("*") if p.is_file()}
    (folder / PAGE / MANIFEST).write_bytes(manifest(pages))
    if not _says(lines, sha256((folder / PAGE / MANIFEST).read_bytes()), publisher):
        (folder / PROOF).write_bytes(proof + page_line(made, (folder / PAGE / MANIFEST).read_bytes(), signer))
    return made


def _as_known(folder: Path, made: Standing) -> dict[str, Any]:
    """A standing in the words of the pack's own reducer. One of before knows of no end of a pack and refuses keys that it does not
    know; there the pages alone tell of it."""
    fields: dict[str, Any] = plain(made)
    reads = folder / "reducer/rungproof/records/standing.py"
    if not reads.is_file() or b"ended_at:" in reads.read_bytes():
        return fields
    return {key: value for key, value in fields.items() if key not in ("ended", "ended_at", "reason", "successor")}


def as_logged(told: Told, head: str) -> Standing:
    """What a page repeats of the log. A reason that names a rate stays in the log: a page shows no rate without its evidence."""
    if told.status not in ("superseded", "withdrawn"):
        return Standing(log_head=head, supersedes=told.supersedes, published=told.published)
    return Standing(
        log_head=head,
        supersedes=told.supersedes,
        published=told.published,
        ended="withdrawn" if told.status == "withdrawn" else "superseded",
        ended_at=told.ended_at,
        reason=NAMES_A_RATE if names_a_rate(visible(told.reason)) else told.reason,
        successor=told.successor,
    )


def _says(lines: list[ProofLine], page: str, publisher: str) -> bool:
    """Whether the publisher's last word for a page is for this one."""
    words = [line for line in lines if line.kind == "page" and line.keyid == publisher]
    return bool(words) and words[-1].subject == page and (words[-1].holds or not publisher)


def head_shown(folder: Path, log: Log) -> str:
    """The head of the log that a pack's page shows already, where it is one of this log; else the log's own."""
    try:
        shown = read(Standing, folder / PAGE / STANDING).log_head
    except EvidenceError:
        return log.head
    return shown if shown in log.heads else log.head


def place(folder: Path, final: Path, new: bool, made: Standing) -> Pack:
    """Move a finished folder and its zip to their place, in that of an older one of the same pack.

    The proof is on the disk before the older one goes: lines of others are nowhere else, and everything else can be made again.
    """
    write_zip(folder, zip_of(folder))
    for path in (folder / PROOF, folder):
        to_disk(path)
    kept = folder.parent / BEFORE / folder.name
    if final.exists():
        kept.parent.mkdir()
        final.rename(kept)
    try:
        folder.rename(final)
    except BaseException:  # Ctrl-C, too: what is kept goes with the workshop
        if kept.exists():
            kept.rename(final)
        raise
    zip_of(folder).replace(zip_of(final))
    to_disk(final.parent)
    sizes = [path.stat().st_size for path in final.rglob("*") if path.is_file()]
    return Pack(final, len(sizes), sum(sizes), zip_of(final).stat().st_size, new, made)
