"""What a chart may be read to say: lines, marks, axes and labels."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publish.parsed import Page
from publish.sample import large, sample
from rungproof.publish.pages.charts import Curve, Picture, both, picture, styles
from rungproof.publish.pages.geometry import Scale, linear_ticks, mark, power_ticks
from rungproof.publish.pages.labels import Box, Wanted, place
from rungproof.publish.pages.render import html
from rungproof.records.errors import EvidenceError
from rungproof.records.formats import Point

LOOKS = styles(["base", "draft3", "bf16"])


def points(workload: str) -> list[Point]:
    return [point for point in sample().points if point.workload == workload]


def drawn(of: Sequence[Point], log: bool = True) -> Picture:
    made = picture(of, LOOKS, log)
    assert made is not None
    return made


def curve(made: Picture, arm: str) -> Curve:
    return next(c for c in made.curves if c.arm == arm)


def vertices(line: str) -> list[tuple[str, ...]]:
    return [tuple(pair.split()) for pair in line.removeprefix("M").split("L")]


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("workload", ["depth", "ladder"])
def test_a_line_joins_only_neighbours_that_are_both_qualified(workload: str, log: bool) -> None:
    """No line begins, ends or passes at a withheld, invalid, failed, skipped or missing point."""
    of = points(workload)
    for one in drawn(of, log).curves:
        ordered = [p for p in sorted(of, key=lambda p: p.x or 0) if p.arm == one.arm]
        joined = sum(len(vertices(line)) - 1 for line in one.lines)
        assert joined == sum(a.state == b.state == "qualified" for a, b in pairwise(ordered))
        places = {(f"{m.x:.1f}".removesuffix(".0"), f"{m.y:.1f}".removesuffix(".0")) for m in one.marks if m.filled}
        assert all(vertex in places for line in one.lines for vertex in vertices(line))


def test_a_gap_breaks_a_line_also_where_nothing_is_drawn() -> None:
    """The missing depth of base leaves two separate lines, and the invalid rung of draft3 leaves its next point alone."""
    assert len(curve(drawn(points("depth")), "base").lines) == 2
    assert len(curve(drawn(points("ladder")), "draft3").lines) == 1
    assert curve(drawn(points("ladder")), "bf16").lines == ()


def test_two_points_at_one_place_are_never_joined() -> None:
    """Where an arm has two points at one x, no line says which of them it belongs to."""
    of = [p for p in points("ladder") if p.arm == "base"]
    twice = replace(of[2], id="base/ladder/c4-again/aggregate", value=90.0)
    assert [len(vertices(line)) for line in drawn([*of, twice]).curves[0].lines] == [2, 2]


def test_withheld_is_hollow_with_its_count_and_the_rest_is_not_drawn() -> None:
    """In the page itself: a withheld mark has no fill and shows k/n; invalid, failed, skipped and missing have no mark."""
    made = html(sample())
    by_id = {point.id: point for point in sample().points if point.x is not None}
    pictures = [
        ET.fromstring(f"<svg{part.partition('</svg>')[0]}</svg>")
        for part in made.split("<svg")[1:]
        if 'viewBox="0 0 720 400"' in part[:200]
    ]
    assert len(pictures) == 3  # depth, its times to first token, and the ladder
    seen = []
    for svg in (pictures[0], pictures[2]):
        counts = [e.text or "" for e in svg.iter("{http://www.w3.org/2000/svg}text") if e.get("class") == "kn"]
        withheld = [
            p
            for p in by_id.values()
            if p.state == "withheld" and f"/{p.workload}/" in svg.findall(".//*[@data-claim]")[0].get("data-claim", "")
        ]
        assert sorted(counts) == sorted(2 * [f"{p.k}/{p.n}" for p in withheld])  # once on each scale
        for link in svg.iter("{http://www.w3.org/2000/svg}a"):
            point = by_id[link.get("data-claim") or ""]
            assert link.get("data-value") == repr(point.value)
            assert link.get("data-state", "qualified") == point.state
            shape = [e for e in link if e.tag.endswith("path") and e.get("class") != "wh"]
            seen.append(point.id)
            assert len(shape) == 1
            assert point.arm in (link.get("aria-label") or "")
            if point.state == "withheld":
                assert shape[0].get("fill") == "none"
                assert "withheld, not a claim" in (link.get("aria-label") or "")
            else:
                assert point.state == "qualified"
                assert shape[0].get("fill") is None
            assert (link.get("href") or "").startswith("../")
    assert sorted(seen) == sorted([p.id for p in by_id.values() if p.state in ("qualified", "withheld")])


def test_arms_differ_by_more_than_colour() -> None:
    """No two of 36 arms share both shape and dashes, and the first six share neither."""
    looks = list(styles([f"arm{n}" for n in range(36)]).values())
    assert all((a.shape, a.dash) != (b.shape, b.dash) for a, b in combinations(looks, 2))
    assert len({a.shape for a in looks[:6]}) == len({a.dash for a in looks[:6]}) == 6
    assert len({mark(a.shape, 0, 0, 5) for a in looks[:6]}) == 6


def test_the_value_axis_begins_at_zero() -> None:
    """Whatever the values, the lowest tick of the vertical axis is 0 and the highest is above all marks and whiskers."""
    for workload in ("depth", "ladder"):
        made = drawn([p for p in points(workload) if p.value and p.value > 30])
        assert made.y_ticks[0][1] == "0"
        assert min(m.y for c in made.curves for m in c.marks) >= float(made.y_ticks[-1][0])


def test_both_scales_are_switched_without_script() -> None:
    """Each figure has a log2 and a linear scale, one radio button each, the log2 one chosen; marks move by rules of the style sheet alone."""
    page = Page(html(sample()))
    radios = page.all("input")
    assert [r.attributes["type"] for r in radios] == ["radio"] * 6
    assert ["checked" in r.attributes for r in radios] == [True, False] * 3
    assert [label.text for label in page.all("label")] == ["log2 horizontal axis", "linear horizontal axis"] * 3
    assert len({r.attributes["name"] for r in radios}) == 3
    rules = page.all("style")[0].text
    for name in {e.attributes["class"] for e in page.all("a") if re.fullmatch(r"x\d+", e.attributes.get("class", ""))}:
        assert f".r2:checked~.plot #c1 .{name}{{transform:translateX(" in rules


def test_switching_the_scale_moves_each_mark_to_its_own_place() -> None:
    """Where a mark is drawn plus its shift is where the linear picture has it; what only that one can place is drawn there."""
    of = [replace(p, x=0.0) if p.x == 512 else p for p in points("depth")]
    log, linear = drawn(of), drawn(of, log=False)
    made = both([log, linear])
    assert made is not None
    shifts = dict(made.shifts)
    there = {m.point.id: m.x for c in linear.curves for m in c.marks}
    for mark_ in (m for c in log.curves for m in c.marks):
        assert mark_.x + float(shifts[made.places[mark_.point.id]]) == pytest.approx(there[mark_.point.id], abs=0.06)
    assert {m.point.x for c in made.only for m in c.marks} == {0.0}
    assert both([linear]) is not None and both([]) is None


def test_zero_has_no_place_on_a_logarithmic_axis() -> None:
    """A point at x = 0 is in the linear picture, and the log2 one counts it as left out."""
    of = [replace(p, x=0.0) if p.x == 512 else p for p in points("depth")]
    assert drawn(of).left_out == 3
    assert drawn(of, log=False).left_out == 0


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_no_number_is_refused(value: float) -> None:
    """A picture is never drawn with a point somewhere by accident."""
    with pytest.raises(EvidenceError, match="not finite"):
        picture([replace(points("depth")[0], value=value)], LOOKS, True)


def test_nothing_to_draw_is_no_picture() -> None:
    """Points without value or place give no picture rather than an empty one."""
    assert picture([p for p in points("depth") if p.state == "failed"], LOOKS, True) is None


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("workload", ["depth", "ladder"])
def test_labels_keep_clear(workload: str, log: bool) -> None:
    """In a crowded campaign no value covers another value or crosses a line, by our own estimate of its width."""
    made = drawn([p for p in large().points if p.workload == workload], log)
    boxes = []
    for label in (m.label for c in made.curves for m in c.marks if m.label and m.filled):
        wide = len(label.text) * 12 * 0.56
        left = {"start": label.x, "middle": label.x - wide / 2, "end": label.x - wide}[label.anchor]
        boxes.append(Box(left, label.y - 10.2, left + wide, label.y + 1.8))
    assert len(boxes) >= 8
    assert not [pair for pair in combinations(boxes, 2) if pair[0].overlap(pair[1]) > 1]
    for line in (line for c in made.curves for line in c.lines):
        for (x1, y1), (x2, y2) in pairwise([(float(x), float(y)) for x, y in vertices(line)]):
            assert not [
                box
                for box in boxes
                if Box(box.left + 1, box.top + 1, box.right - 1, box.bottom - 1).crossed_by((x1, y1, x2, y2))
            ]


def test_an_optional_label_gives_way_and_a_required_one_stays() -> None:
    """Where everything is taken, a value is left out and a count is drawn all the same."""
    everything = [Box(-1000, -1000, 1000, 1000)]
    wanted = [Wanted("1.0", 0, 0, 12, must=False), Wanted("7/8", 0, 0, 12, must=True)]
    value, count = place(wanted, everything, [], Box(-500, -500, 500, 500))
    assert value is None
    assert count is not None


@given(st.floats(0, 1e9), st.floats(1e-6, 1e9))
def test_linear_ticks_hold_zero_and_all_values(low: float, high: float) -> None:
    """Round ticks, evenly apart, from zero to at or above the highest value, never more than eight."""
    ticks = linear_ticks(low, max(low, high))
    assert ticks[0] == 0
    assert ticks[-1] >= max(low, high) * (1 - 1e-9)
    assert 2 <= len(ticks) <= 8


@given(st.floats(1e-3, 1e9), st.floats(1, 1e6))
def test_power_ticks_are_powers_of_two_around_the_values(low: float, factor: float) -> None:
    """A logarithmic axis begins and ends at powers of two that hold all values, and the scale keeps their order."""
    ticks = power_ticks(low, low * factor)
    assert ticks[0] <= low * (1 + 1e-6)
    assert ticks[-1] >= low * factor * (1 - 1e-6)
    scale = Scale(ticks[0], ticks[-1], 0, 100, log=True)
    assert [scale(t) for t in ticks] == sorted(scale(t) for t in ticks)
    assert scale(ticks[-1]) == pytest.approx(100)


def test_every_look_has_a_colour_in_the_style_sheet() -> None:
    """Each colour number that an arm can get is defined for light, dark and print."""
    style = Page(html(sample())).all("style")[0].text
    for number in range(6):
        assert len(re.findall(rf"--c{number}:#", style)) == 3
        assert f".s{number}{{" in style
