"""From points to pictures: what each chart draws, where, and the sentence that says it aloud.

A qualified point is a filled mark, a withheld one a hollow mark labelled k/n; invalid, failed, skipped and missing ones are
not drawn. A line joins two neighbouring points of one arm only if both are qualified and nothing lies between them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rungproof.publish.pages.claimed import link_of
from rungproof.publish.pages.geometry import (
    DASHES,
    SHAPES,
    Scale,
    linear_ticks,
    mark,
    polyline,
    power_ticks,
    short,
)
from rungproof.publish.pages.labels import CHAR_WIDTH, Box, Placed, Segment, Wanted, place
from rungproof.publish.pages.text import anchor, count_of, visible
from rungproof.records.errors import EvidenceError
from rungproof.records.formats import Point
from rungproof.records.shown import shown, whole

WIDTH, HEIGHT = 720.0, 400.0
LEFT, TOP, BOTTOM = 62.0, 26.0, 346.0
FRAME = Box(LEFT + 2, 2, WIDTH - 2, BOTTOM - 2)
RADIUS, VALUE_SIZE, NAME_SIZE, NAME_LENGTH = 5.0, 12.0, 13.0, 18


@dataclass(frozen=True, slots=True)
class Style:
    """How an arm looks in every picture: colour number, shape and dashes."""

    color: int
    shape: str
    dash: str

    @property
    def sample(self) -> str:
        """Path data of the mark in the key, 40 by 14."""
        return mark(self.shape, 20, 7, RADIUS)


@dataclass(frozen=True, slots=True)
class Mark:
    """One point as drawn. `label`: its value, or k/n for a withheld one; None: no room for it."""

    point: Point
    filled: bool
    path: str
    x: float
    y: float
    whisker: str
    sentence: str
    href: str
    claim: str
    label: Placed | None


@dataclass(frozen=True, slots=True)
class Curve:
    """One arm as drawn: `lines` are unbroken runs of qualified points."""

    arm: str
    style: Style
    lines: tuple[str, ...]
    marks: tuple[Mark, ...]
    name: Placed | None


@dataclass(frozen=True, slots=True)
class Picture:
    """One chart on one horizontal scale; ticks are (position, text)."""

    log: bool
    right: float
    x_ticks: tuple[tuple[str, str], ...]
    y_ticks: tuple[tuple[str, str], ...]
    curves: tuple[Curve, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Axis:
    """What a workload's charts are called and what their horizontal axis is."""

    title: str
    x_name: str
    x_one: str
    interval: str


AXES = {
    "depth": Axis(
        "over context depth", "context depth (prompt tokens)", "{} prompt tokens", "slowest and fastest of the texts"
    ),
    "ladder": Axis(
        "over users at once", "users at once (concurrent requests)", "{} at once", "lowest and highest of the passes"
    ),
    "short": Axis(
        "over prompt length", "prompt length (tokens)", "{} prompt tokens", "slowest and fastest of the prompts"
    ),
}
KINDS = {
    "decode_rate": "depth",
    "aggregate": "ladder",
}  # of points whose record does not name the kind of their workload


def styles(arms: Sequence[str]) -> dict[str, Style]:
    """A look for each arm, the same in every chart. No two of the first 36 have both shape and dashes in common."""
    count = len(SHAPES)
    return {
        arm: Style(index % count, SHAPES[index % count], DASHES[(index + index // count) % count])
        for index, arm in enumerate(arms)
    }


def kind_of(point: Point) -> str:
    """The kind of workload a point is of, by its record, else by its metric; its workload's own name for any other."""
    return str(point.detail.get("kind") or KINDS.get(point.metric, point.workload))


def axis_of(point: Point) -> Axis:
    """Names for the horizontal axis of a point's chart: depth, users or prompt length, else its own words."""
    other = Axis(f"of {point.workload}", f"x of {point.workload}", "x = {}", "kind not stated in the record")
    return AXES.get(kind_of(point), other) if point.x is not None else other


def interval_of(point: Point) -> str:
    """What the low and high of a point are; empty where it has none, or where both are one value."""
    if point.low is None or point.high is None or point.low == point.high:
        return ""
    stated = point.detail.get("interval")
    return str(stated) if stated else axis_of(point).interval


def sentence(point: Point) -> str:
    """What a mark says to a screen reader: arm, place, value, state and identity."""
    where = axis_of(point).x_one.format(whole(point.x)) if point.x is not None else point.item
    value = f"{shown(point.value)} {point.unit}" if point.value is not None else "no value"
    state = "qualified" if point.state == "qualified" else f"{point.state}, not a claim"
    return f"{point.arm}, {where}: {value}, {state}, {count_of(point.k, point.n)} identical"


@dataclass(frozen=True, slots=True)
class Both:
    """A chart that can be switched between two scales: one set of marks, drawn where the first picture has them.

    `second`: None where only one scale can be drawn. `places`: point -> the class of its place, `x<i>`; `shifts`: (class, how
    far its marks move [picture units] when the second is shown); `only`: curves of points that only the second can place.
    """

    first: Picture
    second: Picture | None
    places: Mapping[str, str]
    shifts: tuple[tuple[str, str], ...]
    only: tuple[Curve, ...]


def both(pictures: Sequence[Picture]) -> Both | None:
    """The logarithmic and the linear picture of the same points as one; None for no picture."""
    if not pictures:
        return None
    first, second = pictures[0], pictures[1] if len(pictures) > 1 else None
    at = {m.point.id: m.x for c in first.curves for m in c.marks}
    shifts: dict[float, float] = {}
    only = []
    for curve in second.curves if second else ():
        shifts |= {at[m.point.id]: m.x for m in curve.marks if m.point.id in at}
        if alone := tuple(m for m in curve.marks if m.point.id not in at):
            only.append(replace(curve, marks=alone, lines=(), name=None))
    names = {x: f"x{i}" for i, x in enumerate(sorted(shifts))}
    return Both(
        first,
        second,
        {point: names.get(x, "") for point, x in at.items()},
        tuple((names[x], short(shifts[x] - x)) for x in sorted(shifts)),
        tuple(only),
    )


def own_id(point: Point) -> str:
    """The claim of a point's own value."""
    return point.id


def picture(
    points: Sequence[Point], looks: Mapping[str, Style], log: bool, claim_of: Callable[[Point], str] = own_id
) -> Picture | None:
    """Draw the qualified and withheld `points` of one metric; None when there is none that has a place.

    `claim_of`: where a point's number can be checked. Raises EvidenceError for a value or position that is not finite.
    """
    shown = [p for p in points if p.state in ("qualified", "withheld") and p.x is not None and p.value is not None]
    for p in shown:
        if not all(math.isfinite(v) for v in (p.x, p.value, p.low or 0.0, p.high or 0.0) if v is not None):
            raise EvidenceError(
                f"{visible(p.id)}: found a value that is not finite; expected numbers, so the point cannot be drawn"
            )
    drawn = [p for p in shown if not log or (p.x or 0) > 0]
    if not drawn:
        return None
    right = WIDTH - 22 - NAME_SIZE * CHAR_WIDTH * max(len(_name(p.arm)) for p in drawn)
    xs, ys = _scales(drawn, right, log)
    ticks_x, ticks_y = (power_ticks if log else linear_ticks)(xs.low, xs.high), linear_ticks(ys.low, ys.high)
    arms = [arm for arm in looks if any(p.arm == arm for p in drawn)]
    sorted_points = {arm: sorted((p for p in points if p.arm == arm and p.x is not None), key=_order) for arm in arms}
    curves = _curves(sorted_points, {p.id for p in drawn}, looks, (xs, ys), claim_of)
    return Picture(
        log=log,
        right=round(right, 1),
        x_ticks=tuple((short(xs(t)), whole(t)) for t in ticks_x),
        y_ticks=tuple((short(ys(t)), whole(t)) for t in ticks_y),
        curves=curves,
        left_out=len(shown) - len(drawn),
    )


def _order(point: Point) -> tuple[float, str]:
    return (point.x or 0.0, point.id)


def _scales(drawn: Sequence[Point], right: float, log: bool) -> tuple[Scale, Scale]:
    x_values = [p.x for p in drawn if p.x is not None]
    y_values = [v for p in drawn for v in (p.value, p.low, p.high) if v is not None]
    y_ticks = linear_ticks(0.0, max(y_values)) if min(y_values) >= 0 else linear_ticks(min(y_values), max(y_values))
    x_ticks = (power_ticks if log else linear_ticks)(min(x_values), max(x_values))
    start = LEFT + 22 if log else LEFT
    return Scale(x_ticks[0], x_ticks[-1], start, right, log), Scale(y_ticks[0], y_ticks[-1], BOTTOM, TOP)


def _runs(ordered: Sequence[Point], drawn: set[str]) -> list[list[Point]]:
    """Neighbouring qualified points with nothing between them; two points at one x are never joined to anything."""
    lonely = {a.id for a, b in pairwise(ordered) if a.x == b.x} | {b.id for a, b in pairwise(ordered) if a.x == b.x}
    runs: list[list[Point]] = [[]]
    for point in ordered:
        if point.state == "qualified" and point.id in drawn and point.id not in lonely:
            runs[-1].append(point)
        else:
            runs.append([])
    return [run for run in runs if len(run) > 1]


def _curves(
    by_arm: Mapping[str, Sequence[Point]], drawn: set[str], looks: Mapping[str, Style], scales: tuple[Scale, Scale],
    claim_of: Callable[[Point], str],
) -> tuple[Curve, ...]:  # fmt: skip
    xs, ys = scales
    at = {p.id: (xs(p.x or 0.0), ys(p.value or 0.0)) for ps in by_arm.values() for p in ps if p.id in drawn}
    runs = {arm: _runs(ps, drawn) for arm, ps in by_arm.items()}
    segments: list[Segment] = [(*at[a.id], *at[b.id]) for rs in runs.values() for run in rs for a, b in pairwise(run)]
    for p in (p for ps in by_arm.values() for p in ps if p.id in drawn and interval_of(p)):
        segments.append((at[p.id][0], ys(p.low or 0.0), at[p.id][0], ys(p.high or 0.0)))
    labels = _labels(by_arm, at, segments)
    return tuple(
        Curve(
            arm=arm,
            style=looks[arm],
            lines=tuple(polyline([at[p.id] for p in run]) for run in runs[arm]),
            marks=tuple(_mark(p, looks[arm], at[p.id], ys, labels.get(p.id), claim_of(p)) for p in ps if p.id in drawn),
            name=labels.get(f"\n{arm}"),
        )
        for arm, ps in by_arm.items()
    )


def _mark(point: Point, look: Style, at: tuple[float, float], ys: Scale, label: Placed | None, claim: str) -> Mark:
    x, y = at
    whisker = ""
    if point.low is not None and point.high is not None and interval_of(point):
        low, high = ys(point.low), ys(point.high)
        whisker = f"M{short(x - 4)} {short(low)}h8m-4 0V{short(high)}m-4 0h8"
    path = mark(look.shape, x, y, RADIUS)
    href = link_of(point) or f"#{anchor('not', point.id)}"
    return Mark(point, point.state == "qualified", path, x, y, whisker, sentence(point), href, claim, label)


def _labels(
    by_arm: Mapping[str, Sequence[Point]], at: Mapping[str, tuple[float, float]], segments: Sequence[Segment]
) -> dict[str, Placed | None]:
    """Places for k/n (always drawn), arm names (always drawn) and values (drawn where there is room), in that order."""
    wanted: dict[str, Wanted] = {}
    drawn = {arm: [p for p in ps if p.id in at] for arm, ps in by_arm.items()}
    for arm, ps in drawn.items():
        x, y = at[ps[-1].id]
        wanted[f"\n{arm}"] = Wanted(_name(arm), x, y, NAME_SIZE, must=True, side=True)
    for state in ("withheld", "qualified"):
        for ps in drawn.values():
            for p in (p for p in ps if p.state == state):
                text = f"{p.k}/{p.n}" if state == "withheld" else shown(p.value or 0.0)
                wanted[p.id] = Wanted(text, *at[p.id], VALUE_SIZE, must=state == "withheld")
    boxes = [Box(x - RADIUS - 1, y - RADIUS - 1, x + RADIUS + 1, y + RADIUS + 1) for x, y in at.values()]
    return dict(zip(wanted, place(list(wanted.values()), boxes, segments, FRAME), strict=True))


def _name(arm: str) -> str:
    text = visible(arm)
    return text if len(text) <= NAME_LENGTH else text[: NAME_LENGTH - 1] + "\u2026"
