"""What a run must have been like to be true at all (level L4): whole populations, an unchanged environment, empty caches, one server
at a time, a plan registered before the first request, stamps that agree with other clocks, rates that physics allows."""

from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any

from rungproof.judge.checks.ceiling import check_ceiling
from rungproof.judge.checks.found import Found
from rungproof.judge.checks.moments import seconds
from rungproof.judge.checks.registered import check_registered
from rungproof.judge.checks.stamps import Span, check_samples, check_stamps
from rungproof.judge.environment import changed
from rungproof.judge.evidence import Read
from rungproof.judge.recompute import Again
from rungproof.judge.study import Session
from rungproof.judge.use import pick
from rungproof.records import raw
from rungproof.records.codec import build, load_json, parse
from rungproof.records.environment import Sample
from rungproof.records.errors import EvidenceError
from rungproof.records.formats import Attempt, Judged

OF_THE_SERVER = ("software", "caches")  # readers of facts that are read once, not again at the end
MARGIN_S = 1.0
CAPTURE_S = 30.0  # from ready until its record is written: the environment is read meanwhile
CLOSE_S = 120.0  # from the server's end until that is written: leftovers are swept, devices asked, caches removed


def check_sense(read: Read, names: Collection[str], again: Again, found: Found) -> None:
    """All of it, for every record in use. Raises EvidenceError where a record that was read before cannot be read now."""
    found.need("L4", "planned items", "requests in exactly one state", "environments", "empty caches", "servers' lives")
    found.need("L4", "attempts with stamps", "sessions with samples")
    used = {item: judged for item, lying in again.judged.items() if (judged := pick([one for _, one in lying]))}
    good = {item: judged for item, judged in used.items() if judged.state == "accepted"}
    _population(again, used, found)
    _set_out(read, names, again, found)
    live = {judged.session for judged in good.values()}
    for name in sorted(live):
        if name in again.sessions:
            _environment(name, again.sessions[name], found)
    spans: dict[str, list[Span]] = {}
    for item, judged in good.items():
        span = _attempt(read, item, judged, again, found)
        if span:
            spans.setdefault(judged.session, []).append(span)
    for name in sorted(live & set(again.sessions)):
        _session(read, name, again.sessions[name], spans.get(name, []), found)
    _one_at_a_time(again, spans, found)
    servers = {n: s.facts.server for n, s in again.sessions.items()}
    check_registered(read, names, again.plan, good, servers, spans, found)
    check_ceiling(again.plan, good, servers, found)


def _population(again: Again, used: Mapping[str, Judged], found: Found) -> None:
    """Every planned item has a record, or a reason that is told; every planned request ended in exactly one state."""
    told = {f"{p.arm}/{p.workload}/{p.item}": p.reasons for p in again.summary.points}
    for item in again.plan.items:
        found.count("planned items")
        reasons = told.get(f"{item.arm}/{item.workload}/{item.item}", ())
        if (
            item.id not in used
            and not reasons
            and item.seat not in again.plan.conditional
            and item.spec["kind"] != "probe"
        ):
            found.fail("L4", f"{item.id}: planned, but there is neither a record nor a reason")
    for item_id, judged in used.items():
        counts: dict[str, int] = {}
        for request in judged.requests:
            counts[request.batch] = counts.get(request.batch, 0) + 1
        for batch in judged.batches:
            found.count("requests in exactly one state", batch.planned)
            states = sum(batch.states.values())
            if judged.state == "accepted" and not batch.planned == states == counts.get(batch.batch, 0):
                found.fail(
                    "L4",
                    f"{item_id}: {batch.batch}: {batch.planned} planned, {states} ended, {counts.get(batch.batch, 0)} there",
                )


def _set_out(read: Read, names: Collection[str], again: Again, found: Found) -> None:
    """Whatever a run set out to measure on a server that became ready has an attempt's record: an attempt always leaves one.

    A call that was interrupted (the session's owner is gone) had not come to what follows its last record: a later session
    measures that, and `_population` looks whether one did.
    """
    for path in sorted(n for n in names if n.startswith("runs/") and n.endswith("/run.json")):
        record: Any = load_json(read(path) or b"", path)
        sessions = record.get("sessions") if isinstance(record, dict) else None
        for name, items in (sessions if isinstance(sessions, dict) else {}).items():
            facts = again.sessions[name].facts if name in again.sessions else None
            if facts is None or facts.server.status != "ready" or facts.closed is None or not facts.closed.sound:
                continue
            lacking = [_record_of(name, item) not in names for item in (items if isinstance(items, list) else ())]
            interrupted = any(reason.what == "owner gone" for reason in facts.closed.reasons)
            while interrupted and lacking and lacking[-1]:
                lacking.pop()
            found.count("items set out for", len(lacking))
            for item, lacks in zip(items, lacking, strict=False):
                if lacks:
                    found.fail(
                        "L4", f"sessions/{name}: {item} was to be measured, and there is no record of an attempt"
                    )


def _record_of(session: str, item: object) -> str:
    workload, _, place = str(item).partition("/")[2].partition("/")
    return f"sessions/{session}/attempts/{workload}.{place}.json"


def _environment(name: str, session: Session, found: Found) -> None:
    """What had to stay equal did, and the compile caches were empty when the server was started."""
    env = session.facts.env
    if env is None or env.after is None:
        found.fail("L4", f"sessions/{name}/env.json: missing, or without the reading at the end; expected both")
        return
    before = {key: fact for key, fact in env.before.items() if fact.reader not in OF_THE_SERVER}
    equal = sum(fact.kind == "equal" and fact.value is not None for fact in before.values())
    if not equal:
        found.fail("L4", f"sessions/{name}/env.json: no fact that must stay equal, so nothing to compare")
    found.count("environments")
    for reason in changed(before, env.after):
        found.fail("L4", f"sessions/{name}/env.json: {reason}")
    start = env.before.get("compile_caches_at_start")
    value = start.value if start else None
    if not isinstance(value, dict) or (value.get("files"), value.get("bytes")) != (0, 0):
        shown = f"{value!r:.80}" if start else "not recorded"
        found.fail("L4", f"sessions/{name}/env.json: compile caches at the start: {shown}; expected 0 files")
        return
    found.count("empty caches")


def _attempt(read: Read, item: str, judged: Judged, again: Again, found: Found) -> Span | None:
    home = f"sessions/{judged.session}"
    name = f"{home}/attempts/{judged.workload}.{judged.item}"
    attempt = parse(Attempt, read(f"{name}.json") or b"", f"{name}.json")
    lines = raw.decode(read(f"{name}.raw.jsonl.gz") or b"", f"{name}.raw.jsonl.gz")
    span = check_stamps(name, attempt, judged, lines, found)
    facts = again.sessions[judged.session].facts if judged.session in again.sessions else None
    moments = [seconds(text) for text in (attempt.began, attempt.ended)]
    life = [seconds(facts.server.at), seconds(facts.closed.at)] if facts and facts.closed else [None, None]
    if None in moments or None in life:
        found.fail("L4", f"{name}: the life of its server, or its own moments, are not known")
    elif moments[0] < life[0] - MARGIN_S or moments[1] > life[1] + MARGIN_S:  # type: ignore[operator]
        found.fail("L4", f"{name}: from {attempt.began} to {attempt.ended}, outside the life of its server")
    return span


def _session(read: Read, name: str, session: Session, spans: list[Span], found: Found) -> None:
    """Samples over the whole session, on the same clock; moments of start and end that agree with how long it lived."""
    facts = session.facts
    samples = read_samples(read(f"sessions/{name}/env.samples.jsonl"), f"sessions/{name}/env.samples.jsonl")
    env = facts.env
    every = env.every_s if env else 1.0
    check_samples(
        f"sessions/{name}/env.samples.jsonl", samples, every, facts.server.environment.get("cpus_online"), found
    )
    slack = (2 * every + MARGIN_S) * 1e9
    if samples and spans:
        if (
            min(s.first_ns for s in spans) < samples[0].at_ns - slack
            or max(s.last_ns for s in spans) > samples[-1].at_ns + slack
        ):
            found.fail(
                "L4", f"sessions/{name}: requests were stamped outside the time in which the session was sampled"
            )
        began = seconds(env.before_at) if env else None
        first = (samples[0].at_ns + spans[0].offset_ns) / 1e9
        if began is None or abs(first - began) > 2 * every + MARGIN_S:
            found.fail("L4", f"sessions/{name}: its samples do not begin when the environment was read")
    ordered = sorted(spans, key=lambda s: s.first_ns)
    if any(b.first_ns < a.last_ns - 1e6 for a, b in pairwise(ordered)):
        found.fail("L4", f"sessions/{name}: two of its attempts overlap in time")
    life = _life(session)
    lived = facts.closed.lived_s if facts.closed else None
    if life is None or lived is None or not -CAPTURE_S <= life[1] - life[0] - lived <= CLOSE_S:
        found.fail("L4", f"sessions/{name}: when it began and ended does not agree with how long it lived ({lived} s)")


def _life(session: Session) -> tuple[float, float] | None:
    """From the start of the server's process to its end [s since 1970, UTC]."""
    server, closed = session.facts.server, session.facts.closed
    at, end = seconds(server.at), seconds(closed.at) if closed else None
    return None if at is None or end is None or server.ready_s is None else (at - server.ready_s, end)


def _one_at_a_time(again: Again, spans: Mapping[str, list[Span]], found: Found) -> None:
    """No two servers of one host lived at once: by UTC, and by the monotonic clock of one boot. Sessions that were mended after
    a crash have no end that can be trusted, and no number in use."""
    lives = []
    for name, session in again.sessions.items():
        closed = session.facts.closed
        if session.facts.server.status != "ready" or closed is None or closed.by == "repair":
            continue
        life = _life(session)
        boot = str(session.facts.server.environment.get("boot_id"))
        if life is None:
            found.fail("L4", f"sessions/{name}: when its server began or ended is not known")
            continue
        lives.append((boot, *life, name))
        if mine := spans.get(name):
            first, last = min(s.first_ns for s in mine), max(s.last_ns for s in mine)
            lives.append((f"{boot}, by its own clock", first / 1e9, last / 1e9, name))
    lives.sort()
    for one, two in pairwise(lives):
        if one[0] == two[0] and one[3] != two[3] and two[1] < one[2] - 0.2:
            found.fail("L4", f"sessions/{one[3]} and sessions/{two[3]}: two servers of one host at the same time")
    found.count("servers' lives", len(lives))


def read_samples(data: bytes | None, where: str) -> list[Sample]:
    """A session's samples. Raises EvidenceError for a line that is none."""
    made = []
    for number, line in enumerate((data or b"").splitlines(), start=1):
        value: Any = load_json(line, f"{where}:{number}")
        made.append(build(Sample, value, f"{where}:{number}"))
    if data is None:
        raise EvidenceError(f"{where}: there is no such file; the session's evidence is not whole")
    return made
