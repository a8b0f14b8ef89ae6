"""Counting gates: canaries, configuration, population, cache, preemption, each over a whole campaign.

Each attempt is already refused when one of them does not hold for it; these verdicts count over the campaign, so that a page
can say "960 of 960 requests reported 0 cached tokens". Each guards every point, and stops exactly those that what is off
belongs to.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rungproof.judge.counters import interrupted
from rungproof.judge.stats import lower_bound
from rungproof.records.formats import Canary, Input, Judged, Reason, Server, Verdict
from rungproof.records.plan import COUNTS, Gate

LOST = ("population: batches", "population: requests", "request lost", "a batch stands twice", "nothing planned")
Counted = tuple[
    Reason | None, tuple[str, ...]
]  # what is off with one thing counted, if anything, and the points it belongs to


@dataclass(frozen=True, slots=True)
class SessionFiles:
    """What one session left beside its attempts."""

    server: Server
    before: Canary | None
    after: Canary | None


def judge_count(
    gate: Gate, judged: Sequence[Judged], sessions: Sequence[SessionFiles], inputs: tuple[Input, ...]
) -> Verdict:
    """The verdict of a counting gate over the judged attempts in use and the sessions they come from.

    qualified: something was counted and all of it is as it must be; else invalid. With nothing to count it stops all it guards.
    Raises ValueError for a gate that compares.
    """
    if gate.kind not in COUNTS:
        raise ValueError(f"{gate.id}: found a gate of kind {gate.kind}; expected one that counts: {', '.join(COUNTS)}")
    live = [j for j in judged if j.state != "skipped"]
    ready = [s for s in sessions if s.server.status != "skipped"]
    found = list(_counted(gate.kind, live, ready))
    bad = [(reason, points) for reason, points in found if reason is not None]
    n, k = len(found), len(found) - len(bad)
    reasons = tuple(r for r, _ in bad[:20]) or (
        () if n else (Reason("nothing to compare", found="0", expected="at least 1"),)
    )
    hit = {point for _, points in bad for point in points}
    stops = tuple(point for point in gate.guards if point in hit) if n else gate.guards
    bound = lower_bound(k, n)
    return Verdict(
        gate.id, gate.kind, gate.title, "qualified" if n and not bad else "invalid", k, n, k, n, bound, reasons, (), (), None, gate.guards, inputs,
        stops, bound, rule=gate.rule,
    )  # fmt: skip


def _counted(kind: str, live: Sequence[Judged], ready: Sequence[SessionFiles]) -> Iterator[Counted]:
    if kind in ("canaries", "configuration"):
        for files in ready:
            name = files.server.session
            points = tuple(_point(j) for j in live if j.session == name)
            for reason in _canaries(files) if kind == "canaries" else _knobs(files.server):
                yield reason, points
    for j in live if kind not in ("canaries", "configuration") else ():
        for reason in _of_attempt(kind, j):
            yield reason, (_point(j),)


def _point(judged: Judged) -> str:
    return f"{judged.arm}/{judged.workload}/{judged.item}"


def _id(judged: Judged) -> str:
    return f"{judged.session}/{judged.workload}/{judged.item}"


def _canaries(files: SessionFiles) -> Iterator[Reason | None]:
    for when, canary in (("before", files.before), ("after", files.after)):
        if canary is None or not canary.checks:
            found = canary.status if canary else "missing"
            yield Reason(f"canary {when}", found=found, expected="passed", where=files.server.session)
        else:
            yield from (None if c.passed else (c.reasons or (Reason("failed"),))[0] for c in canary.checks)


def _knobs(server: Server) -> Iterator[Reason | None]:
    for k in server.knobs:
        yield None if k.ok else Reason("knob not in force", str(k.found), k.asked, f"{server.session}: {k.name}")
    if not server.knobs:
        yield Reason("configuration not verified", "0 knobs", "every argument and variable", server.session)


def _of_attempt(kind: str, j: Judged) -> Iterator[Reason | None]:
    if kind == "population":
        lost = [r for r in j.reasons if r.what in LOST]
        yield lost[0] if lost else None if j.requests else Reason("no measurement", where=_id(j))
    elif kind == "preemption_zero":
        found = interrupted(j.counters)
        yield None if found == 0 else Reason("preemption", str(found), "0", _id(j))
    else:
        for r in j.requests:
            ok = r.cached_tokens == 0
            yield None if ok else Reason("cache hit", str(r.cached_tokens), "0", f"{_id(j)} {r.batch}/{r.key}")
