"""Points: the publishable numbers of a campaign, each with the state that its evidence and its gates give it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rungproof.judge.gates import judge_gate
from rungproof.judge.numbers import METRICS, UNITS, center, detail_of, passes_of, spread_of, value_of
from rungproof.judge.rungs import rung_of
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

    def waived(self, item: Item) -> bool:
        """Whether an item was planned for a case that did not come, and so is no part of anything: a third server that was not needed."""
        used = self.used(item.id) if item.seat in self.plan.conditional else None
        return item.seat in self.plan.conditional and (used is None or used.state == "skipped")

    @property
    def items(self) -> tuple[Item, ...]:
        """The planned items that are not waived."""
        return tuple(item for item in self.plan.items if not self.waived(item))

    @property
    def gates(self) -> tuple[Gate, ...]:
        """The planned gates, without comparisons whose subject is waived."""
        return tuple(g for g in self.plan.gates if not (g.oracle and self.waived(self.plan.item(g.subject[0]))))


def points_of(findings: Findings) -> tuple[Point, ...]:
    """One point an arm, workload and item, over all servers that measured it, in the order of the plan."""
    groups: dict[tuple[str, str, str], list[Item]] = {}
    for item in findings.items:
        if item.spec["kind"] == "probe":
            continue
        groups.setdefault((item.arm, item.workload, item.item), []).append(item)
    return tuple(_point(findings, items) for items in groups.values())


def _point(findings: Findings, items: Sequence[Item]) -> Point:
    first = items[0]
    kind = first.spec["kind"]
    name = _point_id(first)
    used = [findings.used(item.id) for item in items]
    gates = [g for g in findings.gates if name in g.guards]
    values = [
        value_of(i, j) if j and j.state in ("accepted", "invalid") else None for i, j in zip(items, used, strict=True)
    ]
    value = center(values) if kind == "strict" else values[0]
    state, reasons = _state(findings, items, used, gates, value)
    lead = used[0]
    k, n, passes = _count(findings, items, used)
    detail = detail_of(first, lead) if lead and lead.requests else {}
    if passes:
        detail["passes_exact"] = [list(pair) for pair in passes]
    spread = _spread(kind, first, lead, values)
    x = first.spec.get({"depth": "depth", "short": "length", "ladder": "concurrency"}.get(kind, ""))
    return Point(
        id=f"{name}/{METRICS[kind]}", arm=first.arm, workload=first.workload, item=first.item, metric=METRICS[kind],
        x=float(x) if x is not None else None, value=value, unit=UNITS[kind], state=state,
        k=k, n=n, reasons=reasons, gates=tuple(g.id for g in gates),
        session=lead.session if lead else "", evidence=tuple(_evidence(j) for j in used if j and j.inputs),
        low=spread[0] if spread else None, high=spread[1] if spread else None, detail=detail,
    )  # fmt: skip


def _count(
    findings: Findings, items: Sequence[Item], used: Sequence[Judged | None]
) -> tuple[int, int, tuple[tuple[int, int], ...]]:
    """Identical outputs of those compared, over the point's own gates, and the counts of each pass of its first server.

    Of a rung the outputs are those that belong to the value shown, as its rules say (judge/rungs.py).
    """
    k = n = 0
    passes: tuple[tuple[int, int], ...] = ()
    for item, judged in zip(items, used, strict=True):
        own = [g for g in findings.plan.comparisons if item.id == g.subject[0]]
        for verdict in (findings.verdicts[g.id] for g in own if g.id in findings.verdicts):
            made = passes_of(item, judged, verdict.passes) if judged and verdict.passes else ()
            rung = rung_of(item.rules, made) if made else None
            k, n = k + (rung.k if rung else verdict.k), n + (rung.n if rung else verdict.n)
            passes = passes or verdict.passes
    return k, n, passes


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
            return wanted, tuple(f"{j.session}: {r.after(j.session)}" for j in bad for r in j.reasons)[:8]
    reasons: list[str] = []
    comparisons = [g for g in gates if g.oracle]
    if not comparisons:
        reasons.append("no repeat on a second fresh server is planned, so there is nothing to compare with")
    elif items[0].spec["kind"] != "ladder" and not _repeats(findings, items[0]):
        reasons.append("the repeat gate was not run (one server an arm), so no lossless claim is made")
    for gate in gates:
        verdict = findings.verdicts.get(gate.id)
        if verdict is None:
            reasons.append(f"{gate.id}: no verdict")
        elif _point_id(items[0]) in verdict.stops:
            reasons += [f"{gate.id}: {r}" for r in verdict.reasons[:3]] or [f"{gate.id}: {verdict.state}"]
    reasons += _earlier(findings, comparisons)
    if len({j.identity_sha256 for j in used if j}) > 1:
        reasons.append(
            "its servers differ in weights, packages, engine, kernels or processor, so they are not one measurement"
        )
    if value is None:
        reasons.append("an answer ended before the window was full, so there is no rate")
    return ("withheld", tuple(reasons)) if reasons else ("qualified", ())


def _point_id(item: Item) -> str:
    return f"{item.arm}/{item.workload}/{item.item}"


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
    replicates = {i.replicate for i in findings.items if i.arm == base and i.workload == item.workload}
    return len(replicates) > 1
