"""`rungproof verify`: a pack, its zip, an address of it, or a results folder, by the installed reducer and not by the pack's own."""

import argparse
import re
import tempfile
from pathlib import Path

import rungproof
from rungproof import verify as verifier
from rungproof.cli.fetch import folder_of
from rungproof.cli.words import clean
from rungproof.judge.use import in_use
from rungproof.publish.pages import render
from rungproof.publish.pages.engine import maker
from rungproof.publish.tables import read_table, same_parquet, write_tables
from rungproof.records.codec import read
from rungproof.records.errors import ConfigError, EvidenceError
from rungproof.records.formats import Judged
from rungproof.records.plan import Plan
from rungproof.records.standing import Standing
from rungproof.records.summary import Summary

HOME = Path(rungproof.__file__).parent
OTHER_PAGE = "the page was made by another version: its claims are checked, not its words"
GENERATOR = re.compile(rb'<meta name="generator" content="([^"]{1,200})">')


def add_options(to: argparse.ArgumentParser) -> None:
    """What is verified, how far, and by whose key."""
    to.add_argument(
        "study", metavar="PACK", help="a pack, its zip, an http(s) address of that zip, or a campaign's results folder"
    )
    verifier.options(to)


def run(options: argparse.Namespace) -> int:
    """Print each level as it ends. Exit code 0, or 10 to 14: the first level that failed."""
    for place in (options.trust, options.log):
        if place is not None and not place.is_file():
            raise ConfigError(f"{place}: there is no such file")
    trust = options.trust.read_bytes()[:65536] if options.trust else None
    with folder_of(str(options.study)) as folder:
        levels = verifier.check(folder, options.level, trust, options.log, verifier.installed, beside)
        return verifier.report(levels, options.json, lambda line: print(line if options.json else clean(line)))


def beside(folder: Path) -> tuple[list[str], list[str]]:
    """What an installed rungproof checks besides: tables, the page of a results folder made again, another reducer.

    Returns (failures, facts).
    """
    failures, facts = [], []
    try:
        summary = read(Summary, folder / "summary.json")
        failures += tables(folder, summary)
        facts.append("tables made again" if (folder / "tables").is_dir() else "no tables")
    except EvidenceError as error:
        return [str(error)], facts
    if (folder / "reducer").is_dir():
        other = other_reducer(folder / "reducer/rungproof")
        same = "judged by the installed reducer, which has the same bytes as the pack's"
        facts.append(
            f"judged by the installed reducer, {rungproof.__version__}; the pack's own differs in {len(other)} files, first {other[0]}"
            if other
            else same
        )
        if other:
            return failures, [*facts, OTHER_PAGE]
    if made_by(folder) != maker():
        return failures, [*facts, OTHER_PAGE]
    try:
        path = folder / "page/standing.json"
        failures += page_again(folder, summary, read(Standing, path) if path.is_file() else None)
    except EvidenceError as error:
        failures.append(str(error))
    return failures, [*facts, "page made again"]


def made_by(folder: Path) -> str:
    """The version that says of itself, near its beginning, that it made the page; "" where none does."""
    try:
        with open(folder / "page/index.html", "rb") as file:
            found = GENERATOR.search(file.read(4096))
    except OSError:
        return ""
    return found[1].decode("utf-8", "replace") if found else ""


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
    """Files in which a pack's reducer is not the installed one."""
    names = {p.relative_to(HOME).as_posix() for room in ("records", "judge") for p in (HOME / room).rglob("*.py")} | {
        "__init__.py"
    }
    there = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    return sorted(
        name
        for name in names | there
        if name not in names or name not in there or (folder / name).read_bytes() != (HOME / name).read_bytes()
    )
