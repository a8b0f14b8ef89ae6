"""What a check found: how much it compared, what differs, what it could not look at. A check that compared nothing fails."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Level = Literal["L2", "L3", "L4"]
SHOWN = 200  # differences that are kept a level; more are only counted

# A difference under one of these words is one of identity: a count, a verdict or a state that follows from tokens, no rate.
IDENTITY = frozenset(
    (
        "k", "n", "sites_k", "sites_n", "bound", "repeats_bound", "passes", "passes_exact", "divergences", "agreement",
        "minority_share", "state", "states", "reasons", "stops", "claim", "lossless_claim", "identical", "unjudged",
    )
)  # fmt: skip


@dataclass
class Found:
    """Findings of one or more checks. counts: what was compared, by kind; each kind must have been counted at least once to pass."""

    counts: dict[str, int] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)
    failures: dict[str, list[str]] = field(default_factory=lambda: {"L2": [], "L3": [], "L4": []})
    notes: list[str] = field(default_factory=list)
    more: dict[str, int] = field(default_factory=lambda: {"L2": 0, "L3": 0, "L4": 0})

    def need(self, level: Level, *kinds: str) -> None:
        """Kinds of which at least one has to be compared for this level to pass."""
        for kind in kinds:
            self.counts.setdefault(kind, 0)
            self.levels[kind] = level

    def count(self, kind: str, n: int = 1) -> None:
        """That `n` more of this kind were compared."""
        self.counts[kind] = self.counts.get(kind, 0) + n

    def close(self) -> None:
        """A kind that was needed and never compared is a failure of its level."""
        for kind, level in self.levels.items():
            if not self.counts[kind]:
                self.fail(level, f"differs: no {kind} to compare")  # type: ignore[arg-type]

    def facts(self, level: str) -> list[str]:
        """What was compared for a level, and what could not be looked at."""
        made = [f"{n} {kind}" for kind, n in self.counts.items() if self.levels.get(kind, "L4") == level]
        return made + (self.notes if level == "L4" else [])

    def fail(self, level: Level, text: str) -> None:
        """One thing that is not as it must be."""
        if len(self.failures[level]) < SHOWN:
            self.failures[level].append(text)
        else:
            self.more[level] += 1

    def note(self, text: str) -> None:
        """What was not looked at, and why."""
        if text not in self.notes:
            self.notes.append(text)


def differences(said: Any, again: Any, place: str = "") -> list[tuple[str, str]]:
    """Where two plain values differ: (path, words), at most one a leaf and at most 50 in all."""
    found: list[tuple[str, str]] = []
    _walk(said, again, place, found)
    return found


def level_of(path: str) -> Level:
    """Whether a difference at this path is one of numbers or of identity."""
    return "L3" if IDENTITY & {part.partition("[")[0] for part in path.split("/")} else "L2"


def _walk(said: Any, again: Any, place: str, found: list[tuple[str, str]]) -> None:
    if len(found) >= 50:
        return
    if isinstance(said, Mapping) and isinstance(again, Mapping):
        for key in sorted({*said, *again}, key=str):
            if key not in said or key not in again:
                found.append((f"{place}/{key}", f"{'missing' if key not in said else 'not in the recomputed record'}"))
            else:
                _walk(said[key], again[key], f"{place}/{key}", found)
    elif _listed(said) and _listed(again):
        if len(said) != len(again):
            found.append((place, f"{len(said)} entries, recomputed {len(again)}"))
            return
        for i, (one, two) in enumerate(zip(said, again, strict=True)):
            _walk(one, two, f"{place}[{_name(two, i)}]", found)
    elif said != again or type(said) is not type(again):
        found.append((place, f"says {said!r:.80}, recomputed {again!r:.80}"))


def _listed(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _name(value: Any, place: int) -> str:
    """What an entry is called in a message: its own name where it has one."""
    if isinstance(value, Mapping):
        named = (value.get(key) for key in ("id", "gate", "session", "key", "arm"))
        return next((str(name) for name in named if isinstance(name, str)), str(place))
    return str(place)
