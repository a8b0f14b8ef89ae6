"""Campaign-wide checks of soundness as verdicts: canaries, cache, preemption, population, configuration.

Each attempt is already refused when one of them does not hold for it; these verdicts count over the whole campaign, so
that a page can say "960 of 960 requests reported 0 cached tokens".
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rungproof.judge.stats import lower_bound
from rungproof.records.formats import Canary, Input, Judged, Reason, Server, Verdict

TITLES = {
    "canaries": "Every canary check passed, before and after, on every server used",
    "configuration": "Every requested argument and variable was found again in the running server",
    "population": "Every attempt sent and completed every request that was planned",
    "cache_zero": "Every request reported 0 cached tokens",
    "preemption_zero": "No request was preempted during any measurement",
}
LOST = ("population: batches", "population: requests", "request lost", "a batch stands twice", "nothing planned")


@dataclass(frozen=True, slots=True)
class SessionFiles:
    """What one session left beside its attempts."""

    server: Server
    before: Canary | None
    after: Canary | None


def soundness(
    judged: Sequence[Judged], sessions: Sequence[SessionFiles], inputs: tuple[Input, ...]
) -> tuple[Verdict, ...]:
    """The five verdicts over the judged attempts in use and the sessions they come from; with nothing to count: invalid."""
    live = [j for j in judged if j.state != "skipped"]
    ready = [s for s in sessions if s.server.status != "skipped"]
    requests = [(j, r) for j in live for r in j.requests]
    checks = [(s, when, canary) for s in ready for when, canary in (("before", s.before), ("after", s.after))]
    counts: dict[str, list[Reason | None]] = {
        "canaries": [r for s, when, canary in checks for r in _canary(s.server.session, when, canary)],
        "configuration": [
            None if k.ok else Reason("knob not in force", str(k.found), k.asked, f"{s.server.session}: {k.name}")
            for s in ready
            for k in s.server.knobs
        ],
        "population": [_population(j) for j in live],
        "cache_zero": [
            None
            if r.cached_tokens == 0
            else Reason("cache hit", str(r.cached_tokens), "0", f"{_id(j)} {r.batch}/{r.key}")
            for j, r in requests
        ],
        "preemption_zero": [
            None
            if j.counters.get("preemptions") == 0
            else Reason("preemption", str(j.counters.get("preemptions")), "0", _id(j))
            for j in live
        ],
    }
    return tuple(_verdict(kind, found, inputs) for kind, found in counts.items())


def _id(judged: Judged) -> str:
    return f"{judged.session}/{judged.workload}/{judged.item}"


def _canary(session: str, when: str, canary: Canary | None) -> list[Reason | None]:
    if canary is None or not canary.checks:
        return [
            Reason(f"canary {when}", found=canary.status if canary else "missing", expected="passed", where=session)
        ]
    return [None if c.passed else (c.reasons or (Reason("failed"),))[0] for c in canary.checks]


def _population(judged: Judged) -> Reason | None:
    lost = [r for r in judged.reasons if r.what in LOST]
    if lost:
        return lost[0]
    return None if judged.requests else Reason("no measurement", where=_id(judged))


def _verdict(kind: str, found: Sequence[Reason | None], inputs: tuple[Input, ...]) -> Verdict:
    n = len(found)
    bad = [r for r in found if r is not None]
    reasons = tuple(bad[:20]) or (() if n else (Reason("nothing to compare", found="0", expected="at least 1"),))
    state = "qualified" if n and not bad else "invalid"
    k = n - len(bad)
    return Verdict(kind, kind, TITLES[kind], state, k, n, k, n, lower_bound(k, n), reasons, (), (), None, (), inputs)  # type: ignore[arg-type]
