"""The figures of a page: each metric over its x as two pictures, a key and a table of the same numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rungproof.publish.details import figure
from rungproof.publish.pages.answers import Answers, answers_of
from rungproof.publish.pages.charts import Picture, Style, axis_of, interval_of, picture, styles
from rungproof.publish.pages.claims import Number, headline_point, number_of
from rungproof.publish.pages.text import anchor, metric_name
from rungproof.publish.passes import passes_of, rule_words
from rungproof.records.formats import Point
from rungproof.records.shown import shown, whole
from rungproof.records.summary import ArmInfo, Summary

ORDER = ("decode_rate", "aggregate")


@dataclass(frozen=True, slots=True)
class Cell:
    """One place of a figure's table. `number` only for a qualified point; otherwise the state and where it is told."""

    number: Number | None
    state: str
    count: str
    target: str
    spread: str
    passes: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric over its x."""

    key: str
    title: str
    metric: str
    unit: str
    x_name: str
    pictures: tuple[Picture, ...]
    looks: Mapping[str, Style]
    arms: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[Cell, ...], ...]], ...]
    whiskers: tuple[str, ...]
    answers: Answers
    rules: tuple[str, ...]


def arm_styles(summary: Summary) -> dict[str, Style]:
    """A look for each arm of the plan, then for each arm that only points name."""
    return styles(list(dict.fromkeys([arm.name for arm in summary.arms] + [point.arm for point in summary.points])))


def figures(summary: Summary) -> list[Figure]:
    """One figure for each workload, metric and unit that has points with an x; depth first, then ladders."""
    groups: dict[tuple[str, str, str], list[Point]] = {}
    for point in summary.points:
        if point.x is not None:
            groups.setdefault((point.workload, point.metric, point.unit), []).append(point)
    looks = arm_styles(summary)
    ordered = sorted(groups, key=lambda group: ORDER.index(group[1]) if group[1] in ORDER else len(ORDER))
    return [_figure(group, groups[group], looks, summary.arms) for group in ordered]


def others(summary: Summary) -> list[tuple[Point, Number]]:
    """Qualified numbers that stand in no figure and are not a strict headline."""
    told = {point.id for headline in summary.headlines if (point := headline_point(summary, headline.arm))}
    return [(p, number_of(p)) for p in summary.points if p.state == "qualified" and p.x is None and p.id not in told]


def told(summary: Summary, name: str) -> list[str]:
    """Every word that the points' records say under `name`, as who stamped the arrival times."""
    found = [p.detail.get(name, ()) for p in summary.points]
    return sorted({str(one) for words in found for one in (words if isinstance(words, (list, tuple)) else [words])})


def longest_wait(summary: Summary) -> str:
    """The largest share of any batch's time in which the client waited for a processor, in percent; "" where none is known."""
    shares = [share for p in summary.points if (share := figure(p.detail, "client_wait_share")) is not None]
    return f"{100 * max(shares):.2g}" if shares else ""


def _figure(
    group: tuple[str, str, str], points: Sequence[Point], looks: Mapping[str, Style], infos: Sequence[ArmInfo]
) -> Figure:
    workload, metric, unit = group
    axis = axis_of(points[0])
    usual = {"decode_rate": "depth", "aggregate": "ladder"}.get(metric, workload) == workload
    arms = tuple(arm for arm in looks if any(p.arm == arm for p in points))
    drawn = [picture(points, looks, log) for log in (True, False)]
    xs = sorted({p.x for p in points if p.x is not None})
    rows = []
    for x in xs:
        cells = tuple(tuple(_cell(p) for p in points if p.arm == arm and p.x == x) for arm in arms)
        rows.append((whole(x), cells))
    return Figure(
        key=anchor("fig", f"{workload}-{metric}-{unit}"),
        title=f"{metric_name(metric)} {axis.title}" + ("" if usual else f": {workload}"),
        metric=metric_name(metric),
        unit=unit,
        x_name=axis.x_name,
        pictures=tuple(p for p in drawn if p is not None),
        looks=looks,
        arms=arms,
        rows=tuple(rows),
        whiskers=_whiskers(points),
        answers=answers_of(infos, arms, points),
        rules=tuple(dict.fromkeys(words for p in points if (words := rule_words(p)))),
    )


def _cell(point: Point) -> Cell:
    count = f"{point.k}/{point.n}" if point.n else "not compared"
    spread = (
        f"{shown(point.low)} to {shown(point.high)}"
        if interval_of(point) and point.low is not None and point.high is not None
        else ""
    )
    passes = pass_words(point)
    if point.state == "qualified":
        return Cell(number_of(point), point.state, count, "", spread, passes)
    return Cell(None, point.state, count if point.n else "", anchor("not", point.id), "", passes)


def pass_words(point: Point) -> str:
    """Every pass of a rung with its aggregate and count, `1: 101.9 1/1; 2: 101.9 1/1 (shown)`; empty for other points."""
    made = []
    for row in passes_of(point):
        value = shown(row.value) if row.value is not None else "no value"
        count = f" {row.k}/{row.n}" if row.n else ""
        made.append(f"{row.number}: {value}{count}{' (shown)' if row.shown else ''}")
    return "; ".join(made)


def _whiskers(points: Sequence[Point]) -> tuple[str, ...]:
    """What the whiskers of the drawn points are, as their records say it."""
    kinds = [interval_of(p) for p in points if p.state in ("qualified", "withheld")]
    return tuple(dict.fromkeys(kind for kind in kinds if kind))
