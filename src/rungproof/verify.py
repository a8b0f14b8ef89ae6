"""Recomputes a results folder from raw bytes and compares every record, verdict and number with what the folder says.

Of the levels of verification this does L2 (numbers) and L3 (identity); L0 (bytes) and L1 (signer) need a signed pack. It
does not prove that the run was honest, only that what is shown follows from the files. It imports none of the rooms by
name: it loads `records` and `judge` of the package it lies in, so that a pack can carry it with a copy of those two.
"""

import dataclasses
import importlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Outcome:
    """What was compared and what differs. ok: nothing differs, and there was something of each kind."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("judged records", "verdicts", "points"), 0))
    differs: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Everything agrees, and nothing was empty."""
        return not self.differs and all(self.counts.values())

    @property
    def lines(self) -> list[str]:
        """For people: differences first."""
        empty = [f"differs: no {what} to compare" for what, n in self.counts.items() if not n]
        made = [f"recomputed from raw files: {n} {what}" for what, n in self.counts.items()]
        return [f"differs: {d}" for d in self.differs] + empty + made

    def compare(self, kind: str, what: str, said: Any, again: Any) -> None:
        """Count one comparison and keep it where the two are not equal."""
        self.counts[kind] += 1
        if said != again:
            self.differs.append(f"{what}: {_fields(said, again)}")


def recompute(study: Path) -> Outcome:
    """Recompute `study` (results/<campaign>). Raises EvidenceError where summary or plan cannot be read."""
    codec, formats = _room("records.codec"), _room("records.formats")
    said = codec.read(_room("records.summary").Summary, study / "summary.json")
    plan = codec.read(_room("records.plan").Plan, study / "plan.json")
    outcome = Outcome()
    if codec.digest(plan) != said.lock_sha256:
        outcome.differs.append(
            f"plan.json: its digest begins {codec.digest(plan)[:12]}; the summary names {said.lock_sha256[:12]}"
        )
    read = _reader(study)
    lying = {item.id: list(_judged(study, read, plan, item, outcome)) for item in plan.items}
    sessions = _room("judge.study").read_sessions(read, [p.parent.name for p in study.glob("sessions/*/server.json")])
    for session in sessions.values():
        _canary_raw(read, session.facts, outcome)
    verdicts = _verdicts(plan, lying, sessions)
    for verdict in verdicts:
        data = read(f"verdicts/{verdict.gate}.json")
        file = codec.parse(formats.Verdict, data, verdict.gate) if data is not None else None
        outcome.compare("verdicts", f"verdicts/{verdict.gate}.json", file, verdict)
    again = _summary(plan, lying, verdicts, sessions, said)
    outcome.counts["points"] += len(again.points)
    for name in (f.name for f in dataclasses.fields(again)):
        if getattr(said, name) != getattr(again, name):
            outcome.differs.append(
                f"summary.json: {name}: {_first_difference(getattr(said, name), getattr(again, name))}"
            )
    return outcome


def _room(name: str) -> Any:
    return importlib.import_module(f"{__name__.rpartition('.')[0]}.{name}")


def _reader(study: Path) -> Any:
    def read(path: str) -> bytes | None:
        try:
            return (study / path).read_bytes()
        except FileNotFoundError:
            return None

    return read


def _judged(study: Path, read: Any, plan: Any, item: Any, outcome: Outcome) -> Iterator[tuple[Any, Any]]:
    """Every attempt at an item under this plan, judged again, newest run first, with the input that names its file."""
    codec, formats = _room("records.codec"), _room("records.formats")
    launch = {arm.name: arm.launch_sha256 for arm in plan.arms}[item.arm]
    attempts = study.glob(f"sessions/*.{item.seat}/attempts/{item.workload}.{item.item}.json")
    for session in sorted((p.parents[1].name for p in attempts), key=_run_number, reverse=True):
        home = f"sessions/{session}"
        try:
            judged = _again(read, home, item, launch)
        except _room("records.errors").EvidenceError as error:
            outcome.differs.append(str(error))
            continue
        if judged is None:
            continue  # of an earlier plan, or still open
        path, data, file, again = judged
        outcome.compare("judged records", path, file, again)
        yield formats.Input(path, codec.sha256(data or b"")), again


def _again(read: Any, home: str, item: Any, launch: str) -> tuple[str, bytes | None, Any, Any] | None:
    """Path, bytes and record of a judged file, and what the raw bytes say. Raises EvidenceError for damaged records."""
    codec, formats = _room("records.codec"), _room("records.formats")
    name = f"{item.workload}.{item.item}.json"
    attempt = codec.parse(formats.Attempt, read(f"{home}/attempts/{name}"), home)
    server = codec.parse(formats.Server, read(f"{home}/server.json") or b"", f"{home}/server.json")
    if attempt.spec_sha256 != item.spec_sha256 or server.launch_sha256 != launch or read(f"{home}/closed.json") is None:
        return None
    path = f"{home}/judged/{name}"
    data = read(path)
    file = codec.parse(formats.Judged, data, path) if data is not None else None
    session = home.rpartition("/")[2]
    return (
        path,
        data,
        file,
        _room("judge.evidence").judge_from(read, session, item, launch, file.judge_sha256 if file else ""),
    )


def _run_number(session: str) -> int:
    return int(session.split(".")[0][1:])


def _canary_raw(read: Any, facts: Any, outcome: Outcome) -> None:
    """The raw file of each canary is the one that its record names."""
    for canary in (facts.before, facts.after):
        if canary is not None and canary.raw is not None:
            data = read(canary.raw.path)
            if data is None or _room("records.codec").sha256(data) != canary.raw.sha256:
                outcome.differs.append(
                    f"{canary.raw.path}: missing or not the file that canary_{canary.when}.json names"
                )


def _verdicts(plan: Any, lying: dict[str, Any], sessions: dict[str, Any]) -> list[Any]:
    """Verdicts of all gates, in the order of the plan: those of a comparison only where both sides have a record."""
    room = _room("judge.verdicts")
    recorded = {key for key, of in lying.items() if of}
    records = [one for item in plan.items for one in lying[item.id]]
    files = {n: (s.files, s.inputs) for n, s in sessions.items()}
    return [room.gate_verdict(g, records, files) for g in plan.gates if g.judgeable(recorded)]


def _summary(plan: Any, lying: dict[str, Any], verdicts: list[Any], sessions: dict[str, Any], said: Any) -> Any:
    # Why an item without any record was left out is the planner's word: there are no raw bytes behind it.
    reasons = {p.id.rpartition("/")[0]: p.reasons[0] for p in said.points if p.state == "skipped" and p.reasons}
    left_out = {
        item.id: reasons[f"{item.arm}/{item.workload}/{item.item}"]
        for item in plan.items
        if not lying[item.id] and f"{item.arm}/{item.workload}/{item.item}" in reasons
    }
    records = [judged for item in plan.items for _, judged in lying[item.id]]
    findings = _room("judge.study").findings_of(plan, records, verdicts, left_out)
    return _room("judge.summary").summarise(findings, [s.facts for s in sessions.values()])


def _fields(said: Any, again: Any) -> str:
    """The fields that differ, shortened."""
    if said is None:
        return "the file is missing; the raw bytes give one"
    names = [f.name for f in dataclasses.fields(said) if getattr(said, f.name) != getattr(again, f.name)]
    return "; ".join(
        f"{name}: says {getattr(said, name)!r:.80}, recomputed {getattr(again, name)!r:.80}" for name in names[:3]
    )


def _first_difference(said: Any, again: Any) -> str:
    if isinstance(said, tuple) and isinstance(again, tuple):
        if len(said) != len(again):
            return f"{len(said)} entries, recomputed {len(again)}"
        said, again = next((a, b) for a, b in zip(said, again, strict=True) if a != b)
        if dataclasses.is_dataclass(said):
            return f"{getattr(said, 'id', getattr(said, 'gate', getattr(said, 'arm', '')))}: {_fields(said, again)}"
    return f"says {said!r:.80}, recomputed {again!r:.80}"
