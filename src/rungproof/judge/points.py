"""Points: the publishable numbers of a campaign, each with the state that its evidence and its gates give it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rungproof.judge.gates import judge_gate
from rungproof.judge.numbers import METRICS, UNITS, center, detail_of, spread_of, value_of
from rungproof.judge.use import pick
from rungproof.records.formats import Judged, Point, PointState, Verdict
from rungproof.records.plan import Gate, Item, Plan


@dataclass(frozen=True, slots=True)
class Findings:
    """All that a summary is made from. `judged`: item id -> its records, newest first; left_out: item id -> why it was not planned."""

    plan: Plan
    judged: Mapping[str, Sequence[Judged]]
    verdicts: Mapping[str, Verdict]
    left_out: Mapping[str, str]

    def used(self, item_id: str) -> Judged | None:
        """The record in use of an item."""
        return pick(self.judged.get(item_id, ()))


def points_of(findings: Findings) -> tuple[Point, ...]:
    """One point an arm, workload and item, over all servers that measured it, in the order of the plan."""
    groups: dict[tuple[str, str, str], list[Item]] = {}
    for item in findings.plan.items:
        groups.setdefault((item.arm, item.workload, item.item), []).append(item)
    return tuple(_point(findings, items) for items in groups.values())


def gates_for(plan: Plan, point: str) -> list[Gate]:
    """Gates that guard a point: its own, and for an arm with an oracle those by which its base repeats itself."""
    arm, workload, item = point.split("/")
    guarding = [g for g in plan.gates if point in g.guards]
    base = plan.arm(arm).oracle
    if base != arm and any(g.kind != "ladder_rung" for g in guarding):
        guarding += [g for g in plan.gates if f"{base}/{workload}/{item}" in g.guards]
    return guarding


def _point(findings: Findings, items: Sequence[Item]) -> Point:
    first, plan = items[0], findings.plan
    kind = first.spec["kind"]
    name = f"{first.arm}/{first.workload}/{first.item}"
    used = [findings.used(item.id) for item in items]
    gates = gates_for(plan, name)
    verdicts = [findings.verdicts[g.id] for g in gates if g.id in findings.verdicts]
    values = [
        value_of(i, j) if j and j.state in ("accepted", "invalid") else None for i, j in zip(items, used, strict=True)
    ]
    value = center(values) if kind == "strict" else values[0]
    state, reasons = _state(findings, items, used, gates, value)
    own = [v for v in verdicts if name in v.guards]
    lead = used[0]
    spread = _spread(kind, first, lead, values)
    x = {"strict": None, "depth": first.spec.get("depth"), "ladder": first.spec.get("concurrency")}[kind]
    return Point(
        id=f"{name}/{METRICS[kind]}", arm=first.arm, workload=first.workload, item=first.item, metric=METRICS[kind],
        x=float(x) if x is not None else None, value=value, unit=UNITS[kind], state=state,
        k=sum(v.k for v in own), n=sum(v.n for v in own), reasons=reasons, gates=tuple(g.id for g in gates),
        session=lead.session if lead else "", evidence=tuple(_evidence(j) for j in used if j and j.inputs),
        low=spread[0] if spread else None, high=spread[1] if spread else None, detail=detail_of(first, lead) if lead and lead.requests else {},
    )  # fmt: skip


def _spread(kind: str, item: Item, lead: Judged | None, values: Sequence[float | None]) -> tuple[float, float] | None:
    if kind == "strict":
        whole = [v for v in values if v is not None]
        return (min(whole), max(whole)) if len(whole) > 1 else None
    return spread_of(item, lead) if lead else None


def _evidence(judged: Judged) -> str:
    """The raw file behind a record, or the record of the attempt where nothing was measured."""
    paths = [i.path for i in judged.inputs]
    raw = [p for p in paths if p.endswith(".raw.jsonl.gz")]
    attempts = [p for p in paths if "/attempts/" in p]
    return (raw or attempts or paths)[0]


def _state(
    findings: Findings, items: Sequence[Item], used: Sequence[Judged | None], gates: Sequence[Gate], value: float | None
) -> tuple[PointState, tuple[str, ...]]:
    """The worst of what the evidence says, then what the gates say. No gate at all never qualifies."""
    for item, judged in zip(items, used, strict=True):
        if judged is None:
            why = findings.left_out.get(item.id, "")
            return ("skipped", (why,)) if why else ("missing", (f"{item.id}: not measured yet",))
    for wanted in ("failed", "invalid", "skipped"):
        bad = [j for j in used if j and j.state == wanted]
        if bad:
            return wanted, tuple(f"{j.session}: {r}" for j in bad for r in j.reasons)[:8]
    reasons: list[str] = []
    if not gates:
        reasons.append("no repeat on a second fresh server is planned, so there is nothing to compare with")
    elif items[0].spec["kind"] != "ladder" and not _repeats(findings, items[0]):
        reasons.append("the repeat gate was not run (one server an arm), so no lossless claim is made")
    for gate in gates:
        verdict = findings.verdicts.get(gate.id)
        if verdict is None:
            reasons.append(f"{gate.id}: no verdict")
        elif verdict.state != "qualified":
            reasons += [f"{gate.id}: {r}" for r in verdict.reasons[:3]] or [f"{gate.id}: {verdict.state}"]
    reasons += _earlier(findings, gates)
    if len({j.identity_sha256 for j in used if j}) > 1:
        reasons.append(
            "its servers differ in weights, packages, engine, kernels or processor, so they are not one measurement"
        )
    if value is None:
        reasons.append("an answer ended before the window was full, so there is no rate")
    return ("withheld", tuple(reasons)) if reasons else ("qualified", ())


def _earlier(findings: Findings, gates: Sequence[Gate]) -> list[str]:
    """Sound attempts of the same thing that did not qualify: measuring again until it passes must not make a result."""
    found = []
    for gate in gates:
        subject, oracle = findings.used(gate.subject[0]), findings.used(gate.oracle[0])
        for other in findings.judged.get(gate.subject[0], ()):
            if (
                other is subject
                or other.state != "accepted"
                or (subject and other.identity_sha256 != subject.identity_sha256)
            ):
                continue
            verdict = judge_gate(gate, other, other if gate.kind == "ladder_rung" else oracle, ())
            if verdict.state == "withheld":
                found.append(
                    f"{gate.id}: another sound attempt, {other.session}, was identical on {verdict.k} of {verdict.n}"
                )
    return found


def _repeats(findings: Findings, item: Item) -> bool:
    """True when the base arm behind this item was planned on a second fresh server with the same workload."""
    base = findings.plan.arm(item.arm).oracle
    replicates = {i.replicate for i in findings.plan.items if i.arm == base and i.workload == item.workload}
    return len(replicates) > 1
