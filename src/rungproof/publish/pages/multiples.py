"""The strict suite by class: a small picture for each class of prompts, all on one vertical scale that begins at zero."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from rungproof.publish.pages.charts import Style
from rungproof.publish.pages.claimed import Claims, pointer
from rungproof.publish.pages.geometry import Scale, linear_ticks, mark, short
from rungproof.publish.pages.text import evidence_link
from rungproof.records.shown import shown, whole
from rungproof.records.summary import ClassMedian, SeatMedians, Summary

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RADIUS = 220.0, 170.0, 34.0, 14.0, 150.0, 4.5


@dataclass(frozen=True, slots=True)
class SeatMark:
    """One server's median of a class. `label`: identical/compared where it is not qualified, else empty."""

    style: Style
    filled: bool
    path: str
    whisker: str
    x: float
    y: float
    label: str
    sentence: str
    href: str
    value: float
    claim: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One class: how many prompts it has, its marks, and the ticks that all panels share. `lacking`: servers with a prompt that has no rate."""

    name: str
    n: Markup
    y_ticks: tuple[tuple[str, str], ...]
    marks: tuple[SeatMark, ...]
    lacking: tuple[str, ...]


def panels(summary: Summary, claims: Claims, looks: Mapping[str, Style]) -> list[Panel]:
    """A panel for each class in the order of the suite; none where no class has a median."""
    tops = [v for seat in summary.medians for one in seat.classes for v in (one.rate, one.high) if v is not None]
    if not tops:
        return []
    ticks = linear_ticks(0.0, max(tops), 4)
    ys = Scale(0.0, ticks[-1], BOTTOM, TOP)
    names = [one.prompt_class for one in summary.medians[0].classes]
    shown_ticks = tuple((short(ys(tick)), whole(tick)) for tick in ticks)
    return [
        _panel(summary, looks, ys, shown_ticks, index, name, claims.at("medians", 0, "classes", index, "prompts"))
        for index, name in enumerate(names)
    ]


def _panel(
    summary: Summary,
    looks: Mapping[str, Style],
    ys: Scale,
    ticks: tuple[tuple[str, str], ...],
    index: int,
    name: str,
    n: Markup,
) -> Panel:
    columns = _columns(summary.medians)
    marks, lacking = [], []
    for place, seat in enumerate(summary.medians):
        one = seat.classes[index]
        if one.rate is None:
            lacking.append(f"{seat.arm}.{seat.replicate}")
            continue
        claim = pointer(("medians", place, "classes", index, "rate"))
        marks.append(_mark(summary, looks[seat.arm], seat, one, columns[place], ys, claim))
    return Panel(name, n, ticks, tuple(marks), tuple(lacking))


def _columns(seats: Sequence[SeatMedians]) -> list[float]:
    """Horizontal places: a column an arm, its servers side by side in it."""
    arms = list(dict.fromkeys(seat.arm for seat in seats))
    wide = (WIDTH - LEFT - 12) / len(arms)
    made = []
    for seat in seats:
        own = [other.replicate for other in seats if other.arm == seat.arm]
        offset = (own.index(seat.replicate) + 1) / (len(own) + 1)
        made.append(LEFT + 6 + wide * (arms.index(seat.arm) + offset))
    return made


def _mark(
    summary: Summary, look: Style, seat: SeatMedians, one: ClassMedian, x: float, ys: Scale, claim: str
) -> SeatMark:
    headline = next((h for h in summary.headlines if h.arm == seat.arm), None)
    filled = headline is not None and headline.state == "qualified"
    value = one.rate or 0.0
    whisker = ""
    if one.low is not None and one.high is not None and one.low != one.high:
        whisker = f"M{short(x - 3)} {short(ys(one.low))}h6m-3 0V{short(ys(one.high))}m-3 0h6"
    state = headline.state if headline else "withheld"
    said = "qualified" if filled else f"{state}, not a claim"
    rows = (r for r in summary.history if (r.arm, r.replicate, r.current) == (seat.arm, seat.replicate, True))
    raw = next(
        (link for r in rows if r.workload == _workload(summary, seat.arm) and (link := evidence_link(r.raw))), None
    )
    return SeatMark(
        look, filled, mark(look.shape, x, ys(value), RADIUS), whisker, x, ys(value),
        f"{headline.k}/{headline.n}" if headline and not filled else "",
        f"{seat.arm}, server {seat.replicate}, {one.prompt_class}: {shown(value)} tok/s, {said}", raw or "#strict", value, claim,
    )  # fmt: skip


def _workload(summary: Summary, arm: str) -> str:
    """The workload of an arm's strict suite."""
    found = (p.workload for p in summary.points if p.arm == arm and p.metric == "decode_rate" and p.x is None)
    return next(found, "strict")
