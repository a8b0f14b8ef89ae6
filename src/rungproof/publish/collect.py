"""Reading a campaign's results folder into its summary."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from rungproof.judge.points import Findings
from rungproof.judge.summary import SessionFacts, summarise
from rungproof.judge.use import in_use
from rungproof.records.codec import canonical, read
from rungproof.records.files import write_atomic
from rungproof.records.formats import Canary, Closed, Judged, Server, Verdict
from rungproof.records.plan import Plan
from rungproof.records.summary import Summary

R = TypeVar("R")


def collect(
    study: Path, plan: Plan, judged: Sequence[Path], verdicts: Sequence[Path], left_out: Mapping[str, str]
) -> Summary:
    """The summary of a results folder. judged: records of all items, each item's newest first. Raises EvidenceError for a damaged file."""
    records: dict[str, list[Judged]] = {}
    for path in judged:
        record = read(Judged, path)
        records.setdefault(f"{record.arm}.{record.replicate}/{record.workload}/{record.item}", []).append(record)
    read_verdicts = {v.gate: v for v in (read(Verdict, path) for path in verdicts)}
    return summarise(Findings(plan, records, read_verdicts, left_out), _sessions(study))


def write_summary(
    study: Path, plan: Plan, judged: Sequence[Path], verdicts: Sequence[Path], left_out: Mapping[str, str]
) -> None:
    """Write `plan.json` and `summary.json`."""
    write_atomic(study / "plan.json", canonical(plan))
    write_atomic(study / "summary.json", canonical(collect(study, plan, judged, verdicts, left_out)))


def used(judged: Sequence[Path]) -> list[Judged]:
    """The records in use among those of all items."""
    return [record for _, record in in_use([(path, read(Judged, path)) for path in judged])]


def _sessions(study: Path) -> list[SessionFacts]:
    """Every session of the folder that got as far as a server record, by name."""
    folders = sorted(path.parent for path in study.glob("sessions/*/server.json"))
    return [
        SessionFacts(
            read(Server, f / "server.json"),
            _maybe(Canary, f / "canary_before.json"),
            _maybe(Canary, f / "canary_after.json"),
            _maybe(Closed, f / "closed.json"),
        )
        for f in folders
    ]


def _maybe(cls: type[R], path: Path) -> R | None:
    return read(cls, path) if path.exists() else None
