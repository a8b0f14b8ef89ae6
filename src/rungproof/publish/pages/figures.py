"""The figures of a page: each metric over its x as two pictures and a key, and a table of the same numbers for each workload."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from rungproof.publish.details import figure
from rungproof.publish.pages.answers import Answers, answers_of
from rungproof.publish.pages.charts import (
    Both,
    Picture,
    Style,
    axis_of,
    both,
    interval_of,
    kind_of,
    own_id,
    picture,
    styles,
)
from rungproof.publish.pages.claimed import Claims, pointer
from rungproof.publish.pages.claims import headline_point
from rungproof.publish.pages.text import anchor, metric_name
from rungproof.publish.passes import passes_of, rule_words
from rungproof.records.formats import Point
from rungproof.records.shown import whole
from rungproof.records.summary import Summary

ORDER = ("decode_rate", "aggregate")
SOUND = ("qualified", "withheld")


@dataclass(frozen=True, slots=True)
class Beside:
    """A figure of a point's detail that has a picture of its own: where it lies, what it is, which ends its whisker has; `main`: kinds of workload
    of which it stands on the campaign's own page, not on that of every number."""

    name: str
    metric: str
    unit: str
    main: tuple[str, ...]
    low: str = ""
    high: str = ""
    interval: str = ""


BESIDE = (
    Beside("per_user", "per_user", "tok/s", ()),
    Beside(
        "ttft_ms_median", "ttft", "ms", ("depth",), "ttft_ms_low", "ttft_ms_high", "least and greatest of the requests"
    ),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One place of a figure's table. `value`: only of a qualified point; otherwise the state, and where it is told."""

    value: Markup | None
    state: str
    count: Markup
    target: str
    more: tuple[Markup, ...]


@dataclass(frozen=True, slots=True)
class Key:
    """An arm in the legend, with the fewest and most outputs compared behind a mark."""

    arm: str
    style: Style
    n: Markup


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric over its x. `rows`: empty where the table of another figure holds its numbers; `points`: as drawn."""

    key: str
    file: str
    title: str
    metric: str
    unit: str
    x_name: str
    pictures: tuple[Picture, ...]
    keys: tuple[Key, ...]
    rows: tuple[tuple[str, tuple[tuple[Cell, ...], ...]], ...]
    whiskers: tuple[str, ...]
    answers: Answers
    rules: tuple[str, ...]
    points: tuple[tuple[Point, str], ...]
    main: bool

    @property
    def chart(self) -> Both | None:
        """Both pictures as one that can be switched; None where there is none."""
        return both(self.pictures)

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms, in the order of the key."""
        return tuple(key.arm for key in self.keys)


def arm_styles(summary: Summary) -> dict[str, Style]:
    """A look for each arm of the plan, then for each arm that only points name."""
    return styles(list(dict.fromkeys([arm.name for arm in summary.arms] + [point.arm for point in summary.points])))


def figures(summary: Summary, claims: Claims) -> list[Figure]:
    """For each workload, metric and unit that has points with an x: its own figure, then those of what stands beside it."""
    groups: dict[tuple[str, str, str], list[Point]] = {}
    for point in summary.points:
        if point.x is not None:
            groups.setdefault((point.workload, point.metric, point.unit), []).append(point)
    ordered = sorted(groups, key=lambda group: ORDER.index(group[1]) if group[1] in ORDER else len(ORDER))
    made: list[Figure] = []
    for group in ordered:
        made.append(_figure(summary, claims, groups[group], own_id, True, True))
        for beside in BESIDE:
            if shadows := _shadows(groups[group], beside):
                main = kind_of(shadows[0]) in beside.main and not any(
                    f.main and f.metric == metric_name(beside.metric) for f in made
                )
                made.append(_figure(summary, claims, shadows, _claim_below(claims, beside.name), False, main))
    return made


def _shadows(points: Sequence[Point], beside: Beside) -> list[Point]:
    """The points with a figure of their detail in the place of their value; none where no sound point has it."""
    if not any(p.state in SOUND and figure(p.detail, beside.name) is not None for p in points):
        return []
    return [
        replace(
            p, value=figure(p.detail, beside.name), low=figure(p.detail, beside.low), high=figure(p.detail, beside.high),
            metric=beside.metric, unit=beside.unit, detail={"interval": beside.interval, "kind": kind_of(p)},
        )
        for p in points
    ]  # fmt: skip


def _claim_below(claims: Claims, name: str) -> Callable[[Point], str]:
    return lambda point: pointer(claims.path(point, "detail", name))


def others(summary: Summary, claims: Claims) -> list[tuple[Point, Markup, Markup]]:
    """Qualified numbers that stand in no figure and are not a strict headline: point, value, k of n."""
    told = {point.id for headline in summary.headlines if (point := headline_point(summary, headline.arm))}
    return [
        (p, claims.linked(p), claims.counted(*claims.path(p)))
        for p in summary.points
        if p.state == "qualified" and p.x is None and p.id not in told
    ]


def told(summary: Summary, name: str) -> list[str]:
    """Every word that the points' records say under `name`, as who stamped the arrival times."""
    found = [p.detail.get(name, ()) for p in summary.points]
    return sorted({str(one) for words in found for one in (words if isinstance(words, (list, tuple)) else [words])})


def _figure(
    summary: Summary, claims: Claims, points: Sequence[Point], claim_of: Callable[[Point], str], table: bool, main: bool
) -> Figure:
    first = points[0]
    looks, axis = arm_styles(summary), axis_of(first)
    arms = tuple(arm for arm in looks if any(p.arm == arm for p in points))
    drawn = [picture(points, looks, log, claim_of) for log in (True, False)]
    name = f"{first.workload}-{first.metric}-{first.unit}"
    return Figure(
        key=anchor("fig", name),
        file=anchor("chart", f"{first.workload}-{first.metric}").replace("/", "-"),
        title=f"{metric_name(first.metric)} {axis.title}"
        + ("" if kind_of(first) == first.workload else f": {first.workload}"),
        metric=metric_name(first.metric),
        unit=first.unit,
        x_name=axis.x_name,
        pictures=tuple(p for p in drawn if p is not None),
        keys=tuple(Key(arm, looks[arm], _compared(claims, [p for p in points if p.arm == arm])) for arm in arms),
        rows=_rows(claims, points, arms) if table else (),
        whiskers=_whiskers(points),
        answers=answers_of(summary, claims, arms, first) if table else Answers((), ()),
        rules=tuple(dict.fromkeys(words for p in points if (words := rule_words(p)))),
        points=tuple((p, claim_of(p)) for p in points),
        main=main,
    )


def _compared(claims: Claims, points: Sequence[Point]) -> Markup:
    """How many outputs were compared behind each mark of an arm: one number, or the fewest and the most."""
    sound = sorted((p for p in points if p.state in SOUND), key=lambda p: p.n)
    if not sound:
        return Markup("none drawn")
    ends = [claims.of(p, "n") for p in (sound[0], sound[-1])]
    return Markup("n = {}").format(ends[0]) if sound[0].n == sound[-1].n else Markup("n = {} to {}").format(*ends)


def _rows(
    claims: Claims, points: Sequence[Point], arms: Sequence[str]
) -> tuple[tuple[str, tuple[tuple[Cell, ...], ...]], ...]:
    xs = sorted({p.x for p in points if p.x is not None})
    return tuple(
        (whole(x), tuple(tuple(_cell(claims, p) for p in points if p.arm == arm and p.x == x) for arm in arms))
        for x in xs
    )


def _cell(claims: Claims, point: Point) -> Cell:
    path = claims.path(point)
    count = claims.counted(*path, between="/") if point.n or point.state == "qualified" else Markup("")
    more = [words for words in (_spread(claims, point), pass_words(claims, point), *_beside(claims, point)) if words]
    qualified = point.state == "qualified"
    return Cell(
        claims.linked(point) if qualified else None, point.state, count, "" if qualified else anchor("not", point.id),
        tuple(more) if point.state in SOUND else tuple(more[1:]),
    )  # fmt: skip


def _spread(claims: Claims, point: Point) -> Markup:
    if not interval_of(point) or passes_of(point):  # the passes of a rung stand there themselves
        return Markup("")
    return Markup("{} to {}").format(claims.of(point, "low"), claims.of(point, "high"))


def _beside(claims: Claims, point: Point) -> list[Markup]:
    """A user's share of a sound rung, as far as its record has it."""
    if point.state not in SOUND or figure(point.detail, "per_user") is None:
        return []
    return [Markup("per user {}").format(claims.of(point, "detail", "per_user"))]


def pass_words(claims: Claims, point: Point) -> Markup:
    """Every pass of a rung with its aggregate and count, `1: 101.9 1/1; 2: 101.9 1/1 (shown)`; empty for other points."""
    made = []
    for index, row in enumerate(passes_of(point)):
        value = claims.of(point, "detail", "passes", index) if row.value is not None else Markup("no value")
        count = Markup(" ") + claims.pair(*claims.path(point, "detail", "passes_exact", index)) if row.n else ""
        made.append(Markup("{}: {}{}{}").format(row.number, value, count, " (shown)" if row.shown else ""))
    return Markup("; ").join(made)


def _whiskers(points: Sequence[Point]) -> tuple[str, ...]:
    """What the whiskers of the drawn points are, as their records say it."""
    kinds = [interval_of(p) for p in points if p.state in SOUND]
    return tuple(dict.fromkeys(kind for kind in kinds if kind))
