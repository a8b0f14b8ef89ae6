"""Figures out of a point's detail, which is an open record: anything that is not the number looked for is None."""

from collections.abc import Mapping


def figure(detail: Mapping[str, object], name: str) -> float | None:
    """A number of a record's detail; None for anything else that stands there."""
    value = detail.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def shares(detail: Mapping[str, object]) -> list[float] | None:
    """Acceptance by draft position, position 0 first; None where a position is not known."""
    found = detail.get("acceptance_by_position")
    if not isinstance(found, (list, tuple)) or not found:
        return None
    numbers = [float(v) for v in found if isinstance(v, (int, float)) and not isinstance(v, bool)]
    return numbers if len(numbers) == len(found) else None
