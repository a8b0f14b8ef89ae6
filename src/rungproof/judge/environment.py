"""Two environments compared, key by key; and what a session's samples say. Files come in as values: nothing here does I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from rungproof.judge.stats import median
from rungproof.records.codec import canonical
from rungproof.records.environment import Energy, Fact, Kind, Sample, Sampled
from rungproof.records.formats import Reason

State = Literal["equal", "within", "differs", "missing", "unknown", "told"]
BAD = ("differs", "missing")
STRICTER: tuple[Kind, ...] = ("equal", "tolerance", "informative")
UNITS = ("bytes", "bits", "events", "processes")
AGREE = 0.10  # share by which the energy counter and the samples of power may differ


@dataclass(frozen=True, slots=True)
class Compared:
    """One key of two environments. missing: known on one side alone; unknown: on neither; told: informative."""

    key: str
    kind: Kind
    state: State
    a: Any
    b: Any


def compare(a: Mapping[str, Fact], b: Mapping[str, Fact]) -> tuple[Compared, ...]:
    """Every key of either side, sorted. Where the two sides give a key different kinds the stricter one counts."""
    made: list[Compared] = []
    for key in sorted({*a, *b}):
        one, two = a.get(key), b.get(key)
        kind = min((f.kind for f in (one, two) if f), key=STRICTER.index)
        tolerance = min((f.tolerance for f in (one, two) if f and f.tolerance is not None), default=0.0)
        left, right = (one.value if one else None), (two.value if two else None)
        if isinstance(left, dict) and isinstance(right, dict):
            made += [
                Compared(f"{key}.{name}", kind, _state(kind, left.get(name), right.get(name), tolerance), left.get(name), right.get(name))
                for name in sorted({*left, *right})
            ]  # fmt: skip
        else:
            made.append(Compared(key, kind, _state(kind, left, right, tolerance), left, right))
    return tuple(made)


def same(found: Sequence[Compared]) -> bool:
    """True if nothing differs or is missing, and at least one key was compared: nothing to compare is never a pass."""
    return not any(one.state in BAD for one in found) and any(one.state in ("equal", "within") for one in found)


def changed(before: Mapping[str, Fact], after: Mapping[str, Fact]) -> tuple[Reason, ...]:
    """What had to stay equal and was not so any more at the end of a session; what could not be read again counts as changed."""
    return tuple(
        Reason("environment changed", short(one.b), short(one.a), one.key)
        for one in compare(before, after)
        if one.kind == "equal" and one.state in BAD
    )


def short(value: Any) -> str:
    """A value in one bounded line."""
    if value is None:
        return "nothing"
    return (value if isinstance(value, str) else canonical(value).decode().strip())[:200]


def _state(kind: Kind, a: Any, b: Any, tolerance: float) -> State:
    if kind == "informative":
        return "told"
    if a is None or b is None:
        return "unknown" if a is None and b is None else "missing"
    if canonical(a) == canonical(b):
        return "equal"
    numbers = [x for x in (a, b) if isinstance(x, (int, float)) and not isinstance(x, bool)]
    if kind == "tolerance" and len(numbers) == 2 and abs(a - b) <= tolerance * max(abs(a), abs(b)):
        return "within"
    return "differs"


def sampled(samples: Sequence[Sample]) -> dict[str, Sampled]:
    """Least, middle and greatest value of each figure; of counters (throttling, processor time) what they grew by a sample."""
    columns: dict[str, list[float]] = {}
    for sample in samples:
        for key, value in sample.values.items():
            if not counter(key):
                columns.setdefault(key, []).append(value)
    for earlier, later in pairwise(samples):
        for key, value in _steps(earlier.values, later.values).items():
            columns.setdefault(key, []).append(value)
    return {
        key: Sampled(len(column), min(column), median(column), max(column), unit(key))
        for key, column in sorted(columns.items())
    }


def counter(key: str) -> bool:
    """Whether a figure only ever grows, so that its growth counts and not its height."""
    return key.endswith(("_uj", "_mj", "_count", "_ticks"))


def unit(key: str) -> str:
    """Unit of a figure, the last part of its name where that is one; "" for a flag."""
    last = key.rpartition("_")[2]
    return {"c": "°C", "percent": "%", "w": "W", "mhz": "MHz", "kb": "kB"}.get(last, last if last in UNITS else "")


def _steps(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What grew between two samples. A counter that went back says nothing."""
    grown = {k: after[k] - before[k] for k in before if k in after and counter(k) and after[k] >= before[k]}
    made = {key.removesuffix("_count") + "_events": value for key, value in grown.items() if key.endswith("_count")}
    parts = {name: grown.get(f"cpu.{name}_ticks") for name in ("busy", "idle", "stolen")}
    known = {name: value for name, value in parts.items() if value is not None}
    if len(known) == len(parts) and (total := sum(known.values())) > 0:
        made |= {f"cpu.{name}_percent": 100 * known[name] / total for name in ("busy", "stolen")}
    return made


def energy(samples: Sequence[Sample]) -> dict[str, Energy]:
    """Energy of each device that has a counter, keyed by the device (what stands before `.energy_`) and its part, if it has some.

    A counter that goes back (a driver that was loaded again, a register that ran over) gives no figure at all: how much
    was lost at the jump cannot be known, and the difference of the ends would be a small number that looks right.
    """
    made = {}
    for key in sorted({k for s in samples for k in s.values if ".energy_" in k and counter(k)}):
        device, _, rest = key.partition(".energy_")
        part = rest.rpartition("_")[0]
        scale = 1e-6 if key.endswith("_uj") else 1e-3
        seen = [(s.at_ns, s.values[key] * scale) for s in samples if key in s.values]
        checked = None if part else _from_power(samples, f"{device}.power_w")
        made[f"{device}.{part}" if part else device] = _energy(seen, checked, key)
    return made


def _energy(seen: Sequence[tuple[int, float]], checked: float | None, source: str) -> Energy:
    seconds = (seen[-1][0] - seen[0][0]) / 1e9
    if len(seen) < 2 or seconds <= 0:
        return Energy(None, 0.0, checked, source, "fewer than two samples")
    back = next((i for i in range(1, len(seen)) if seen[i][1] < seen[i - 1][1]), None)
    if back is not None:
        return Energy(
            None, seconds, checked, source, f"the counter went back from {seen[back - 1][1]:g} to {seen[back][1]:g} J"
        )
    joules = seen[-1][1] - seen[0][1]
    if joules == 0:
        return Energy(None, seconds, checked, source, "the counter stood still")
    if checked is not None and abs(joules - checked) > AGREE * max(joules, checked):
        return Energy(joules, seconds, checked, source, f"samples of power give {checked:.1f} J")
    return Energy(joules, seconds, checked, source, "" if checked is not None else "no second reader")


def _from_power(samples: Sequence[Sample], key: str) -> float | None:
    """Trapezoids over the samples of power [J]; None with fewer than two."""
    seen = [(s.at_ns, s.values[key]) for s in samples if key in s.values]
    if len(seen) < 2:
        return None
    return sum((b[0] - a[0]) / 1e9 * (a[1] + b[1]) / 2 for a, b in pairwise(seen))
