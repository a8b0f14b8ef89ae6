"""The summary of a campaign: a pure function of its plan, judged records, verdicts and session files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rungproof.judge.behind import finer, longest_wait, profiles, seat_medians, tally, views, watts
from rungproof.judge.gates import judge_gate
from rungproof.judge.numbers import UNITS, value_of
from rungproof.judge.points import Findings, points_of
from rungproof.judge.stats import Refused, outliers, rate_ratio, servers_interval
from rungproof.judge.ties import margin_rows
from rungproof.records.codec import digest
from rungproof.records.environment import Environment
from rungproof.records.formats import Canary, ClientCheck, Closed, Judged, Point, Registered, Server, Verdict
from rungproof.records.plan import ArmPlan, Gate, Item, Plan
from rungproof.records.summary import (
    ArmInfo,
    CanaryRow,
    Headline,
    HistoryRow,
    RatioRow,
    SessionInfo,
    StrictRow,
    Summary,
)


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """The files of one session, as far as they exist."""

    server: Server
    before: Canary | None
    after: Canary | None
    closed: Closed | None
    client: ClientCheck | None
    env: Environment | None = None
    registered: Registered | None = None


def summarise(findings: Findings, sessions: Sequence[SessionFacts]) -> Summary:
    """Everything the tables and the page of a campaign show."""
    plan = findings.plan
    points = points_of(findings)
    headlines = tuple(
        _headline(findings, arm.name, points)
        for arm in plan.arms
        if any(p.arm == arm.name and p.metric == "decode_rate" and p.x is None for p in points)
    )
    used = {j.session for item in plan.items if (j := findings.used(item.id)) and j.state == "accepted"}
    lossless = _lossless(findings, headlines)
    unjudged = tuple(g.id for g in findings.gates if g.id not in findings.verdicts)
    strict = tuple(row for i in findings.items if i.spec["kind"] == "strict" for row in _strict(findings, i))
    return Summary(
        campaign=plan.campaign, title=plan.title, purpose=plan.purpose, host=plan.host_title, simulated=plan.simulated,
        claim=_claim(findings, points, lossless), lossless_claim=bool(lossless), rules=_rules(plan),
        arms=tuple(_arm(a) for a in plan.arms),
        sessions=tuple(_session(s, s.server.session in used, points) for s in sessions),
        canaries=tuple(row for s in sessions if s.server.session in used for row in _canaries(s)),
        headlines=headlines, strict=strict,
        points=points, verdicts=tuple(findings.verdicts.values()), history=_history(findings), suites=plan.suites,
        missing=_missing(findings, points), lock_sha256=digest(plan), ratios=tuple(_ratios(plan, headlines)),
        unjudged=unjudged, margins=margin_rows(findings), tally=tally(points),
        gates_off=len(unjudged) + sum(v.state != "qualified" for v in findings.verdicts.values()),
        client_wait_share=longest_wait(points), medians=seat_medians(strict), profiles=profiles(points), views=views(findings.verdicts.values()),
    )  # fmt: skip


def _arm(arm: ArmPlan) -> ArmInfo:
    return ArmInfo(
        arm.name, arm.title, arm.lane, arm.model, arm.engine, arm.draft_depth, arm.oracle, arm.launch, arm.launch_sha256, arm.canary, arm.note,
    )  # fmt: skip


def _headline(findings: Findings, arm: str, points: Sequence[Point]) -> Headline:
    point = next(p for p in points if p.arm == arm and p.metric == "decode_rate" and p.x is None)
    items = [i for i in findings.items if i.arm == arm and i.spec["kind"] == "strict"]
    servers = tuple((i.replicate, value_of(i, j) if (j := findings.used(i.id)) else None) for i in items)
    known = [(name, value) for name, value in servers if value is not None]
    values = [value for _, value in known]
    spread = servers_interval(values)
    made = Headline(arm, point.unit, servers, point.value, point.state, point.k, point.n, point.reasons)
    if isinstance(spread, Refused) or len(known) < max(2, len(servers)):
        return made
    flagged = tuple(known[i][0] for i in outliers(values))
    return replace(made, low=spread.low, high=spread.high, kind=spread.kind, flagged=flagged)


def _ratios(plan: Plan, headlines: Sequence[Headline]) -> Iterator[RatioRow]:
    """Each arm over its base, where both headlines qualified. Unpaired: fresh servers of two arms have nothing in common."""
    good = {h.arm: [v for _, v in h.servers if v is not None] for h in headlines if h.state == "qualified"}
    for arm in plan.arms:
        if arm.oracle == arm.name or not {arm.name, arm.oracle} <= set(good):
            continue
        ratio = rate_ratio(good[arm.name], good[arm.oracle])
        if not isinstance(ratio, Refused):
            i = ratio.interval
            yield RatioRow(
                arm.name, arm.oracle, i.center, i.low, i.high, i.kind, ratio.pairing, ratio.n, i.confidence, ratio.claim
            )


def _lossless(findings: Findings, headlines: Sequence[Headline]) -> tuple[str, ...]:
    """Arms that equal their lane without drafts on everything that was compared.

    Each needs a qualified headline (so its base repeats itself), its own repeat on a second fresh server, and every
    comparison with its oracle, strict and at depth, qualified. Ladders have their own oracle and say nothing of this.
    """
    found = []
    for headline in headlines:
        own = _against_base(findings, headline.arm)
        kinds = {g.kind for g in own}
        good = all((v := findings.verdicts.get(g.id)) is not None and v.state == "qualified" for g in own)
        if headline.state == "qualified" and {"draft_repeat", "draft_oracle"} <= kinds and good:
            found.append(headline.arm)
    return () if findings.plan.simulated else tuple(found)


def _against_base(findings: Findings, arm: str) -> list[Gate]:
    """Comparisons of an arm with an oracle, ladders left out; none for a base arm."""
    plan = findings.plan
    if plan.arm(arm).oracle == arm:
        return []
    return [g for g in findings.gates if g.oracle and plan.item(g.subject[0]).arm == arm and g.kind != "ladder_rung"]


def _claim(findings: Findings, points: Sequence[Point], lossless: Sequence[str]) -> str:
    """One sentence that says no more than the verdicts do."""
    plan = findings.plan
    if plan.simulated:
        return "Nothing was measured: every server of this run was the simulated one, so these numbers say only that the workflow ran."
    good = [p for p in points if p.state == "qualified"]
    if not good:
        return "Nothing qualified: no speed of this campaign is published."
    parts = [f"{len(good)} of {len(points)} points gave exactly the tokens of their oracle"]
    for arm in lossless:
        compared = [
            g for g in _against_base(findings, arm) if g.kind in ("draft_oracle", "depth_oracle", "short_oracle")
        ]
        k, n = (sum(getattr(findings.verdicts[g.id], side) for g in compared) for side in ("k", "n"))
        parts.append(f"{plan.arm(arm).title} equals its lane without drafts on {k} of {n} outputs compared")
    if not lossless:
        parts.append("no lossless claim is made")
    return "; ".join(parts) + "."


def _rules(plan: Plan) -> dict[str, Any]:
    """What was fixed before the run, a workload each."""
    suites = {name: [a.name for a in plan.arms if a.canary == name] for name in plan.canaries}
    made: dict[str, Any] = {"seed": plan.seed, "canary suite of arms": suites}
    if plan.stopping:
        made["stopping"] = dict(plan.stopping)
    for item in plan.items:
        work = made.setdefault(item.workload, {"kind": item.spec["kind"], "suite": item.spec["suite"]})
        for key in ("cap", "tokens", "passes", "stagger_ms", "copies", "prompts", "repeats"):
            if key in item.spec:
                work[key] = item.spec[key]
        work |= {key: value for key, value in item.rules.items() if key != "classes"}
        for key, plural in (("depth", "depths"), ("concurrency", "rungs"), ("length", "lengths")):
            if key in item.spec and item.spec[key] not in work.setdefault(plural, []):
                work[plural].append(item.spec[key])
    return made


def _session(facts: SessionFacts, current: bool, points: Sequence[Point]) -> SessionInfo:
    server, closed = facts.server, facts.closed
    reasons = [*server.reasons, *(closed.reasons if closed else ())]
    return SessionInfo(
        server.session, server.arm, server.replicate, server.boot, server.status, current, bool(closed and closed.sound),
        facts.before.status if facts.before else "missing", facts.after.status if facts.after else "missing", server.ready_s,
        closed.lived_s if closed else None, server.at, tuple(r.after(server.session) for r in reasons),
        server.knobs, server.identity, server.environment,
        closed.exit if closed else "still open", facts.client, facts.env,
        finer(server.session, facts.client, points), watts(facts.env), _registered(facts),
    )  # fmt: skip


def _registered(facts: SessionFacts) -> str:
    """When the plan was registered that the server names as the one it was started for."""
    known = facts.registered
    return known.at if known is not None and known.plan_sha256 == facts.server.lock_sha256 else ""


def _canaries(facts: SessionFacts) -> list[CanaryRow]:
    return [
        CanaryRow(
            facts.server.session,
            canary.when,
            c.name,
            c.passed,
            c.prompt,
            c.text,
            len(c.token_ids),
            len(set(c.token_ids)),
            tuple(str(r) for r in c.reasons),
        )
        for canary in (facts.before, facts.after)
        if canary
        for c in canary.checks
    ]


def _strict(findings: Findings, item: Item) -> list[StrictRow]:
    judged = findings.used(item.id)
    truth = _oracle(findings, item)
    rows = []
    for r in judged.requests if judged else ():
        other = truth.get(r.key) if truth is not None else None
        rows.append(
            StrictRow(
                item.arm, item.replicate, item.rules["classes"][r.key], r.key, r.decode_rate, r.ttft_ns / 1e6 if r.ttft_ns is not None else None,
                len(r.token_ids), r.step_median_ns / 1e6 if r.step_median_ns is not None else None,
                len(r.token_ids) / r.steps if r.steps else None, None if other is None else other == r.token_ids, r.state,
            )
        )  # fmt: skip
    return rows


def _oracle(findings: Findings, item: Item) -> dict[str, tuple[int, ...]] | None:
    """Tokens that this item is compared with; None where it is the oracle itself."""
    gate = next((g for g in findings.plan.comparisons if item.id in g.subject and g.kind != "draft_repeat"), None)
    judged = findings.used(gate.oracle[0]) if gate else None
    return {r.key: r.token_ids for r in judged.requests} if judged else None


def _history(findings: Findings) -> tuple[HistoryRow, ...]:
    """Every attempt of every item, newest first, with its own count of identical outputs."""
    return tuple(
        _history_row(findings, item, judged)
        for item in findings.plan.items
        for judged in findings.judged.get(item.id, ())
    )


def _history_row(findings: Findings, item: Item, judged: Judged) -> HistoryRow:
    gate = next((g for g in findings.plan.comparisons if item.id in g.subject and g.kind != "draft_repeat"), None)
    verdict: Verdict | None = None
    if gate:
        oracle = judged if gate.oracle[0] == item.id else findings.used(gate.oracle[0])
        verdict = judge_gate(gate, judged, oracle, ())
    raw = next((i.path for i in judged.inputs if i.path.endswith(".raw.jsonl.gz") and "/attempts/" in i.path), "")
    return HistoryRow(
        item.arm, item.replicate, item.workload, item.item, judged.session, judged is findings.used(item.id), judged.state,
        value_of(item, judged) if judged.requests else None, UNITS[item.spec["kind"]], verdict.k if verdict else 0, verdict.n if verdict else 0,
        tuple(r.after(judged.session) for r in judged.reasons[:8]), raw,
    )  # fmt: skip


def _missing(findings: Findings, points: Sequence[Point]) -> tuple[str, ...]:
    """What a reader still cannot rely on."""
    plan = findings.plan
    found = []
    if plan.simulated:
        found.append("A real server: nothing on this page was measured.")
    if not any(g.kind == "base_repeat" for g in plan.gates):
        found.append(
            "The repeat gate: no strict suite was planned on a second fresh server of its base arm, so no lossless claim is made."
        )
    for u in plan.unavailable:
        instead = f"; {plan.arm(u.instead).title} was measured instead" if u.instead else ""
        found.append(
            f"{u.title} (lane {u.lane}): the processor lacks {', '.join(u.lacks)}, so this arm cannot be served on this machine{instead}."
        )
    absent = [p.id for p in points if p.state in ("missing", "failed", "invalid", "skipped")]
    if absent:
        found.append(f"{len(absent)} of {len(points)} points have no sound measurement.")
    found.append("A clean-host replay: nobody has run this plan on another machine and compared tokens and rates.")
    found.append(
        "A signed proof pack: these files are as they lie in the results folder of the machine that measured them."
    )
    return tuple(found)
