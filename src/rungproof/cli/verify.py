"""`rungproof verify`: a pack, its zip, an address of it, or a results folder, by the installed reducer and not by the pack's own."""

import argparse
import re
import tempfile
from pathlib import Path

import rungproof
from rungproof import verify as verifier
from rungproof.cli import limited
from rungproof.cli.fetch import folder_of
from rungproof.cli.words import clean, clean_lines
from rungproof.judge.use import in_use
from rungproof.publish.pack.crate import CRATE, crate
from rungproof.publish.pack.files import MANIFEST
from rungproof.publish.pack.readme import readme
from rungproof.publish.pages import render
from rungproof.publish.pages.engine import maker
from rungproof.publish.tables import read_table, same_parquet, write_tables
from rungproof.records.codec import parse, read
from rungproof.records.errors import ConfigError, EvidenceError
from rungproof.records.formats import Closed, Judged
from rungproof.records.plan import Plan
from rungproof.records.standing import Standing
from rungproof.records.summary import Summary

PATIENCE_S = 60  # past the time limit, which a library in the middle of its work may not see
HOME = Path(rungproof.__file__).parent
OTHER_PAGE = (
    "the page was made by another version: its claims and twins are checked, not its words and its Parquet files"
)
GENERATOR = re.compile(rb'<meta name="generator" content="([^"]{1,200})">')
NUMBERS = 11  # above it: L2 to L4 failed
README, REDUCER = "README.md", "reducer/rungproof"
VERSION = re.compile(rb'^__version__ = "([0-9A-Za-z.+-]{1,40})"$', re.MULTILINE)
OLDER = """\
The pack was made by rungproof {its}, this is {ours}: where formats or rules differ, a sound pack may fail L2 to L4 here. Judge it by
its own reducer: unpack it, compare the reducer digest that it prints with that of the release {its}, and run in it
  python3 -I verify.py"""
FORGED = "The pack's reducer says that it is of this version, {ours}, and has other bytes: one of the two is not the release's."


def add_options(to: argparse.ArgumentParser) -> None:
    """What is verified, how far, and by whose key."""
    to.add_argument(
        "study", metavar="PACK", help="a pack, its zip, an http(s) address of that zip, or a campaign's results folder"
    )
    verifier.options(to)


def run(options: argparse.Namespace) -> int:
    """Print each level as it ends, in a process of its own with the limits of a pack's own verify.py. Exit code 0, or 10 to 14: the
    first level that failed. Raises EvidenceError where the pack ends that process otherwise."""
    words = ["--level", options.level, *(["--json"] if options.json else [])]
    for name, place in (("--trust", options.trust), ("--log", options.log)):
        words += [name, str(place)] if place else []
    return limited.call("rungproof.cli.verifying", [*words, "--", str(options.study)], verifier.SECONDS + PATIENCE_S)


def judge(options: argparse.Namespace) -> int:
    """The same in this process, without limits."""
    for place in (options.trust, options.log):
        if place is not None and not place.is_file():
            raise ConfigError(f"{place}: there is no such file")
    trust = options.trust.read_bytes()[:65536] if options.trust else None
    with folder_of(str(options.study)) as folder:
        levels = verifier.check(folder, options.level, trust, options.log, verifier.installed, beside)
        code = verifier.report(levels, options.json, lambda line: print(line if options.json else clean(line)))
        if code > NUMBERS and not options.json and (words := by_version(folder)):
            print(clean_lines(words))
        return code


def beside(folder: Path) -> tuple[list[str], list[str]]:
    """What an installed rungproof checks besides: tables, the page of a results folder made again, another reducer.

    Returns (failures, facts). Whatever a stranger's files do is told in one line.
    """
    failures: list[str] = []
    other = other_reducer(folder / REDUCER)
    facts = judged_by(folder, other) if (folder / REDUCER).is_dir() else []
    try:
        summary = read(Summary, folder / "summary.json")
        failures += tables(folder, summary)
        facts.append("tables made again" if (folder / "tables").is_dir() else "no tables")
        if other:
            return failures, [*facts, OTHER_PAGE]
        if made_by(folder) != maker():
            return failures, [*facts, OTHER_PAGE]
        path = folder / "page/standing.json"
        failures += page_again(folder, summary, read(Standing, path) if path.is_file() else None)
        failures += described_again(folder, summary)
    except EvidenceError as error:
        return [*failures, str(error)], facts
    except Exception as error:  # a page or a table of a stranger, of which each library has its own errors
        return [*failures, f"cannot be made again: {type(error).__name__}: {error}"[:300]], facts
    return failures, [*facts, "page made again"]


def made_by(folder: Path) -> str:
    """The version that says of itself, near its beginning, that it made the page; "" where none does."""
    try:
        with open(folder / "page/index.html", "rb") as file:
            found = GENERATOR.search(file.read(4096))
    except OSError:
        return ""
    return found[1].decode("utf-8", "replace") if found else ""


def judged_by(folder: Path, other: list[str]) -> list[str]:
    """By which reducer a pack is judged here, as a fact."""
    if not other:
        return ["judged by the installed reducer, which has the same bytes as the pack's"]
    return [
        f"judged by the installed reducer, {rungproof.__version__}; the pack's own, {version_of(folder)}, differs in {len(other)} "
        f"files, first {other[0]}"
    ]


def by_version(folder: Path) -> str:
    """What to do about a pack that fails L2 to L4 and has another reducer than this; "" where the reducer is the same."""
    if not other_reducer(folder / REDUCER):
        return ""
    its, ours = version_of(folder), rungproof.__version__
    return (FORGED if its == ours else OLDER).format(its=its, ours=ours)


def version_of(pack: Path) -> str:
    """The version that a pack's reducer says it is of."""
    try:
        found = VERSION.search((pack / REDUCER / "__init__.py").read_bytes()[:65536])
    except OSError:
        found = None
    return found[1].decode("ascii") if found else "of no known version"


def described_again(folder: Path, summary: Summary) -> list[str]:
    """README and metadata of a pack that are not what its own bytes give: both tell of the numbers."""
    if not (folder / MANIFEST).is_file():
        return []
    named = [line.split("  ", 1)[1] for line in (folder / MANIFEST).read_text("ascii").splitlines()]
    made = {name: (folder / name).read_bytes() for name in named if name != CRATE}
    closed = [parse(Closed, data, name) for name, data in made.items() if name.endswith("/closed.json")]
    newest = max((one.at for one in closed), default="")
    again = {README: readme(summary, newest), CRATE: crate(made, summary, newest)}
    return [
        f"{name}: is not what the pack's own bytes give"
        for name, data in again.items()
        if not (folder / name).is_file() or (folder / name).read_bytes() != data
    ]


def page_again(study: Path, summary: Summary, standing: Standing | None) -> list[str]:
    """Files of a page that are not what its summary, and its standing, give; Parquet by its content."""
    made = []
    with tempfile.TemporaryDirectory() as scratch:
        for path in render(summary, Path(scratch), standing):
            file = study / "page" / path.name
            if not file.exists() or (file.read_bytes() != path.read_bytes() and not same_parquet(file, path)):
                made.append(f"page/{path.name}: is not what summary.json gives")
    return made


def tables(folder: Path, summary: Summary) -> list[str]:
    """Tables that are not what summary and judged records give; the same rows in other bytes (another pyarrow) are the same."""
    if not (folder / "tables").is_dir():
        return []
    plan = read(Plan, folder / "plan.json")
    asked = {item.id: (item.spec_sha256, plan.arm(item.arm).launch_sha256) for item in plan.items}
    paths = sorted(
        folder.glob("sessions/*/judged/*.json"), key=lambda p: int(p.parts[-3].split(".")[0][1:]), reverse=True
    )
    records = [read(Judged, path) for path in paths]
    mine = [
        j
        for j in records
        if asked.get(f"{j.arm}.{j.replicate}/{j.workload}/{j.item}") == (j.spec_sha256, j.launch_sha256)
    ]
    made = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, path in write_tables(
            summary, [j for _, j in in_use([(None, j) for j in mine])], Path(scratch)
        ).items():
            file = folder / "tables" / path.name
            if not file.is_file():
                made.append(f"tables/{path.name}: there is no such file")
            elif file.read_bytes() != path.read_bytes() and not read_table(file, name).equals(read_table(path, name)):
                made.append(f"tables/{path.name}: is not what the records give")
    return made


def other_reducer(folder: Path) -> list[str]:
    """Files in which a pack's reducer is not the installed one; none where there is no pack."""
    if not folder.is_dir():
        return []
    names = {p.relative_to(HOME).as_posix() for room in ("records", "judge") for p in (HOME / room).rglob("*.py")} | {
        "__init__.py"
    }
    there = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    return sorted(
        name
        for name in names | there
        if name not in names or name not in there or (folder / name).read_bytes() != (HOME / name).read_bytes()
    )
