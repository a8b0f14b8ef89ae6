"""Rung rules: which passes must be exact, which number and count stand for the rung; nothing is exact by default."""

from typing import Any

import pytest

from judge.plan_kit import arm, ladder, plan, rung_record, summary_of
from rungproof.judge.rungs import Pass, Rung, rung_of
from rungproof.records.formats import Point

TWO = [Pass(64, 64, 1726.8, 8192, 4744000000), Pass(63, 64, 1725.1, 8192, 4748700000)]
FOUR = [
    Pass(24, 24, 1360.0, 3072, 2_258_823_529),
    *[Pass(24, 24, 1350.0, 3072, 2_275_555_555)] * 2,
    Pass(23, 24, 1340.0, 3072, 2_292_537_313),
]
CASES: dict[str, tuple[dict[str, Any], list[Pass], Rung]] = {
    "exact in both of two, the second shown": (
        {"exact": "every-pass", "shown": "last"},
        TWO,
        Rung(False, 1725.1, 63, 64),
    ),
    "exact in both, the first shown: the count does not hide the second": (
        {"exact": "every-pass", "shown": "first"},
        TWO,
        Rung(False, 1726.8, 127, 128),
    ),
    "only the first must be exact": ({"exact": [1], "shown": "first"}, TWO, Rung(True, 1726.8, 64, 64)),
    "a pass by its number": ({"exact": [2], "shown": 2}, TWO, Rung(False, 1725.1, 63, 64)),
    "exact pooled over four, pooled shown": (
        {"exact": "pooled", "shown": "pooled"},
        FOUR,
        Rung(False, 4 * 3072 * 10**9 / (2_258_823_529 + 2 * 2_275_555_555 + 2_292_537_313), 95, 96),
    ),
    "exact pooled over four, the last shown": ({"exact": "pooled", "shown": "last"}, FOUR, Rung(False, 1340.0, 95, 96)),
    "the median of the passes": ({"exact": "every-pass", "shown": "median"}, FOUR, Rung(False, 1350.0, 95, 96)),
    "all exact": ({"exact": "every-pass", "shown": "last"}, FOUR[:3], Rung(True, 1350.0, 24, 24)),
    "no pass": ({"exact": "every-pass", "shown": "last"}, [], Rung(False, None, 0, 0)),
    "a pass that compared nothing": (
        {"exact": "every-pass", "shown": "last"},
        [Pass(0, 0, 10.0), Pass(4, 4, 10.0)],
        Rung(False, 10.0, 4, 4),
    ),
    "a pass without an aggregate": (
        {"exact": "every-pass", "shown": "last"},
        [Pass(4, 4, None), Pass(4, 4, 9.0)],
        Rung(True, None, 4, 4),
    ),
}


@pytest.mark.parametrize(("rules", "passes", "says"), CASES.values(), ids=CASES)
def test_a_rule_gives_state_value_and_count(rules: dict[str, Any], passes: list[Pass], says: Rung) -> None:
    """From the passes' counts and aggregates and the rule alone."""
    assert rung_of(rules, passes) == says


@pytest.mark.parametrize(
    "rules", [{"exact": [3], "shown": "last"}, {"exact": "every-pass", "shown": 3}, {"exact": [0], "shown": "last"}]
)
def test_a_rule_about_a_pass_that_is_not_there_is_refused(rules: dict[str, Any]) -> None:
    """No rule may hold for want of what it names."""
    with pytest.raises(ValueError, match="the rung has 2"):
        rung_of(rules, TWO)


def point_of(**rules: Any) -> Point:
    """The point of a rung of two users: first pass exact, second one of two."""
    item = ladder("base.a", 2, **rules)
    (point,) = summary_of(plan([arm("base")], [item]), [rung_record(item, [(2, 200.0), (1, 190.0)])]).points
    return point


def test_the_rule_of_the_plan_decides_the_point() -> None:
    """The same record is withheld where both passes must be exact and qualified where the plan asks for the first alone; all passes stay in view."""
    both, first = point_of(), point_of(exact=[1], shown="first")
    assert (both.state, both.value, both.k, both.n) == ("withheld", 190.0, 1, 2)
    assert (first.state, first.value, first.k, first.n) == ("qualified", 200.0, 2, 2)
    assert both.detail["passes"] == first.detail["passes"] == [200.0, 190.0]
    assert both.detail["passes_exact"] == first.detail["passes_exact"] == [[2, 2], [1, 2]]
