"""What stands behind a campaign's numbers and is shown beside them: medians of the strict suite, drafts, states, the client's fineness.

Whatever a page shows is computed here, so that it stands in the summary and can be computed again by whoever checks.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from typing import get_args

from rungproof.judge.stats import median
from rungproof.records.environment import Environment
from rungproof.records.formats import ClientCheck, Point, PointState, Verdict
from rungproof.records.summary import ClassMedian, Profile, SeatMedians, StrictRow, View

SOUND = ("qualified", "withheld")


def tally(points: Iterable[Point]) -> dict[str, int]:
    """How many points are in each state, every state among them."""
    counts = Counter(point.state for point in points)
    return {state: counts[state] for state in get_args(PointState)}


def seat_medians(rows: Sequence[StrictRow]) -> tuple[SeatMedians, ...]:
    """Medians of each server's strict suite; a class with a prompt that has no rate has none, since a median of the rest misleads."""
    seats: dict[tuple[str, str], list[StrictRow]] = {}
    for row in rows:
        seats.setdefault((row.arm, row.replicate), []).append(row)
    classes = tuple(dict.fromkeys(row.prompt_class for row in rows))
    return tuple(_seat(*seat, own, classes) for seat, own in seats.items())


def _seat(arm: str, replicate: str, rows: Sequence[StrictRow], classes: Sequence[str]) -> SeatMedians:
    medians = tuple(_class_median(name, [r.rate for r in rows if r.prompt_class == name]) for name in classes)
    rates = [one.rate for one in medians]
    return SeatMedians(
        arm, replicate, medians, median([r for r in rates if r is not None]) if rates and None not in rates else None,
        _middle(r.ttft_ms for r in rows), _middle(r.step_ms for r in rows), _middle(r.tokens_per_step for r in rows),
        _middle(float(r.tokens) for r in rows),
    )  # fmt: skip


def _class_median(name: str, rates: Sequence[float | None]) -> ClassMedian:
    known = [rate for rate in rates if rate is not None]
    if not known or len(known) < len(rates):
        return ClassMedian(name, None, None, None, len(rates))
    return ClassMedian(name, median(known), min(known), max(known), len(rates))


def _middle(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def profiles(points: Sequence[Point]) -> tuple[Profile, ...]:
    """Drafts and variety of the answers over the sound points of each arm and workload that have a place on an axis."""
    groups: dict[tuple[str, str, str], list[Point]] = {}
    for point in points:
        if point.x is not None and point.state in SOUND:
            groups.setdefault((point.arm, point.workload, point.metric), []).append(point)
    return tuple(_profile(*key, sorted(own, key=lambda p: p.x or 0.0)) for key, own in groups.items())


def _profile(arm: str, workload: str, metric: str, points: Sequence[Point]) -> Profile:
    drafts = [(p.x or 0.0, number(p.detail, "draft_tokens"), number(p.detail, "accepted_tokens")) for p in points]
    known = [(x, drafted, accepted) for x, drafted, accepted in drafts if drafted is not None and accepted is not None]
    drafted, accepted = fsum(d for _, d, _ in known), fsum(a for _, _, a in known)
    distinct = [int(v) for p in points if (v := number(p.detail, "fewest_distinct_ids")) is not None]
    return Profile(
        arm, workload, metric, drafted if known else None, accepted if known else None,
        accepted / drafted if drafted else None, tuple(x for x, _, a in known if not a), min(distinct, default=None),
    )  # fmt: skip


def views(verdicts: Iterable[Verdict]) -> tuple[View, ...]:
    """The view without an oracle of every gate that has one."""
    return tuple(
        View(
            v.gate, a.prompts, len(a.bistable), len(a.unstable), len(a.oracle_minority), len(a.copies),
            sum(group.answers > 1 for group in a.copies), len(a.collisions),
        )
        for v in verdicts
        if (a := v.agreement) is not None
    )  # fmt: skip


def longest_wait(points: Iterable[Point]) -> float | None:
    """The largest share of any batch's time in which the client waited for a processor, 0 to 1; None where none is known."""
    return max((v for p in points if (v := number(p.detail, "client_wait_share")) is not None), default=None)


def finer(session: str, check: ClientCheck | None, points: Iterable[Point]) -> float | None:
    """The shortest step time measured on a server over the p99 lag of the client's stamps there; None where one is not known."""
    steps = [v for p in points if p.session == session and (v := number(p.detail, "step_ms_median")) is not None]
    return min(steps) / check.lag_p99_ms if steps and check and check.lag_p99_ms else None


def watts(env: Environment | None) -> dict[str, float | None]:
    """Mean power [W] of each device with an energy counter over a session; None where the counter is not sound."""
    energy = env.energy if env else {}
    return {
        name: one.joules / one.seconds if one.joules is not None and one.seconds > 0 else None
        for name, one in sorted(energy.items())
    }


def number(detail: Mapping[str, object], name: str) -> float | None:
    """A number of a record's open detail; None for anything else that stands there."""
    value = detail.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
