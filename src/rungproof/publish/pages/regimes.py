"""Which rungs of a ladder run in captured graphs, by what their servers stated."""

from collections.abc import Sequence
from dataclasses import dataclass

from rungproof.judge.regime import largest_captured_rung, max_captured, regime
from rungproof.records.summary import ArmInfo, SessionInfo, Summary

NONE = "none"


@dataclass(frozen=True, slots=True)
class RegimeRow:
    """One arm's ladder: largest captured batch [rows] and largest rung that fits in it, in words, and its rungs by regime."""

    arm: str
    max_captured: str
    draft_depth: int
    largest_rung: str
    captured: str
    not_captured: str
    unknown: str


def regimes(summary: Summary) -> list[RegimeRow]:
    """A row for each arm that has a ladder; two where its servers state different sizes."""
    made = []
    for arm in summary.arms:
        rungs = sorted({int(p.x) for p in summary.points if p.arm == arm.name and p.metric == "aggregate" and p.x})
        sizes = dict.fromkeys(max_captured(s.identity) for s in _servers(summary.sessions, arm))
        if rungs:
            made += [_row(arm, size, rungs) for size in sizes or {None: None}]
    return made


def _servers(sessions: Sequence[SessionInfo], arm: ArmInfo) -> list[SessionInfo]:
    """Servers of an arm that count: those in use, or all that became ready where none is."""
    mine = [s for s in sessions if s.arm == arm.name and s.status == "ready"]
    return [s for s in mine if s.current] or mine


def _row(arm: ArmInfo, size: int | None, rungs: Sequence[int]) -> RegimeRow:
    by = {
        name: [c for c in rungs if regime(size, arm.draft_depth, c) == name]
        for name in ("captured", "not captured", "unknown")
    }
    listed = [", ".join(f"c{c}" for c in found) or NONE for found in by.values()]
    said = "not stated" if size is None else str(size)
    largest = "not known" if size is None else f"c{largest_captured_rung(size, arm.draft_depth)}" if size else NONE
    return RegimeRow(arm.name, said, arm.draft_depth, largest, *listed)
