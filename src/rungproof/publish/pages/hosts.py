"""What the servers ran on: facts with their kind and source, what was sampled, energy."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rungproof.publish.pages.facts import VALUE_LIMIT, flat
from rungproof.publish.pages.text import shortened
from rungproof.records.codec import digest
from rungproof.records.environment import Fact
from rungproof.records.shown import shown
from rungproof.records.summary import SessionInfo

ROW_LIMIT = 150  # rows of each of the two lists
LONG = 24  # a list of names with more entries than this stands as its number and digest
KINDS = {"equal": "must be equal", "tolerance": "within a tolerance", "informative": "told only"}


@dataclass(frozen=True, slots=True)
class HostFact:
    """One key with one value. kind, source: "" where no env.json says; sessions: empty where all have this value."""

    key: str
    value: str
    kind: str
    source: str
    sessions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SampledRow:
    """One sampled figure: per session its middle value with the range in which it lay."""

    key: str
    unit: str
    sessions: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class EnergyRow:
    """Energy of one device in one session, by its own counter."""

    session: str
    device: str
    joules: str
    watts: str
    checked: str
    doubt: str


def environment(sessions: Sequence[SessionInfo]) -> tuple[list[HostFact], list[HostFact], int]:
    """(equal everywhere, different between sessions, how many were left off)."""
    values: dict[str, dict[str, list[str]]] = {}
    about: dict[str, tuple[str, str]] = {}
    for session in sessions:
        known = session.env.before if session.env else {}
        for key, text, fact in _leaves(session, known):
            values.setdefault(key, {}).setdefault(text, []).append(session.session)
            if fact is not None:
                about[key] = (KINDS[fact.kind], fact.source)
    same: list[HostFact] = []
    differ: list[HostFact] = []
    for key, by_text in sorted(values.items()):
        kind, source = about.get(key, ("", ""))
        everywhere = len(by_text) == 1 and len(next(iter(by_text.values()))) == len(sessions)
        for text, who in by_text.items():
            row = HostFact(key, shortened(text, VALUE_LIMIT), kind, source, () if everywhere else tuple(who))
            (same if everywhere else differ).append(row)
    return same[:ROW_LIMIT], differ[:ROW_LIMIT], max(0, len(same) - ROW_LIMIT) + max(0, len(differ) - ROW_LIMIT)


def _leaves(session: SessionInfo, known: Mapping[str, Fact]) -> Iterator[tuple[str, str, Fact | None]]:
    for key, value in session.environment.items():
        for name, text in flat(_bounded(value), key) if value != {} else ():
            yield name, text, known.get(key)
    for key, value in session.identity.items():
        for name, text in flat(_bounded(value), f"identity.{key}") if value != {} else ():
            yield name, text, None
    if "python_packages" in known:
        fact = known["python_packages"]
        yield "python_packages", str(_bounded(fact.value)), fact


def _bounded(value: Any) -> Any:
    """A value as it is, or of a long list of names its number and digest."""
    if isinstance(value, Mapping) and len(value) > LONG:
        return f"{len(value)} entries, sha256 {digest(dict(value))[:16]}"
    return value


def sampled(sessions: Sequence[SessionInfo]) -> list[SampledRow]:
    """A row for each figure, with every session that has it."""
    keys = sorted({key for s in sessions if s.env for key in s.env.sampled})
    return [_sampled(key, sessions) for key in keys]


def _sampled(key: str, sessions: Sequence[SessionInfo]) -> SampledRow:
    found = [(s.session, s.env.sampled[key]) for s in sessions if s.env and key in s.env.sampled]
    cells = tuple(
        (name, f"{shown(one.median)} ({shown(one.low)} to {shown(one.high)}; {one.n})") for name, one in found
    )
    return SampledRow(key, found[0][1].unit, cells)


def energies(sessions: Sequence[SessionInfo]) -> list[EnergyRow]:
    """A row for each device and session with a counter."""
    made = []
    for session in sessions:
        for device, one in sorted(session.env.energy.items()) if session.env else ():
            watts = shown(one.joules / one.seconds) if one.joules is not None and one.seconds > 0 else "none"
            made.append(
                EnergyRow(
                    session.session, device, shown(one.joules) if one.joules is not None else "none", watts,
                    shown(one.checked_joules) if one.checked_joules is not None else "none", one.doubt,
                )
            )  # fmt: skip
    return made
