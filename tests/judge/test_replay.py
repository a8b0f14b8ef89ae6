"""A plan measured again, beside what was published: tokens in full, rates only between comparable hosts, and nothing passes on nothing."""

from dataclasses import replace
from typing import Any

import pytest

from judge.plan_kit import arm, changed, ids_of, ladder, plan, record, request, rung_record, strict, summary_of, wrong
from rungproof.judge.replay import claimed_items, hosts_again, rates_again, rates_state, tokens_again, tokens_state
from rungproof.records.environment import Fact
from rungproof.records.formats import Judged
from rungproof.records.replay import ItemTokens

CLASSES = {f"p{i}": "prose" for i in range(12)}
ITEMS = [strict("base.a", CLASSES), strict("base.b", CLASSES), ladder("base.a", 2)]
PLAN = plan([arm("base")], ITEMS)


def measured(boot: str, rate: float = 100.0) -> dict[str, Judged]:
    """Records of every item, from servers of one boot."""
    suites = [record(i, [request(f"strict-{key}", key, ids_of(key), rate) for key in CLASSES]) for i in ITEMS[:2]]
    made = [*suites, rung_record(ITEMS[2], [(2, 2 * rate), (2, 2 * rate)])]
    return {i.id: replace(j, boot=f"{boot}-{i.seat}") for i, j in zip(ITEMS, made, strict=True)}


PUBLISHED = measured("lab")
POINTS = summary_of(PLAN, list(PUBLISHED.values())).points
CLAIMED = claimed_items(PLAN, POINTS)


def rows(again: dict[str, Judged]) -> dict[str, ItemTokens]:
    """Items by id."""
    return {row.item: row for row in tokens_again(PLAN, CLAIMED, PUBLISHED, again)}


def test_the_claim_rests_on_every_item_of_qualified_points() -> None:
    """Both servers of a strict suite, and the rung."""
    assert [p.state for p in POINTS] == ["qualified", "qualified"]
    assert tuple(i.id for i in ITEMS) == CLAIMED


def test_the_same_tokens_again() -> None:
    """k of n of every item, oracle requests and passes of a rung among them."""
    made = rows(measured("other"))
    assert {r.state for r in made.values()} == {"identical"}
    assert (made["base.a/strict/suite"].k, made["base.a/strict/suite"].n) == (12, 12)
    assert made["base.a/ladder/c2"].n == 6
    assert tokens_state(tuple(made.values())) == "identical"


def test_one_token_is_enough() -> None:
    """The item is different, and the first difference names request and index."""
    again = measured("other")
    key = "base.b/strict/suite"
    again[key] = changed(again[key], again[key].requests[3].batch, again[key].requests[3].key, wrong(ids_of("p3")))
    row = rows(again)[key]
    assert (row.state, row.k, row.n) == ("different", 11, 12)
    assert row.first is not None
    assert row.first.index == 40
    assert tokens_state(tuple(rows(again).values())) == "different"


LOST: dict[str, Any] = {
    "an item that was not measured": lambda again: again.pop("base.a/ladder/c2"),
    "an item that is invalid": lambda again: again.update(
        {"base.a/ladder/c2": replace(again["base.a/ladder/c2"], state="invalid")}
    ),
    "a copy of the published record": lambda again: again.update({"base.a/ladder/c2": PUBLISHED["base.a/ladder/c2"]}),
}


@pytest.mark.parametrize("lose", LOST.values(), ids=LOST)
def test_what_was_not_measured_again_is_not_compared(lose: Any) -> None:
    """It counts against the whole, with its reason, and never as identical."""
    again = measured("other")
    lose(again)
    row = rows(again)["base.a/ladder/c2"]
    assert row.state == "not compared"
    assert row.why
    assert tokens_state(tuple(rows(again).values())) == "not compared"


def test_a_request_that_is_missing_counts() -> None:
    """Fewer requests than published are fewer identical outputs, not fewer outputs."""
    again = measured("other")
    key = "base.a/strict/suite"
    again[key] = replace(again[key], requests=again[key].requests[1:])
    assert (rows(again)[key].k, rows(again)[key].n) == (11, 12)


def test_an_item_with_nothing_published_is_never_identical() -> None:
    """No output on either side compares as equal; it is no proof that anything came again."""
    key = "base.a/strict/suite"
    empty = {key: replace(PUBLISHED[key], requests=())}
    (row,) = tokens_again(PLAN, CLAIMED, empty, {key: replace(measured("other")[key], requests=())})
    assert (row.state, row.k, row.n) == ("different", 0, 0)


def test_a_pack_without_a_claim_gives_no_pass() -> None:
    """Nothing claimed, nothing compared."""
    assert tokens_state(tokens_again(PLAN, (), PUBLISHED, measured("other"))) == "not compared"


def test_passes_that_the_rule_does_not_want_exact_do_not_count() -> None:
    """A rung whose first pass may differ is held by its second alone."""
    item = ladder("base.a", 2, exact=[2], shown=2)
    said = rung_record(item, [(1, 100.0), (2, 100.0)])
    again = replace(rung_record(item, [(2, 100.0), (2, 100.0)]), boot="other")
    (row,) = tokens_again(plan([arm("base")], [item]), [item.id], {item.id: said}, {item.id: again})
    assert (row.state, row.n) == ("identical", 4)


RATES = {"near": (101.0, "within"), "far": (103.0, "beyond")}


@pytest.mark.parametrize(("rate", "state"), RATES.values(), ids=RATES)
def test_rates_of_few_servers_are_held_pair_by_pair(rate: float, state: str) -> None:
    """Two servers a side: no test, every pair within the limit or not; and nothing is judged on another host."""
    made = rates_again(PLAN, POINTS, PUBLISHED, measured("other", rate))
    assert {r.state for r in made} == {state}
    assert made[0].published == (100.0, 100.0)
    assert rates_state(made, True) == state
    assert rates_state(made, False) == "not compared"
    assert rates_state((), True) == "not compared"


def test_the_worst_rate_stands_for_all() -> None:
    """And one without a value on this side is not compared."""
    again = measured("other")
    again.pop("base.a/ladder/c2")
    made = rates_again(PLAN, POINTS, PUBLISHED, again)
    assert [r.state for r in made] == ["within", "not compared"]
    assert rates_state(made, True) == "not compared"


def facts(**values: Any) -> dict[str, Fact]:
    """Facts of a host."""
    whole = {"cpu_model": "EPYC", "cpus_online": 2, "kernel_series": "6.18", "engine_version": "0.32.0", **values}
    return {k: Fact(v, "equal", "s", "r") for k, v in whole.items()}


HOSTS: dict[str, tuple[dict[str, Fact], bool]] = {
    "the same": (facts(), True),
    "another processor": (facts(cpu_model="Xeon"), False),
    "another engine": (facts(engine_version="0.33.0"), False),
    "an accelerator more": (facts(**{"gpu0.name": "B70"}), False),
    "another governor": (facts(governors="powersave"), True),
    "nothing known": ({}, False),
}


@pytest.mark.parametrize(("other", "comparable"), HOSTS.values(), ids=HOSTS)
def test_hosts_are_compared_by_what_decides(other: dict[str, Fact], comparable: bool) -> None:
    """Other facts that differ are told and decide nothing."""
    found, words, told = hosts_again(facts(), other)
    assert found is comparable
    assert words
    assert any(row.key == "governors" and not row.decides for row in told) == ("governors" in other)
