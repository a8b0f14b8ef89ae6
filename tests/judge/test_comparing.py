"""Two campaigns beside each other: only what is qualified, of one suite, one set of rules and one class of host has a ratio."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from judge.plan_kit import arm, ids_of, ladder, plan, record, request, rung_record, strict, summary_of, wrong
from rungproof.judge.comparing import Beside, compare_summaries, same_class
from rungproof.judge.stats import rate_ratio
from rungproof.records.environment import Environment, Fact
from rungproof.records.formats import Judged
from rungproof.records.plan import Item
from rungproof.records.summary import Summary

CLASSES = {"s0": "x", "s1": "y"}
FACTS = {"cpu_model": "EPYC", "cpus_online": 2, "cgroup.cpu_max": "max", "memory_total_kb": 1000}


def suite(item: Item, rate: float, off: str = "") -> Judged:
    """A strict suite at that rate; `off`: the prompt whose output is another."""
    return record(item, [request(f"strict-{k}", k, wrong(ids_of(k)) if k == off else ids_of(k), rate) for k in CLASSES])


def campaign(
    rates: Sequence[float], rung: float = 200.0, off: str = "", facts: dict[str, Any] | None = None
) -> Summary:
    """A campaign of one arm with a strict suite on as many fresh servers as there are rates, and a rung of two."""
    seats = [f"base.{'abcdefgh'[i]}" for i in range(len(rates))]
    items = [strict(seat, CLASSES) for seat in seats] + [ladder("base.a", 2)]
    records = [suite(item, rate, off if i else "") for i, (item, rate) in enumerate(zip(items, rates, strict=False))]
    made = summary_of(plan([arm("base")], items), [*records, rung_record(items[-1], [(2, rung), (2, rung)])])
    known = {key: Fact(value, "equal", "test", "test") for key, value in (FACTS if facts is None else facts).items()}
    env = Environment("s", "base", "b", "at", known)
    return replace(
        made, suites=({"id": "s", "sha256": "ab" * 32},), sessions=tuple(replace(s, env=env) for s in made.sessions)
    )  # fmt: skip


def rows(a: Summary, b: Summary, **more: Any) -> dict[str, Beside]:
    """The rows by workload."""
    return {row.workload: row for row in compare_summaries(a, b, **more).rows}


def test_qualified_rates_have_a_ratio_from_their_fresh_servers() -> None:
    """Two servers a side: the ratio of geometric means with the range, from which nothing is claimed; a rung has one server a side."""
    found = rows(campaign([100.0, 101.0]), campaign([110.0, 112.0], rung=220.0))
    strict_row = found["strict"]
    assert strict_row.values_a == (100.0, 101.0) and strict_row.values_b == (110.0, 112.0)
    assert strict_row.ratio == rate_ratio([110.0, 112.0], [100.0, 101.0])
    assert strict_row.ratio.n == (2, 2) and not strict_row.ratio.claim and strict_row.ratio.interval.kind == "range"
    assert found["ladder"].ratio is not None and found["ladder"].ratio.n == (1, 1)
    assert found["ladder"].ratio.interval.center == pytest.approx(1.1)


def test_four_servers_a_side_may_claim_a_difference() -> None:
    """An interval that leaves 1 out; the same servers on both sides claim none."""
    slow, fast = campaign([100.0, 100.5, 99.5, 100.2]), campaign([110.0, 110.4, 109.7, 110.1])
    claimed, none = rows(slow, fast)["strict"].ratio, rows(slow, slow)["strict"].ratio
    assert claimed is not None and claimed.claim and claimed.interval.confidence == 0.95
    assert none is not None and not none.claim and none.interval.low < 1 < none.interval.high


def other_suite(s: Summary) -> Summary:
    """The same name, other prompts."""
    return replace(s, suites=({"id": "s", "sha256": "cd" * 32},))


def other_cap(s: Summary) -> Summary:
    """Another longest answer."""
    return replace(s, rules={**s.rules, "strict": {**s.rules["strict"], "cap": 512}})


REASONS: dict[str, tuple[Callable[[], tuple[Summary, Summary]], str]] = {
    "another suite digest": (lambda: (campaign([100, 101]), other_suite(campaign([100, 101]))), "another suite"),
    "no suite digest at all": (lambda: (replace(campaign([100, 101]), suites=()), replace(campaign([100, 101]), suites=())), "another suite"),
    "other rules": (lambda: (campaign([100, 101]), other_cap(campaign([100, 101]))), "other rules: cap"),
    "withheld against qualified": (lambda: (campaign([100, 101]), campaign([100, 101], off="s1")), "withheld in the second: only qualified"),
    "another processor": (lambda: (campaign([100, 101]), campaign([100, 101], facts={**FACTS, "cpu_model": "Xeon"})), "another class of host: cpu_model EPYC and Xeon"),
    "an accelerator on one side": (lambda: (campaign([100, 101]), campaign([100, 101], facts={**FACTS, "gpu0": {"name": "B70"}})), "another class of host"),
    "nothing known of a host": (lambda: (campaign([100, 101], facts={}), campaign([100, 101], facts={})), "nothing is known of one of the hosts"),
    "simulated against measured": (lambda: (campaign([100, 101]), replace(campaign([100, 101]), simulated=True)), "one of them was simulated"),
}  # fmt: skip


@pytest.mark.parametrize(("sides", "why"), REASONS.values(), ids=REASONS)
def test_what_cannot_be_compared_says_why(sides: Callable[[], tuple[Summary, Summary]], why: str) -> None:
    """No ratio on either side of it, whichever comes first."""
    a, b = sides()
    found = rows(a, b)["strict"]
    assert found.ratio is None and why in found.why
    assert rows(b, a)["strict"].ratio is None


def test_only_the_workload_that_differs_is_left_out() -> None:
    """Other rules of the strict suite leave the ladder compared; more rungs on one side are no other rule."""
    a, b = campaign([100, 101]), other_cap(campaign([100, 101]))
    more = replace(b, rules={**b.rules, "ladder": {**b.rules["ladder"], "rungs": [2, 4, 8]}})
    found = rows(a, more)
    assert found["strict"].ratio is None and found["ladder"].ratio is not None


def test_a_point_of_one_side_alone_is_told() -> None:
    """It is in the rows, without a ratio, with the side that lacks it."""
    a, b = campaign([100, 101]), campaign([100, 101])
    less = replace(b, points=tuple(p for p in b.points if p.workload != "ladder"))
    assert rows(a, less)["ladder"].why == "not measured in the second"
    assert rows(less, a)["ladder"].why == "not measured in the first"


def test_arms_of_other_names_belong_together_where_they_are_named() -> None:
    """Without a common name it is refused; with the pair it is compared."""
    a, b = campaign([100, 101]), campaign([110, 111])
    renamed = replace(
        b, arms=tuple(replace(x, name="new") for x in b.arms), points=tuple(replace(p, arm="new") for p in b.points), history=tuple(replace(h, arm="new") for h in b.history)
    )  # fmt: skip
    assert (
        "no arm of the same name" in compare_summaries(a, renamed).refused and compare_summaries(a, renamed).rows == ()
    )
    assert compare_summaries(a, renamed, [("base", "new")]).compared == 2


def test_conditions_that_differ_are_told() -> None:
    """Host name, suite, rule and facts that must be equal; a driver is a condition and makes no other class of host."""
    facts = {**FACTS, "gpu0": {"name": "B70", "driver": "1"}}
    a, b = (
        campaign([100, 101], facts=facts),
        campaign([100, 101], facts={**facts, "gpu0": {"name": "B70", "driver": "2"}}),
    )
    found = compare_summaries(a, other_cap(replace(b, host="Another name")))
    assert found.same_host
    told = {(d.kind, d.what): (d.a, d.b) for d in found.differences}
    assert told[("host", "host")] == ("A host", "Another name")
    assert told[("rule", "strict.cap")] == ("128", "512")
    assert told[("environment", "gpu0.driver")] == ("1", "2")


def test_two_simulations_are_compared_and_said_to_be() -> None:
    """Both simulated: no host to compare, and the words say that nothing was measured."""
    one = replace(campaign([100, 101]), simulated=True)
    assert same_class(one, one) == (True, "both were simulated, so nothing was measured on any host")
