"""A plan measured again, beside what was published from it: tokens exactly, rates within a limit, hosts by what they are.

Pure: records come in as values. What a claim rests on counts; what was withheld is compared and told, but it claims nothing.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from rungproof.judge.environment import BAD, compare
from rungproof.judge.equivalence import LIMIT, WORDS, equivalence
from rungproof.judge.identity import divergence
from rungproof.judge.numbers import value_of
from rungproof.judge.rungs import required
from rungproof.judge.stats import Refused
from rungproof.records.environment import Fact
from rungproof.records.formats import Judged, Point, Server
from rungproof.records.plan import Item, Plan
from rungproof.records.replay import GOOD_RATES, HostRow, ItemTokens, RateRow, RateState, TokensState

# Facts that make two hosts comparable for rates. Accelerators: gpu0, gpu1 ... by PCI address.
DECIDES = re.compile(
    r"^(cpu_model|cpus_online|cpu_max|cgroup\.cpu_max|memory_total_kb|kernel_series|engine_version|gpu\d+\.(name|driver|driver_version|memory_total_bytes))$"
)
TRUNK: tuple[RateState, ...] = ("not compared", "differs", "beyond", "undecided", "within", "equivalent")  # worst first

Used = Mapping[str, Judged]  # item id -> the record in use


def claimed_items(plan: Plan, points: Iterable[Point]) -> tuple[str, ...]:
    """Ids of the items that qualified points rest on, in the order of the plan. Seats that are measured only where a spread demands
    it are none: whether it does is no promise."""
    good = {(p.arm, p.workload, p.item) for p in points if p.state == "qualified"}
    return tuple(i.id for i in plan.items if (i.arm, i.workload, i.item) in good and i.seat not in plan.conditional)


def tokens_again(plan: Plan, claimed: Sequence[str], published: Used, again: Used) -> tuple[ItemTokens, ...]:
    """Every item that has published outputs, in the order of the plan, and whether each of its outputs came again."""
    return tuple(
        _item(item, item.id in claimed, published[item.id], again.get(item.id))
        for item in plan.items
        if item.id in published
    )


def _item(item: Item, claimed: bool, said: Judged, again: Judged | None) -> ItemTokens:
    wanted = [r for r in said.requests if _counts(item, r.batch)]
    if again is None or again.state != "accepted":
        why = str(again.reasons[0]) if again and again.reasons else "not measured"
        state = again.state if again else "missing"
        return ItemTokens(
            item.id, claimed, "not compared", 0, len(wanted), None, said.session, again.session if again else "", f"{state}: {why}"[:300]
        )  # fmt: skip
    if said.boot == again.boot:
        return ItemTokens(
            item.id, claimed, "not compared", 0, len(wanted), None, said.session, again.session,
            "both records come from one and the same server process, so nothing was measured again",
        )  # fmt: skip
    got = {(r.batch, r.key): r.token_ids for r in again.requests}
    parted = [divergence(r.key, r.batch, got.get((r.batch, r.key), ()), r.token_ids) for r in wanted]
    k = sum(one is None for one in parted)
    first = next((one for one in parted if one is not None), None)
    state_: TokensState = "identical" if k == len(wanted) > 0 else "different"
    return ItemTokens(item.id, claimed, state_, k, len(wanted), first, said.session, again.session)


def _counts(item: Item, batch: str) -> bool:
    """Whether a batch's outputs are part of the claim: all but passes of a rung that its rule does not want exact."""
    if not batch.startswith("pass-"):
        return True
    return int(batch.removeprefix("pass-")) - 1 in required(item.rules, int(item.spec["passes"]))


def tokens_state(rows: Sequence[ItemTokens]) -> TokensState:
    """Of the claimed items: identical only where there is one and all are."""
    claimed = [row.state for row in rows if row.claimed]
    if "different" in claimed:
        return "different"
    return "identical" if claimed and set(claimed) == {"identical"} else "not compared"


def rates_again(
    plan: Plan, points: Sequence[Point], published: Used, again: Used, limit: float = LIMIT
) -> tuple[RateRow, ...]:
    """Every qualified point, with the value of each fresh server on both sides."""
    made = []
    for point in points:
        if point.state != "qualified" or point.value is None:
            continue
        items = [i for i in plan.items if (i.arm, i.workload, i.item) == (point.arm, point.workload, point.item)]
        said, got = _values(items, published), _values(items, again)
        found = equivalence(got, said, limit)
        if isinstance(found, Refused):
            made.append(RateRow(point.id, point.unit, "not compared", said, got, None, None, None, "", found.why))
        else:
            made.append(
                RateRow(
                    point.id, point.unit, found.state, said, got, found.ratio, found.low, found.high, found.kind, WORDS[found.state]
                )
            )  # fmt: skip
    return tuple(made)


def _values(items: Sequence[Item], used: Used) -> tuple[float, ...]:
    """One value a fresh server, of accepted records."""
    records = [(item, used[item.id]) for item in items if item.id in used and used[item.id].state == "accepted"]
    return tuple(value for item, record in records if (value := value_of(item, record)) is not None)


def rates_state(rows: Sequence[RateRow], comparable: bool) -> RateState:
    """The worst of all rates; "not compared" on another host and where there is none."""
    if not comparable or not rows:
        return "not compared"
    return min((row.state for row in rows), key=TRUNK.index)


def good_rates(state: RateState) -> bool:
    """Whether rates agree."""
    return state in GOOD_RATES


def host_facts(server: Server, before: Mapping[str, Fact]) -> dict[str, Fact]:
    """The facts of a session's env.json with those that decide and are made from others: the kernel's series, the engine's version."""
    made = dict(before)
    kernel = before.get("kernel")
    if kernel is not None and isinstance(kernel.value, str):
        found = re.match(r"\d+\.\d+", kernel.value)
        made["kernel_series"] = Fact(found[0] if found else None, "equal", kernel.source, kernel.reader)
    version = server.identity.get("engine_version")
    if version is not None:
        made["engine_version"] = Fact(version, "equal", "server.json", "engine")
    return made


def hosts_again(published: Mapping[str, Fact], again: Mapping[str, Fact]) -> tuple[bool, str, tuple[HostRow, ...]]:
    """(comparable, in words, the facts that decide and those that differ). Hosts without a single fact in common are not comparable."""
    rows = tuple(
        HostRow(one.key, DECIDES.match(one.key) is not None, one.state, one.a, one.b)
        for one in compare(published, again)
        if one.kind != "informative" and (DECIDES.match(one.key) or one.state in BAD)
    )
    deciding = [row for row in rows if row.decides]
    off = [row for row in deciding if row.state in BAD]
    known = [row for row in deciding if row.state in ("equal", "within")]
    if off:
        return (
            False,
            f"another host: {', '.join(row.key for row in off)} differ, so its rates are told and not judged",
            rows,
        )
    if not known:
        return False, "nothing is known of one of the hosts, so rates are told and not judged", rows
    return True, f"a comparable host: the same {', '.join(row.key for row in known)}", rows
