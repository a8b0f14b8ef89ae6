"""Which record of an item is in use, where it was measured more than once."""

from collections.abc import Sequence
from typing import TypeVar

from rungproof.records.formats import Judged

Place = TypeVar("Place")


def pick(judged: Sequence[Judged]) -> Judged | None:
    """The record in use among those of one item, newest first: the newest accepted one, else the newest at all."""
    return next((j for j in judged if j.state == "accepted"), judged[0] if judged else None)


def in_use(records: Sequence[tuple[Place, Judged]]) -> list[tuple[Place, Judged]]:
    """One record an item, with where it lies; `records` holds those of all items, each item's newest first."""
    groups: dict[tuple[str, str, str, str], list[tuple[Place, Judged]]] = {}
    for place, judged in records:
        groups.setdefault((judged.arm, judged.replicate, judged.workload, judged.item), []).append((place, judged))
    return [next(pair for pair in group if pair[1] is pick([j for _, j in group])) for group in groups.values()]
