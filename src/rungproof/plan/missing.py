"""What is still to be measured: reads the records of earlier sessions, decides which items get a new session of this run.

Sessions are append-only and results are accepted: an item belongs to the newest sound session that measured exactly its
spec on exactly its launch, and only where there is none does it get a new one. Withheld is a result, so it is never
measured again by itself.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rungproof.records.codec import read, sha256
from rungproof.records.errors import ConfigError, EvidenceError
from rungproof.records.formats import Attempt, Closed, Judged, Server, Verdict
from rungproof.records.plan import Gate, Item, Plan, split_session

RUN = re.compile(r"^r(\d{3,})$")
NOT_NEEDED = "not needed: the spread of the fresh servers has not passed its limit"


@dataclass(frozen=True, slots=True)
class Assignment:
    """Where one item's evidence lies. `sessions`: newest first, a new one of this run among them; left_out: why nothing is planned."""

    item: Item
    sessions: tuple[str, ...]
    new: bool
    left_out: str

    def judged(self) -> tuple[str, ...]:
        """Paths of the judged records, relative to the results folder of the campaign, newest first."""
        return tuple(judged_path(session, self.item) for session in self.sessions)


@dataclass(frozen=True, slots=True)
class Todo:
    """One call's work. `new`: the new sessions in order, each with the items it measures."""

    run: str
    assignments: tuple[Assignment, ...]
    new: tuple[tuple[str, tuple[Item, ...]], ...]
    remeasured: tuple[str, ...]

    def of(self, item_id: str) -> Assignment:
        """The assignment of that item. Raises KeyError."""
        return {a.item.id: a for a in self.assignments}[item_id]


def judged_path(session: str, item: Item) -> str:
    """Where the judged record of an item in a session lies, relative to the campaign's results folder."""
    return f"sessions/{session}/judged/{item.workload}.{item.item}.json"


def next_run(studies: Iterable[Path]) -> str:
    """The next free run name (`r001`, `r002` ...) over all results folders, so that a call has one name everywhere."""
    taken = [0]
    for study in studies:
        for folder in (*study.glob("runs/*"), *study.glob("sessions/*")):
            found = RUN.match(folder.name.split(".")[0])
            if found:
                taken.append(int(found[1]))
    return f"r{max(taken) + 1:03d}"


def parse_remeasure(text: str, plan: Plan) -> tuple[str, ...]:
    """Item ids named by ARM[.REPLICATE]/WORKLOAD/ITEM, comma separated. Raises ConfigError for one that names nothing."""
    found: list[str] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        matching = [i.id for i in plan.items if part in (i.id, f"{i.arm}/{i.workload}/{i.item}")]
        if not matching:
            raise ConfigError(
                f"--config remeasure={part}: campaign {plan.campaign} has no such item; expected ARM[.REPLICATE]/WORKLOAD/ITEM, "
                f"for example {plan.items[-1].arm}/{plan.items[-1].workload}/{plan.items[-1].item}"
            )
        found += matching
    return tuple(dict.fromkeys(found))


def plan_run(plan: Plan, study: Path, run: str, remeasure: tuple[str, ...], judge_sha256: str) -> Todo:
    """Decide what this run measures. `study`: the campaign's results folder, which may not exist yet."""
    known = _known_sessions(study)
    stopped = {arm.name for arm in plan.arms if arm.oracle != arm.name and base_gate_failed(plan, study, arm.oracle)}
    assignments = []
    for item in plan.items:
        launch = plan.arm(item.arm).launch_sha256
        candidates = [s for s in known if _candidate(study, s, item, launch)]
        good = any(_acceptable(study, s, item, judge_sha256) for s in candidates)
        wanted = item.id in remeasure or not good
        left_out = (
            f"skipped: gate (base repeat of {plan.arm(item.arm).oracle})" if wanted and item.arm in stopped else ""
        )
        if (
            wanted
            and item.seat in plan.conditional
            and item.id not in remeasure
            and not third_wanted(plan, study, item)
        ):
            left_out = left_out or NOT_NEEDED
        new = wanted and not left_out
        sessions = ([f"{run}.{item.seat}"] if new else []) + candidates
        assignments.append(Assignment(item, tuple(sessions), new, left_out))
    fresh = []
    for seat in plan.seats:
        items = tuple(a.item for a in assignments if a.new and a.item.seat == seat)
        if items:
            fresh.append((f"{run}.{seat}", items))
    return Todo(
        run,
        tuple(assignments),
        tuple(fresh),
        tuple(i for i in remeasure if any(a.new and a.item.id == i for a in assignments)),
    )


def base_gate_failed(plan: Plan, study: Path, base: str) -> bool:
    """True when a base-repeat verdict of arm `base` was made from the files accepted now and did not qualify."""
    gates = [g for g in plan.gates if g.kind == "base_repeat" and plan.item(g.subject[0]).arm == base]
    return any(_current_state(study, gate) == "withheld" for gate in gates)


def third_wanted(plan: Plan, study: Path, item: Item) -> bool:
    """True when the spread of the fresh servers of this item's arm is known and past its limit."""
    gates = [g for g in plan.gates if g.kind == "spread" and item.id in g.subject]
    return any(_current_state(study, gate) == "withheld" for gate in gates)


def _current_state(study: Path, gate: Gate) -> str:
    """State of a gate's verdict; "" where there is none, or one made from files that are not those of now."""
    try:
        verdict = read(Verdict, study / "verdicts" / f"{gate.id}.json")
    except EvidenceError:
        return ""
    files = [(study / source.path, source.sha256) for source in verdict.inputs]
    current = all(path.exists() and sha256(path.read_bytes()) == digest for path, digest in files)
    return verdict.state if current and verdict.rule == gate.rule else ""


def _known_sessions(study: Path) -> list[str]:
    """Closed sessions, newest run first."""
    names = []
    for folder in study.glob("sessions/*"):
        try:
            run, _, _ = split_session(folder.name)
        except ValueError:
            continue
        try:
            read(Closed, folder / "closed.json")
        except EvidenceError:  # still open, or its closing is damaged: nothing of it can be used
            continue
        names.append((int(run[1:]), folder.name))
    return [name for _, name in sorted(names, reverse=True)]


def remove_unreadable(studies: Iterable[Path]) -> list[Path]:
    """Remove judged records that are damaged, so that they are made again from the raw bytes; returns what was removed."""
    removed = []
    for path in (path for study in studies for path in study.glob("sessions/*/judged/*.json")):
        try:
            read(Judged, path)
        except EvidenceError:
            path.unlink()
            removed.append(path)
    return removed


def _candidate(study: Path, session: str, item: Item, launch_sha256: str) -> bool:
    """True when this session has a record of exactly this item on exactly this launch, whatever came of it."""
    _, arm, replicate = split_session(session)
    if f"{arm}.{replicate}" != item.seat:
        return False
    folder = study / "sessions" / session
    path = folder / "attempts" / f"{item.workload}.{item.item}.json"
    if not path.exists():
        return False
    try:
        return (
            read(Attempt, path).spec_sha256 == item.spec_sha256
            and read(Server, folder / "server.json").launch_sha256 == launch_sha256
        )
    except EvidenceError:
        return False


def _acceptable(study: Path, session: str, item: Item, judge_sha256: str) -> bool:
    """True when the judge accepted this record, or has yet to see it and nothing speaks against it."""
    path = study / judged_path(session, item)
    if path.exists():
        try:
            judged = read(Judged, path)
        except EvidenceError:
            judged = None
        if judged and judged.judge_sha256 == judge_sha256:
            return judged.state == "accepted"
    folder = study / "sessions" / session
    try:
        attempt = read(Attempt, folder / "attempts" / f"{item.workload}.{item.item}.json")
        return attempt.status == "measured" and read(Closed, folder / "closed.json").sound
    except EvidenceError:
        return False
