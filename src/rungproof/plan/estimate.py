"""What a call will do and roughly how long it takes, in words, before it starts."""

import math
from collections.abc import Sequence
from pathlib import Path

from rungproof.config.sections import Costs
from rungproof.plan.builds import build_folder, is_made
from rungproof.plan.missing import Todo
from rungproof.records.plan import Item, Plan
from rungproof.records.requests import counts


def item_seconds(item: Item, costs: Costs) -> float:
    """Rough time of one item [s]. A batch of c is taken to cost as much as (1 + c/4) single requests."""
    spec = item.spec
    if spec["kind"] == "strict":
        return float(len(item.rules["classes"]) * spec["cap"]) * costs.token_s
    if spec["kind"] == "depth":
        depth = float(spec["depth"])
        prefill = depth / 1000 * costs.prefill_1k_s * (1 + depth / 8000)  # attention grows with the square of the depth
        return 3 * (float(spec["tokens"]) * costs.token_s * (1 + depth / 4096) + prefill)
    single = float(spec["tokens"]) * costs.token_s
    if spec["kind"] in ("short", "probe"):
        return single * counts(spec, 0)[0]
    concurrency = float(spec["concurrency"])
    oracle = concurrency / float(spec.get("copies", 1))
    apart = concurrency * float(spec.get("stagger_ms", 0)) / 1000
    return single * oracle + float(spec["passes"]) * (single * (1 + concurrency / 4) + apart)


def expected_seconds(plan: Plan, todo: Todo, costs: Costs, flags: frozenset[str]) -> dict[str, dict[str, float]]:
    """Rough times of a call [s], by new session: "server" for its start and its end, and one an item id.

    flags: those of this machine's processor.
    """
    return {session: session_seconds(plan, items, costs, flags) for session, items in todo.new}


def session_seconds(plan: Plan, items: Sequence[Item], costs: Costs, flags: frozenset[str]) -> dict[str, float]:
    """Rough times of one fresh server with these items [s]: "server" for its start and its end, and one an item id."""
    slower = math.prod(factor for flag, factor in costs.slower_without.items() if flag not in flags)
    times = {i.id: slower * item_seconds(i, costs) * plan.arm(i.arm).relative_cost for i in items}
    return {"server": costs.server_s} | times


def to_build(plan: Plan, build: Path) -> list[str]:
    """Folders of environments and models that the plan's arms need and that are not made yet."""
    if plan.simulated:
        return []
    wanted = []
    for arm in plan.arms:
        wanted.append(build_folder(str(build), "envs", arm.environment, arm.launch["environment_sha256"]))
        wanted.append(build_folder(str(build), "models", arm.model, arm.launch["model_sha256"]))
    return [folder for folder in dict.fromkeys(wanted) if not is_made(folder)]


def describe(plan: Plan, todo: Todo, costs: Costs, flags: frozenset[str], build: Path) -> str:
    """The lines that a call prints first."""
    if not todo.new:
        kept = sum(bool(a.sessions) for a in todo.assignments)
        return f"{plan.study}: {kept} of {len(todo.assignments)} items have a result; no server is started."
    seconds = sum(sum(times.values()) for times in expected_seconds(plan, todo, costs, flags).values())
    builds = to_build(plan, build)
    lines = [f"{plan.study}: {plan.title}" + (" [simulated: nothing is measured]" if plan.simulated else "")]
    for u in plan.unavailable:
        lines.append(
            f"  not possible on this processor (lacks {', '.join(u.lacks)}): {u.title}"
            + (f"; measured instead: {u.instead}" if u.instead else "")
        )
    for session, items in todo.new:
        lines.append(f"  fresh server {session}: canaries, {', '.join(f'{i.workload}/{i.item}' for i in items)}")
    if builds:
        seconds += costs.setup_s
        lines.append(
            f"  first made: {', '.join(Path(b).name for b in builds)} (about {costs.setup_gb:g} GB of disk under {build})"
        )
    lines.append(f"  about {max(1, round(seconds / 60))} min in all; what already has a result is not measured again")
    return "\n".join(lines)
