"""Two campaigns beside each other: what may be compared, and the ratio of each rate with what its fresh servers allow to say.

A rate is compared only where both are qualified, were measured with the same suite under the same rules, and on the same class
of host. Everything else is told with the reason why it is not compared: nothing to compare is never "no difference".
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rungproof.judge.environment import BAD, compare, short
from rungproof.judge.stats import Ratio, Refused, rate_ratio
from rungproof.records.environment import Fact
from rungproof.records.formats import Point
from rungproof.records.summary import SessionInfo, Summary

# What a machine is, by its facts; drivers, kernels and versions are conditions, which may differ and are told.
HOST_CLASS = re.compile(
    r"^(cpu_model|cpus_online|cgroup\.cpu_max|memory_total_kb|gpu\d+(\.(name|memory_total_bytes))?)$"
)
PLACES = ("depths", "rungs", "lengths")  # a campaign may have more of them; each point is compared by itself
WHOLE = ("canary_sha256",)  # the canaries' own suite moves no rate


@dataclass(frozen=True, slots=True)
class Difference:
    """A condition that differs: its kind, what it is of, and its value on either side."""

    kind: str
    what: str
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class Beside:
    """One point on both sides. ratio: rate of `b` over that of `a`; None where it is not compared, and `why` says why.

    values_a, values_b: one a fresh server, of the records in use; point None: that side does not have it.
    """

    arm_a: str
    arm_b: str
    workload: str
    item: str
    metric: str
    unit: str
    a: Point | None
    b: Point | None
    values_a: tuple[float, ...]
    values_b: tuple[float, ...]
    ratio: Ratio | None
    why: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """`refused`: why nothing of it is compared, "" where something may be; `same_host`, `host`: whether the hosts are of one class, in words."""

    refused: str
    same_host: bool
    host: str
    differences: tuple[Difference, ...]
    rows: tuple[Beside, ...]

    @property
    def compared(self) -> int:
        """Points with a ratio."""
        return sum(row.ratio is not None for row in self.rows)


def compare_summaries(a: Summary, b: Summary, pairs: Sequence[tuple[str, str]] = ()) -> Comparison:
    """Every point of `b` beside that of `a`. pairs: (arm of a, arm of b); without any, arms of the same name."""
    arms = pairs or [(arm.name, arm.name) for arm in a.arms if arm.name in {other.name for other in b.arms}]
    same_host, host = same_class(a, b)
    refused = _refused(a, b, arms)
    differences = (*_hosts(a, b), *_suites(a, b), *_rules(a, b), *_environments(a, b, arms))
    rows = [row for one, two in arms for row in _rows(a, b, one, two, refused or ("" if same_host else host))]
    return Comparison(refused, same_host, host, differences, tuple(rows))


def _refused(a: Summary, b: Summary, arms: Sequence[tuple[str, str]]) -> str:
    if a.simulated != b.simulated:
        return "one of them was simulated: a simulation and a measurement have nothing in common"
    if not arms:
        return "they have no arm of the same name; name which belong together"
    return ""


def same_class(a: Summary, b: Summary) -> tuple[bool, str]:
    """(whether both ran on one class of host, in words). A host of which nothing is known is of no class."""
    if a.simulated and b.simulated:
        return True, "both were simulated, so nothing was measured on any host"
    one, two = (_facts(s) for s in (a, b))
    rows = [row for row in compare(one, two) if HOST_CLASS.match(row.key)]
    if off := [row for row in rows if row.state in BAD]:
        told = "; ".join(f"{row.key} {short(row.a)} and {short(row.b)}" for row in off[:4])
        return False, f"another class of host: {told}"
    known = [row.key for row in rows if row.state in ("equal", "within")]
    if not known:
        return False, "nothing is known of one of the hosts, so its class cannot be told"
    return True, f"the same class of host: {', '.join(known)} agree"


def _facts(summary: Summary) -> Mapping[str, Fact]:
    """The environment of the first server in use that has one."""
    found = next((s.env for s in _used(summary) if s.env), None)
    return found.before if found else {}


def _used(summary: Summary) -> list[SessionInfo]:
    return [s for s in summary.sessions if s.current] or list(summary.sessions)


def _hosts(a: Summary, b: Summary) -> list[Difference]:
    return [Difference("host", "host", a.host, b.host)] if a.host != b.host else []


def _suites(a: Summary, b: Summary) -> list[Difference]:
    one, two = _digests(a), _digests(b)
    return [
        Difference("suite", name, one[name][:12], two[name][:12])
        for name in sorted({*one} & {*two})
        if one[name] != two[name]
    ]


def _digests(summary: Summary) -> dict[str, str]:
    return {str(row.get("id")): str(row.get("sha256", "")) for row in summary.suites if isinstance(row, dict)}


def _rule(summary: Summary, workload: str) -> dict[str, Any] | None:
    """What a workload was measured and judged by, without the places where."""
    found = summary.rules.get(workload)
    return {k: v for k, v in found.items() if k not in (*PLACES, *WHOLE)} if isinstance(found, dict) else None


def _rules(a: Summary, b: Summary) -> list[Difference]:
    made = []
    for workload in sorted({*a.rules} & {*b.rules}):
        one, two = _rule(a, workload), _rule(b, workload)
        if one is None or two is None or "kind" not in one:
            continue
        for key in sorted({*one} | {*two}):
            if one.get(key) != two.get(key):
                made.append(
                    Difference("rule", f"{workload}.{key}", str(one.get(key, "none")), str(two.get(key, "none")))
                )
    return made


def _environments(a: Summary, b: Summary, arms: Sequence[tuple[str, str]]) -> list[Difference]:
    """What must be equal between servers of one measurement and is not between these, said once an arm's pair has it."""
    seen: dict[tuple[str, str, str], None] = {}
    for one, two in arms:
        sides = [
            next((s.env.before for s in _used(x) if s.arm == arm and s.env), None) for x, arm in ((a, one), (b, two))
        ]
        if sides[0] is None or sides[1] is None:
            continue
        for row in compare(sides[0], sides[1]):
            if row.kind != "informative" and row.state in BAD:
                seen[row.key, short(row.a), short(row.b)] = None
    return [Difference("environment", key, left, right) for key, left, right in seen]


def _rows(a: Summary, b: Summary, one: str, two: str, refused: str) -> list[Beside]:
    left = {(p.workload, p.item, p.metric): p for p in a.points if p.arm == one}
    right = {(p.workload, p.item, p.metric): p for p in b.points if p.arm == two}
    return [_row(a, b, one, two, key, left.get(key), right.get(key), refused) for key in dict.fromkeys([*left, *right])]


def _row(
    a: Summary, b: Summary, one: str, two: str, key: tuple[str, str, str], left: Point | None, right: Point | None, refused: str
) -> Beside:  # fmt: skip
    workload, item, metric = key
    known = left or right
    unit = known.unit if known else ""
    values = (_values(a, one, workload, item), _values(b, two, workload, item))
    why = refused or _apart(a, b, workload) or _states(left, right)
    ratio: Ratio | None = None
    if not why:
        found = rate_ratio(values[1], values[0])
        ratio, why = (None, found.why) if isinstance(found, Refused) else (found, "")
    return Beside(one, two, workload, item, metric, unit, left, right, *values, ratio, why)


def _apart(a: Summary, b: Summary, workload: str) -> str:
    """Why a workload of one is not that of the other: another suite or other rules."""
    one, two = _rule(a, workload), _rule(b, workload)
    if one is None or two is None:
        return "its rules are not told on one side"
    name = one.get("suite")
    digests = (_digests(a).get(str(name), ""), _digests(b).get(str(two.get("suite")), ""))
    if name != two.get("suite") or digests[0] != digests[1] or not digests[0]:
        return "another suite"
    keys = [key for key in sorted({*one} | {*two}) if one.get(key) != two.get(key)]
    return f"other rules: {', '.join(keys)}" if keys else ""


def _states(left: Point | None, right: Point | None) -> str:
    if left is None or right is None:
        return "not measured in the first" if left is None else "not measured in the second"
    off = [
        f"{point.state} in the {name}"
        for point, name in ((left, "first"), (right, "second"))
        if point.state != "qualified"
    ]
    return " and ".join(off) + ": only qualified rates are compared" if off else ""


def _values(summary: Summary, arm: str, workload: str, item: str) -> tuple[float, ...]:
    """One rate a fresh server, of the attempts in use."""
    rows = [
        r
        for r in summary.history
        if (r.arm, r.workload, r.item) == (arm, workload, item) and r.current and r.status == "accepted"
    ]
    return tuple(r.value for r in rows if r.value is not None)
