"""Which gates a campaign has: what each reads, its rule and the points it guards, from its arms and items alone."""

from collections.abc import Mapping
from typing import Literal

from rungproof.records.plan import COUNTS, ArmPlan, Gate, GateKind, Item

COUNT_TITLES: dict[GateKind, str] = {
    "canaries": "Every canary check passed, before and after, on every server used",
    "configuration": "Every requested argument, variable and census line was found in the running server",
    "population": "Every attempt sent and completed every request that was planned",
    "cache_zero": "Every request reported 0 cached tokens",
    "preemption_zero": "No request was preempted during any measurement",
}

ORACLE_KINDS: dict[str, GateKind] = {"depth": "depth_oracle", "short": "short_oracle"}


def gates_of(
    arms: tuple[ArmPlan, ...], items: tuple[Item, ...], spread_limits: Mapping[str, float] | None = None
) -> tuple[Gate, ...]:
    """All gates: those that compare, in the order of the items, then those that count over the whole campaign.

    spread_limits: strict workload -> largest difference of its fresh servers over their mean. A tie probe guards nothing and is
    guarded by nothing.

    A base arm's first replicate is the oracle of its strict and depth items. A gate by which a base arm repeats itself guards
    the points of the arms that it is the oracle of, too.
    """
    made: list[Gate] = []
    items = tuple(item for item in items if item.spec["kind"] != "probe")
    for arm in arms:
        mine = [item for item in items if item.arm == arm.name]
        replicates = list(dict.fromkeys(item.replicate for item in mine))
        for replicate in replicates:
            here = [item for item in mine if item.replicate == replicate]
            first = replicate == replicates[0]
            guards = {item.id: _guards(item, arm, arms, items) for item in here}
            made += [g for item in here if (g := _gate(arm, item, items, first, replicates[0], guards[item.id]))]
            if arm.oracle != arm.name and not first:
                strict = [item for item in here if item.spec["kind"] == "strict"]
                made += [_repeat(arm, item, "draft_repeat", replicates[0], guards[item.id]) for item in strict]
        made += _spreads(arm, mine, spread_limits or {})
    points = tuple(dict.fromkeys(_point(item) for item in items))
    ids = tuple(item.id for item in items)
    return (*made, *(Gate(kind, kind, COUNT_TITLES[kind], ids, (), points) for kind in COUNTS))


def _gate(
    arm: ArmPlan, item: Item, items: tuple[Item, ...], first: bool, first_replicate: str, guards: tuple[str, ...]
) -> Gate | None:
    kind, where = item.spec["kind"], f"{item.seat}.{item.workload}"
    if kind == "ladder":
        title = f"{arm.title}, server {item.replicate}, {item.spec['concurrency']} at once = one at a time on the same server"
        rule = {"exact": item.rules["exact"]}
        return Gate(f"rung.{where}.{item.item}", "ladder_rung", title, (item.id,), (item.id,), guards, rule)
    if arm.oracle == arm.name:
        if first:
            return None  # it is the oracle itself
        if kind == "strict":
            return _repeat(arm, item, "base_repeat", first_replicate, guards)
        oracle = f"{arm.name}.{first_replicate}/{item.workload}/{item.item}"
        title = f"{arm.title} {_at(item)}, server {item.replicate} = server {first_replicate}"
        return Gate(f"{kind}.{where}.{item.item}", ORACLE_KINDS[kind], title, (item.id,), (oracle,), guards)
    base = next((i for i in items if i.arm == arm.oracle and i.workload == item.workload and i.item == item.item), None)
    oracle = base.id if base else f"{arm.oracle}.a/{item.workload}/{item.item}"
    if kind in ORACLE_KINDS:
        title = f"{arm.title} {_at(item)}, server {item.replicate} = {arm.oracle} without drafts"
        return Gate(f"{kind}.{where}.{item.item}", ORACLE_KINDS[kind], title, (item.id,), (oracle,), guards)
    title = f"{arm.title}, server {item.replicate} = {arm.oracle} without drafts, every strict prompt"
    return Gate(f"draft-oracle.{where}", "draft_oracle", title, (item.id,), (oracle,), guards)


def _at(item: Item) -> str:
    return f"at {item.item} tokens" if item.spec["kind"] == "depth" else f"on prompts of {item.spec['length']} tokens"


def _spreads(arm: ArmPlan, items: list[Item], limits: Mapping[str, float]) -> list[Gate]:
    """One gate a strict workload with a limit: the headlines of the arm's fresh servers lie near each other, or there are three."""
    made = []
    for name, limit in limits.items():
        mine = [item for item in items if item.workload == name]
        if len(mine) > 1:
            title = f"{arm.title}: fresh servers within {100 * limit:g} % of each other, or a third was measured"
            rule = {"limit": limit, "servers": 3, "classes": mine[0].rules["classes"]}
            ids = tuple(item.id for item in mine)
            made.append(Gate(f"spread.{arm.name}.{name}", "spread", title, ids, (), (_point(mine[0]),), rule))
    return made


def _repeat(
    arm: ArmPlan,
    item: Item,
    kind: Literal["base_repeat", "draft_repeat"],
    first_replicate: str,
    guards: tuple[str, ...],
) -> Gate:
    oracle = f"{arm.name}.{first_replicate}/{item.workload}/{item.item}"
    name = f"{kind.replace('_', '-')}.{item.seat}.{item.workload}"
    title = f"{arm.title}: fresh server {item.replicate} = fresh server {first_replicate}, every strict prompt"
    return Gate(name, kind, title, (item.id,), (oracle,), guards)


def _guards(item: Item, arm: ArmPlan, arms: tuple[ArmPlan, ...], items: tuple[Item, ...]) -> tuple[str, ...]:
    """The item's own point and, where it is a base's, the same point of every arm that is held against it."""
    if arm.oracle != arm.name or item.spec["kind"] == "ladder":
        return (_point(item),)
    followers = [a.name for a in arms if a.oracle == arm.name and a.name != arm.name]
    names = [arm.name, *followers]
    planned = {_point(i) for i in items}
    return tuple(p for name in names if (p := f"{name}/{item.workload}/{item.item}") in planned)


def _point(item: Item) -> str:
    """Points are of an arm: the same rung or depth on two servers guards one point."""
    return f"{item.arm}/{item.workload}/{item.item}"
