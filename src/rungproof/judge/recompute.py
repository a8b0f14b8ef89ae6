"""A results folder recomputed from its raw bytes and compared with what it says: records, verdicts and every field of the summary."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from rungproof.judge.checks.found import Found, differences, level_of
from rungproof.judge.evidence import Read, judge_from
from rungproof.judge.study import Session, findings_of, read_sessions
from rungproof.judge.summary import summarise
from rungproof.judge.verdicts import Lying, gate_verdict
from rungproof.records.codec import parse, plain, sha256
from rungproof.records.errors import EvidenceError
from rungproof.records.formats import Attempt, Input, Judged, Server, Verdict
from rungproof.records.plan import Item, Plan, split_session
from rungproof.records.summary import Summary

SIZES = ("passes", "repeats", "concurrency", "prompts", "copies", "depth", "length", "tokens", "cap")
LARGEST = 2_000_000


@dataclass(frozen=True, slots=True)
class Again:
    """What the raw bytes give: `summary` recomputed, `said` as the folder has it, `judged` by item with the newest run first."""

    plan: Plan
    said: Summary
    summary: Summary
    judged: Mapping[str, tuple[Lying, ...]]
    sessions: Mapping[str, Session]


def recompute(read: Read, names: Collection[str], found: Found) -> Again:
    """Recompute a results folder; `names`: every file in it. Differences go to `found`, those of identity as L3.

    Raises EvidenceError where summary or plan cannot be read.
    """
    found.need("L2", "judged records")
    found.need("L3", "verdicts", "points")
    said = parse(Summary, _need(read, "summary.json"), "summary.json")
    data = _need(read, "plan.json")
    plan = parse(Plan, data, "plan.json")
    bounded(plan)
    if sha256(data) != said.lock_sha256:
        found.fail("L2", f"plan.json: its digest begins {sha256(data)[:12]}; the summary names {said.lock_sha256[:12]}")
    judged = {item.id: tuple(_judged(read, names, plan, item, found)) for item in plan.items}
    sessions = read_sessions(read, _sessions(names))
    for session in sessions.values():
        _canary_raw(read, session, found)
    verdicts = _verdicts(plan, judged, sessions)
    for verdict in verdicts:
        _compare_verdict(read, verdict, found)
    # The digest is that of the file: a plan of an earlier version has other bytes than it would have today.
    summary = replace(_summary(plan, judged, verdicts, sessions, said), lock_sha256=sha256(data))
    found.count("points", len(summary.points))
    for path, words in differences(plain(said), plain(summary)):
        found.fail(level_of(path), f"summary.json: {path}: {words}")
    return Again(plan, said, summary, judged, sessions)


def bounded(plan: Plan) -> None:
    """Raise EvidenceError for a plan of more than a campaign can be: its numbers say how much is made in memory."""
    for item in plan.items:
        sizes = [item.spec.get(name, 0) for name in SIZES]
        if any(type(size) is not int or not 0 <= size <= LARGEST for size in sizes):
            raise EvidenceError(f"plan.json: {item.id}: sizes {sizes!r:.100}; expected whole numbers up to {LARGEST}")
        passes, repeats, concurrency, prompts = sizes[:4]
        if max(passes, 1) * max(concurrency, 1) > LARGEST or max(repeats, 1) * max(prompts, 1) > LARGEST:
            raise EvidenceError(f"plan.json: {item.id}: more than {LARGEST} requests; refused")


def _need(read: Read, path: str) -> bytes:
    data = read(path)
    if data is None:
        raise EvidenceError(f"{path}: there is no such file; expected a results folder or a pack")
    return data


def _sessions(names: Collection[str]) -> list[str]:
    return [
        n.split("/")[1] for n in names if n.startswith("sessions/") and n.endswith("/server.json") and n.count("/") == 2
    ]


def _judged(read: Read, names: Collection[str], plan: Plan, item: Item, found: Found) -> Iterator[Lying]:
    """Every attempt at an item under this plan, judged again, newest run first, with the input that names its file."""
    launch = plan.arm(item.arm).launch_sha256
    tail = f".{item.seat}/attempts/{item.workload}.{item.item}.json"
    attempts = [n.split("/")[1] for n in names if n.startswith("sessions/") and n.endswith(tail) and n.count("/") == 3]
    for session in sorted(attempts, key=_run_number, reverse=True):
        try:
            made = _again(read, f"sessions/{session}", item, launch)
        except EvidenceError as error:
            found.fail("L2", str(error))
            continue
        if made is None:
            continue  # of an earlier plan, or still open
        path, data, file, again = made
        found.count("judged records")
        if file is None:
            found.fail("L2", f"{path}: the file is missing; the raw bytes give one")
        elif file != again:
            for where, words in differences(plain(file), plain(again))[:3]:
                found.fail("L2", f"{path}: {where}: {words}")
        yield Input(path, sha256(data or b"")), again


def _again(read: Read, home: str, item: Item, launch: str) -> tuple[str, bytes | None, Judged | None, Judged] | None:
    """Path, bytes and record of a judged file, and what the raw bytes say. Raises EvidenceError for damaged records."""
    name = f"{item.workload}.{item.item}.json"
    attempt = parse(Attempt, _need(read, f"{home}/attempts/{name}"), f"{home}/attempts/{name}")
    server = parse(Server, read(f"{home}/server.json") or b"", f"{home}/server.json")
    if attempt.spec_sha256 != item.spec_sha256 or server.launch_sha256 != launch or read(f"{home}/closed.json") is None:
        return None
    path = f"{home}/judged/{name}"
    data = read(path)
    file = parse(Judged, data, path) if data is not None else None
    session = home.rpartition("/")[2]
    return path, data, file, judge_from(read, session, item, launch, file.judge_sha256 if file else "")


def _run_number(session: str) -> tuple[int, str]:
    try:
        return int(split_session(session)[0][1:]), session
    except ValueError as error:
        raise EvidenceError(f"sessions/{session}: {error}") from error


def _canary_raw(read: Read, session: Session, found: Found) -> None:
    """The raw file of each canary is the one that its record names."""
    for canary in (session.facts.before, session.facts.after):
        if canary is not None and canary.raw is not None:
            data = read(canary.raw.path)
            if data is None or sha256(data) != canary.raw.sha256:
                found.fail("L2", f"{canary.raw.path}: missing or not the file that canary_{canary.when}.json names")


def _verdicts(plan: Plan, judged: Mapping[str, tuple[Lying, ...]], sessions: Mapping[str, Session]) -> list[Verdict]:
    """Verdicts of all gates, in the order of the plan: those of a comparison only where both sides have a record."""
    recorded = {key for key, of in judged.items() if of}
    records = [one for item in plan.items for one in judged[item.id]]
    files = {n: (s.files, s.inputs) for n, s in sessions.items()}
    return [gate_verdict(g, records, files) for g in plan.gates if g.judgeable(recorded)]


def _compare_verdict(read: Read, verdict: Verdict, found: Found) -> None:
    path = f"verdicts/{verdict.gate}.json"
    data = read(path)
    found.count("verdicts")
    if data is None:
        found.fail("L3", f"{path}: the file is missing; the raw bytes give one")
        return
    for where, words in differences(plain(parse(Verdict, data, path)), plain(verdict))[:3]:
        found.fail(level_of(where), f"{path}: {where}: {words}")


def _summary(
    plan: Plan,
    judged: Mapping[str, tuple[Lying, ...]],
    verdicts: list[Verdict],
    sessions: Mapping[str, Session],
    said: Summary,
) -> Summary:
    # Why an item without any record was left out is the planner's word: there are no raw bytes behind it.
    reasons = {p.id.rpartition("/")[0]: p.reasons[0] for p in said.points if p.state == "skipped" and p.reasons}
    left_out = {
        item.id: reasons[name]
        for item in plan.items
        if not judged[item.id] and (name := f"{item.arm}/{item.workload}/{item.item}") in reasons
    }
    records = [one for item in plan.items for _, one in judged[item.id]]
    return summarise(findings_of(plan, records, verdicts, left_out), [s.facts for s in sessions.values()])
