"""The spread of fresh servers, requests apart in time, and the headline's interval and ratio in the summary."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from judge.evidence_kit import LAUNCH, Kit, ladder_item
from judge.plan_kit import arm, ids_of, plan, record, request, strict, summary_of
from publish.parsed import Page
from rungproof.judge.attempt import judge_attempt
from rungproof.judge.gates import judge_spread
from rungproof.plan.gates import gates_of
from rungproof.publish.pages.claimed import Claims
from rungproof.publish.pages.claims import gate_line, ratio_words
from rungproof.publish.pages.render import html
from rungproof.records import raw
from rungproof.records.formats import Judged
from rungproof.records.plan import Item, Plan
from rungproof.records.summary import Summary

CLASSES = {"s0": "x", "s1": "y"}


def measured(item: Item, rate: float) -> Judged:
    """A strict suite on one server at this rate."""
    return record(item, [request(f"strict-{k}", k, ids_of(k), rate) for k in CLASSES])


def campaign(rates: Sequence[float], limit: float | None = None, third: bool = False) -> tuple[Plan, list[Judged]]:
    """A base arm with one server a rate, and the gate of their spread where there is a limit."""
    items = [strict(f"base.{chr(97 + i)}", CLASSES) for i in range(len(rates) + third)]
    made = plan([arm("base")], items)
    if limit is not None:
        gates = gates_of(made.arms, made.items, {"strict": limit})
        made = replace(made, gates=gates, conditional=("base.c",) if third else ())
    return made, [measured(item, rate) for item, rate in zip(items, rates, strict=False)]


SPREADS: dict[str, tuple[list[float], str, str]] = {
    "two near each other": ([100.0, 101.0], "qualified", ""),
    "two just at the limit": ([99.0, 101.0], "qualified", ""),
    "two too far apart": ([100.0, 103.0], "withheld", "a third fresh server is needed"),
    "three too far apart are shown as they are": ([100.0, 103.0, 101.0], "qualified", "shown as it is"),
    "one server": ([100.0], "invalid", "nothing to compare"),
}


@pytest.mark.parametrize(("rates", "state", "says"), SPREADS.values(), ids=SPREADS)
def test_the_spread_of_fresh_servers_is_a_gate(rates: list[float], state: str, says: str) -> None:
    """(highest - lowest) / mean against the limit of 2 %; past it a third is called for; one server is nothing to compare."""
    of, records = campaign([100.0, 101.0, 101.0], 0.02)
    gate = next(g for g in of.gates if g.kind == "spread")
    made = [measured(item, rate) for item, rate in zip(of.items, rates, strict=False)]
    verdict = judge_spread(gate, made, ())
    assert verdict.state == state
    assert any(says in r.what for r in verdict.reasons) if says else verdict.reasons == ()
    assert verdict.stops == (() if state == "qualified" else gate.guards)
    assert records


def test_a_third_server_that_was_not_needed_is_no_part_of_anything() -> None:
    """Planned, not measured: no point, headline, gate or page waits for it. Measured, it is part of all of them."""
    of, records = campaign([100.0, 101.0], 0.02, third=True)
    summary = summary_of(of, records)
    (point,) = summary.points
    assert (point.state, point.n, summary.unjudged) == ("qualified", 2, ())
    assert [name for name, _ in summary.headlines[0].servers] == ["a", "b"]
    whole = summary_of(of, [*records, measured(of.items[2], 102.0)])
    assert [name for name, _ in whole.headlines[0].servers] == ["a", "b", "c"]
    assert whole.points[0].n == 4
    far, apart = campaign([100.0, 110.0], 0.02, third=True)
    assert summary_of(far, apart).points[0].state == "withheld"


@pytest.mark.parametrize(
    ("count", "kind"),
    [(2, "range"), (3, "range"), (4, "t interval of the mean"), (6, "order-statistic interval of the median")],
)
def test_the_headline_says_what_its_servers_allow(count: int, kind: str) -> None:
    """By its name, on the page too; a server that is missing leaves it out."""
    rates = [100.0 + i for i in range(count)]
    of, records = campaign(rates)
    summary = summary_of(of, records)
    (headline,) = summary.headlines
    assert headline.kind == kind
    assert headline.center == pytest.approx(sum(rates) / count)
    assert headline.low is not None and headline.high is not None
    assert headline.low < headline.center < headline.high
    assert f"{kind} " in Page(html(summary)).section("headline").text
    assert summary_of(of, records[:-1]).headlines[0].kind == ""


def both(base: Sequence[float], draft: Sequence[float]) -> Summary:
    """A base and a draft arm with these rates of their servers."""
    items = [
        strict(f"{name}.{chr(97 + i)}", CLASSES)
        for name, of in (("base", base), ("draft", draft))
        for i in range(len(of))
    ]
    records = [measured(item, rate) for item, rate in zip(items, [*base, *draft], strict=True)]
    return summary_of(plan([arm("base"), arm("draft", "base")], items), records)


def test_the_ratio_of_two_arms_states_what_stands_behind_it() -> None:
    """Two servers a side: a range and no claim; four a side: a t interval, and a claim where 1 is left out; the words say so on the page."""
    two = both([100.0, 101.0], [170.0, 172.0])
    (few,) = two.ratios
    assert (few.arm, few.base, few.kind, few.pairing, few.servers, few.claim) == (
        "draft",
        "base",
        "range",
        "unpaired",
        (2, 2),
        False,
    )
    assert (few.low, few.high) == (170 / 101, 172 / 100)
    assert "no difference is claimed: that takes 4 fresh servers a side" in ratio_words(two, Claims(two))[0]
    summary = both([100.0, 101.0, 99.0, 100.5], [170.0, 172.0, 171.0, 169.0])
    (many,) = summary.ratios
    assert (many.kind, many.confidence, many.claim) == ("t interval of the log ratio", 0.95, True)
    assert "a difference is claimed" in html(summary)
    alike = both([100.0, 101.0, 99.0, 100.5], [100.2, 100.8, 99.5, 100.1])
    (same,) = alike.ratios
    assert not same.claim
    assert "no difference is claimed: 1 lies within" in ratio_words(alike, Claims(alike))[0]


def test_no_ratio_of_an_arm_that_is_not_qualified() -> None:
    """A withheld arm has no published number, so none of its speed-up either; and the page's title says that gates failed."""
    of, records = campaign([100.0, 101.0])
    wrong = replace(records[1], requests=tuple(replace(r, token_ids=(1, 2)) for r in records[1].requests))
    summary = summary_of(of, [records[0], wrong])
    assert summary.ratios == ()
    assert gate_line(summary) == f"1 of {len(of.gates)} gates not passed"
    assert f"<title>{gate_line(summary)}: " in html(summary)
    assert gate_line(summary_of(of, records)) == ""


def staggered(late_ns: list[int]) -> Judged:
    """A rung of two users 5 ms apart whose second request of each pass was sent so late [ns] after its time."""
    item = ladder_item()
    item = replace(item, spec={**item.spec, "stagger_ms": 5.0})
    kit = Kit(item)
    starts = {line.batch: line.start_ns for line in kit.lines if isinstance(line, raw.Batch)}
    late = iter(late_ns)
    lines: list[Any] = []
    for line in kit.lines:
        if isinstance(line, raw.Request) and line.batch.startswith("pass-") and line.key == "p1":
            lines.append(
                replace(
                    line,
                    sent_ns=starts[line.batch] + 5_000_000 + next(late),
                    chunks=tuple((at + 10**7, n) for at, n in line.chunks),
                )
            )
        else:
            lines.append(line)
    kit.lines = lines
    return judge_attempt(item, LAUNCH, kit.expected, kit.evidence(), "judge")


def test_a_stagger_is_kept_or_the_rung_is_invalid() -> None:
    """On time or a little late: accepted; before its time, or late by half the stagger: not what was asked for."""
    assert staggered([0, 1_000_000]).state == "accepted"
    for late in (-1, 2_500_000):
        j = staggered([0, late])
        assert j.state == "invalid"
        assert [r.what for r in j.reasons] == ["stagger not kept"]
        assert j.reasons[0].where == "pass-2/p1"
