"""Where the labels of a chart go, so that none covers a mark, another label or (where it can be helped) a line."""

from collections.abc import Sequence
from dataclasses import dataclass

Segment = tuple[float, float, float, float]
CHAR_WIDTH = 0.56  # of the font size; a little wide for digits in the usual system fonts


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in the picture, y downwards."""

    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: "Box") -> float:
        """Shared area; 0 where they only touch."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.bottom, other.bottom) - max(self.top, other.top)
        return wide * high if wide > 0 and high > 0 else 0.0

    def inside(self, frame: "Box") -> bool:
        """Whether `frame` holds all of it."""
        return (
            self.left >= frame.left
            and self.right <= frame.right
            and self.top >= frame.top
            and self.bottom <= frame.bottom
        )

    def crossed_by(self, segment: Segment) -> bool:
        """Whether the straight line of `segment` passes through the rectangle (Liang-Barsky clipping)."""
        x1, y1, x2, y2 = segment
        enter, leave = 0.0, 1.0
        for delta, room in (
            (x1 - x2, x1 - self.left),
            (x2 - x1, self.right - x1),
            (y1 - y2, y1 - self.top),
            (y2 - y1, self.bottom - y1),
        ):
            if delta == 0:
                if room < 0:
                    return False
            elif delta < 0:
                enter = max(enter, room / delta)
            else:
                leave = min(leave, room / delta)
        return enter < leave


@dataclass(frozen=True, slots=True)
class Wanted:
    """A label that belongs to the mark at (x, y). `must`: it is drawn even where no place is free."""

    text: str
    x: float
    y: float
    size: float
    must: bool
    side: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    """A label as drawn: `anchor` is SVG's text-anchor, (x, y) the baseline."""

    text: str
    x: float
    y: float
    anchor: str


def place(wanted: Sequence[Wanted], taken: Sequence[Box], lines: Sequence[Segment], frame: Box) -> list[Placed | None]:
    """One place for each wanted label, in the order given (first come, first served); None where an optional one has no room.

    `taken` are the boxes of the marks. An optional label never crosses a line: its halo would open a gap there, and a gap
    in a line means something on these pages. One that must be drawn crosses only where no clear place is free.
    """
    boxes = list(taken)
    placed: list[Placed | None] = []
    for label in wanted:
        best: tuple[float, Placed, Box] | None = None
        for rank, (spot, box) in enumerate(_spots(label)):
            covered = sum(box.overlap(other) for other in boxes)
            crossings = sum(box.crossed_by(line) for line in lines)
            cost = covered * 50 + crossings * 40 + rank + (0 if box.inside(frame) else 100_000)
            if best is None or cost < best[0]:
                best = (cost, spot, box)
            if cost == rank:
                break
        clear = best is not None and best[0] < 40 and not any(best[2].overlap(other) > 0 for other in boxes)
        if best is None or not (label.must or clear):
            placed.append(None)
            continue
        boxes.append(best[2])
        placed.append(best[1])
    return placed


def _spots(label: Wanted) -> list[tuple[Placed, Box]]:
    """Candidate places, best first: above and below for values, beside for names. Only what must be drawn may stand far off."""
    wide, gap = len(label.text) * label.size * CHAR_WIDTH, 9.0
    high = label.size
    beside = [("start", gap, dy) for dy in (0.0, -14.0, 14.0, -28.0, 28.0, -42.0, 42.0)]
    over = [("middle", 0.0, dy) for dy in (-gap - high / 2, gap + high / 2 + 2)]
    reach = (-10.0, 10.0, 0.0, -24.0, 24.0, -34.0, 34.0) if label.must else (-10.0, 10.0, 0.0)
    corners = [(side, dx, dy) for dy in reach for side, dx in (("end", -gap), ("start", gap))]
    far = [("middle", 0.0, dy) for dy in (-30.0, 32.0, -44.0, 46.0)] if label.must else []
    order = beside + over + far if label.side else over + corners + far
    spots = []
    for anchor, dx, dy in order:
        x, middle = label.x + dx, label.y + dy
        left = {"start": x, "middle": x - wide / 2, "end": x - wide}[anchor]
        box = Box(left, middle - high / 2, left + wide, middle + high / 2)
        spots.append((Placed(label.text, x, middle + label.size * 0.35, anchor), box))
    return spots
