"""What the servers ran on as rows, equal facts said once: what a page, its twins and who checks them show of `env.json`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rungproof.records.codec import digest
from rungproof.records.environment import Fact
from rungproof.records.summary import SessionInfo
from rungproof.records.text import shortened

VALUE_LIMIT = 160  # characters of a value
ROW_LIMIT = 300  # rows of each of the two lists
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


def flat(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """(dotted key, text) of each leaf, keys sorted; a list of scalars is one leaf."""
    if isinstance(value, Mapping) and value:
        for name in sorted(value, key=str):
            yield from flat(value[name], f"{key}.{name}" if key else str(name))
    elif isinstance(value, (list, tuple)) and any(isinstance(item, (Mapping, list, tuple)) for item in value):
        for index, item in enumerate(value):
            yield from flat(item, f"{key}[{index}]")
    elif isinstance(value, (list, tuple)):
        yield key, ", ".join(scalar(item) for item in value) or "none"
    else:
        yield key, scalar(value)


def scalar(value: Any) -> str:
    """One value in words: yes, no, none, or as it is."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value == {}:
        return "none"
    return str(value)
