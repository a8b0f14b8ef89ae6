"""Reading a campaign's results folder into its summary."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rungproof.judge.study import findings_of, read_sessions
from rungproof.judge.summary import summarise
from rungproof.judge.use import in_use
from rungproof.records.codec import canonical, read
from rungproof.records.files import write_atomic
from rungproof.records.formats import Judged, Verdict
from rungproof.records.plan import Plan
from rungproof.records.summary import Summary


def collect(
    study: Path, plan: Plan, judged: Sequence[Path], verdicts: Sequence[Path], left_out: Mapping[str, str]
) -> Summary:
    """The summary of a results folder. judged: records of all items, each item's newest first. Raises EvidenceError for a damaged one."""
    findings = findings_of(plan, [read(Judged, p) for p in judged], [read(Verdict, p) for p in verdicts], left_out)

    def read_file(path: str) -> bytes | None:
        file = study / path
        return file.read_bytes() if file.exists() else None

    sessions = read_sessions(read_file, [path.parent.name for path in study.glob("sessions/*/server.json")])
    return summarise(findings, [session.facts for session in sessions.values()])


def write_summary(
    study: Path, plan: Plan, judged: Sequence[Path], verdicts: Sequence[Path], left_out: Mapping[str, str]
) -> None:
    """Write `plan.json` and `summary.json`."""
    write_atomic(study / "plan.json", canonical(plan))
    write_atomic(study / "summary.json", canonical(collect(study, plan, judged, verdicts, left_out)))


def used(judged: Sequence[Path]) -> list[Judged]:
    """The records in use among those of all items."""
    return [record for _, record in in_use([(path, read(Judged, path)) for path in judged])]
