"""Geometry of a chart, without any drawing: scales, ticks, marks and lines in the units of the picture."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

SHAPES = ("circle", "square", "triangle", "diamond", "wedge", "plus")
DASHES = ("", "7 4", "2 3", "10 3 2 3", "14 4", "4 2 1 2")


@dataclass(frozen=True, slots=True)
class Scale:
    """A straight or base-2 logarithmic map of `low..high` in data onto `start..end` in the picture."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Position of `value`. Raises ValueError for zero or less on a logarithmic scale."""
        low, high = (math.log2(self.low), math.log2(self.high)) if self.log else (self.low, self.high)
        at = math.log2(value) if self.log else value
        return self.start + (at - low) / (high - low) * (self.end - self.start)


def nice_step(span: float, most: int) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that divides `span` into at most `most` steps."""
    if span <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(span / most))
    for factor in (1.0, 2.0, 2.5, 5.0, 10.0, 20.0):
        if span / (factor * power) <= most + 1e-9:
            return factor * power
    return 50.0 * power


def linear_ticks(low: float, high: float, most: int = 6) -> tuple[float, ...]:
    """Round values from at or below `low` to at or above `high`; zero is always one of them."""
    low, high = min(low, 0.0), max(high, 0.0)
    step = nice_step(high - low, most)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(index * step for index in range(first, max(last, first + 1) + 1))


def power_ticks(low: float, high: float) -> tuple[float, ...]:
    """The powers of two from at or below `low` to at or above `high`, both greater than zero; at least two of them."""
    first, last = math.floor(math.log2(low) + 1e-9), math.ceil(math.log2(high) - 1e-9)
    return tuple(2.0**power for power in range(first, max(last, first + 1) + 1))


def short(value: float) -> str:
    """A coordinate with one decimal at most."""
    text = f"{value:.1f}"
    return text.removesuffix(".0") if text != "-0.0" else "0"


def polyline(points: Sequence[tuple[float, float]]) -> str:
    """Path data through all `points`."""
    return "M" + "L".join(f"{short(x)} {short(y)}" for x, y in points)


def mark(shape: str, x: float, y: float, r: float) -> str:
    """Path data of a closed mark of `shape` about (x, y); all shapes cover about the same area."""
    if shape == "circle":
        s = short(r)
        return f"M{short(x - r)} {short(y)}a{s} {s} 0 1 0 {short(2 * r)} 0a{s} {s} 0 1 0 {short(-2 * r)} 0z"
    corners = {
        "square": ((-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)),
        "triangle": ((0.0, -1.2), (1.15, 0.85), (-1.15, 0.85)),
        "diamond": ((0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)),
        "wedge": ((0.0, 1.2), (1.15, -0.85), (-1.15, -0.85)),
        "plus": (
            *((-0.42, -1.2), (0.42, -1.2), (0.42, -0.42), (1.2, -0.42), (1.2, 0.42), (0.42, 0.42)),
            *((0.42, 1.2), (-0.42, 1.2), (-0.42, 0.42), (-1.2, 0.42), (-1.2, -0.42), (-0.42, -0.42)),
        ),
    }[shape]
    return polyline([(x + dx * r, y + dy * r) for dx, dy in corners]) + "z"
