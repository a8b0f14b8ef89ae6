"""Building a pack: everything is read, checked and written beside its place, and moved there when it is whole."""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rungproof.publish.pack.contents import check, evidence
from rungproof.publish.pack.files import MANIFEST, PAGE, manifest, reducer, write_tree, write_zip
from rungproof.publish.pack.inputs import inputs
from rungproof.publish.pack.oracle import tokens
from rungproof.publish.pack.readme import readme
from rungproof.publish.pages import render
from rungproof.records.codec import canonical, parse, sha256
from rungproof.records.errors import HostError
from rungproof.records.formats import Closed, Judged
from rungproof.records.plan import Plan
from rungproof.records.summary import Summary

ID_DIGITS = 12
UNFINISHED = ".building-"


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack that lies in its place. `files`, `size`: of the folder [bytes]; `zip_size`: of the zip beside it; `new`: it was not there."""

    folder: Path
    files: int
    size: int
    zip_size: int
    new: bool

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
        return f"{self.folder}: {what}: {self.files} files, {self.size / 1e6:.1f} MB, zip {self.zip_size / 1e6:.1f} MB"


def build(study: Path, reports: Path, root: Path) -> Pack:
    """Make `reports/<study>/<id>/` and its zip from a results folder; the same results give the same bytes.

    root: the checkout whose config/ and envs/ the plan was resolved from. Raises EvidenceError where evidence is missing,
    damaged or newer than what was made from it, HostError where the disk refuses; then nothing is left behind.
    """
    plan, summary = check(study)
    made = _parts(study, root, plan, summary)
    made[MANIFEST] = manifest(made)
    home = reports / study.name
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=home) as temporary:
            return _placed(Path(temporary), home, made, summary)
    except OSError as error:
        raise HostError(
            f"{home}: the pack could not be written ({error.strerror or error}). Nothing of it is left; free some space or mend "
            "the folder's permissions and run the same command again."
        ) from error


def _parts(study: Path, root: Path, plan: Plan, summary: Summary) -> dict[str, bytes]:
    """Path -> bytes of everything that the manifest covers."""
    made = dict(evidence(study, summary))
    closed = [parse(Closed, data, path) for path, data in made.items() if path.endswith("/closed.json")]
    newest = max((one.at for one in closed), default="")
    made["plan/campaign.lock.json"] = made["plan.json"]
    made |= inputs(root, study, plan)
    made["oracle/tokens.json"] = canonical(tokens(plan, _judged(made)))
    made |= reducer()
    made["README.md"] = readme(summary, newest)
    return made


def _judged(made: Mapping[str, bytes]) -> list[Judged]:
    """The judged records, newest run first."""
    paths = [path for path in made if path.startswith("sessions/") and "/judged/" in path]
    paths.sort(key=lambda path: int(path.split("/")[1].split(".")[0][1:]), reverse=True)
    return [parse(Judged, made[path], path) for path in paths]


def _placed(temporary: Path, home: Path, made: Mapping[str, bytes], summary: Summary) -> Pack:
    name = sha256(made[MANIFEST])[:ID_DIGITS]
    folder, final = temporary / name, home / name
    write_tree(folder, made)
    render(summary, folder / PAGE)
    pages = {p.relative_to(folder / PAGE).as_posix(): p.read_bytes() for p in (folder / PAGE).rglob("*") if p.is_file()}
    (folder / PAGE / MANIFEST).write_bytes(manifest(pages))
    write_zip(folder, zip_of(folder))
    new = not final.exists()
    if not new:
        shutil.rmtree(final)
    folder.rename(final)
    zip_of(folder).rename(zip_of(final))
    sizes = [path.stat().st_size for path in final.rglob("*") if path.is_file()]
    return Pack(final, len(sizes), sum(sizes), zip_of(final).stat().st_size, new)


def zip_of(folder: Path) -> Path:
    """Where the zip of a pack's folder lies."""
    return folder.with_name(f"{folder.name}.zip")
