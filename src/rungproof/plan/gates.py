"""Which comparisons a campaign makes: gates as data, from its arms and items alone."""

from typing import Literal

from rungproof.records.plan import ArmPlan, Gate, Item


def gates_of(arms: tuple[ArmPlan, ...], items: tuple[Item, ...]) -> tuple[Gate, ...]:
    """All gates in the order of the items. A base arm's first replicate is the oracle of its strict and depth items."""
    made: list[Gate] = []
    for arm in arms:
        mine = [item for item in items if item.arm == arm.name]
        replicates = list(dict.fromkeys(item.replicate for item in mine))
        for replicate in replicates:
            here = [item for item in mine if item.replicate == replicate]
            first = replicate == replicates[0]
            made += [gate for item in here if (gate := _gate(arm, item, items, first, replicates[0]))]
            if arm.oracle != arm.name and not first:
                made += [
                    _repeat(arm, item, "draft_repeat", replicates[0]) for item in here if item.spec["kind"] == "strict"
                ]
    return tuple(made)


def _gate(arm: ArmPlan, item: Item, items: tuple[Item, ...], first: bool, first_replicate: str) -> Gate | None:
    kind = item.spec["kind"]
    if kind == "ladder":
        title = f"{arm.title}, server {item.replicate}, {item.spec['concurrency']} at once = one at a time on the same server"
        return Gate(
            f"rung.{item.seat}.{item.workload}.{item.item}",
            "ladder_rung",
            title,
            (item.id,),
            (item.id,),
            (_point(item),),
        )
    if arm.oracle == arm.name:
        if first:
            return None  # it is the oracle itself
        if kind == "strict":
            return _repeat(arm, item, "base_repeat", first_replicate)
        oracle = f"{arm.name}.{first_replicate}/{item.workload}/{item.item}"
        title = f"{arm.title} at {item.item} tokens, server {item.replicate} = server {first_replicate}"
        return Gate(
            f"depth.{item.seat}.{item.workload}.{item.item}",
            "depth_oracle",
            title,
            (item.id,),
            (oracle,),
            (_point(item),),
        )
    base = next((i for i in items if i.arm == arm.oracle and i.workload == item.workload and i.item == item.item), None)
    oracle = base.id if base else f"{arm.oracle}.a/{item.workload}/{item.item}"
    if kind == "depth":
        title = f"{arm.title} at {item.item} tokens, server {item.replicate} = {arm.oracle} without drafts"
        return Gate(
            f"depth.{item.seat}.{item.workload}.{item.item}",
            "depth_oracle",
            title,
            (item.id,),
            (oracle,),
            (_point(item),),
        )
    title = f"{arm.title}, server {item.replicate} = {arm.oracle} without drafts, every strict prompt"
    return Gate(
        f"draft-oracle.{item.seat}.{item.workload}", "draft_oracle", title, (item.id,), (oracle,), (_point(item),)
    )


def _repeat(arm: ArmPlan, item: Item, kind: Literal["base_repeat", "draft_repeat"], first_replicate: str) -> Gate:
    oracle = f"{arm.name}.{first_replicate}/{item.workload}/{item.item}"
    name = f"{kind.replace('_', '-')}.{item.seat}.{item.workload}"
    title = f"{arm.title}: fresh server {item.replicate} = fresh server {first_replicate}, every strict prompt"
    return Gate(name, kind, title, (item.id,), (oracle,), (_point(item),))


def _point(item: Item) -> str:
    """Points are of an arm: the same rung or depth on two servers guards one point."""
    return f"{item.arm}/{item.workload}/{item.item}"
