"""What the servers ran on: facts with their kind and source, what was sampled, energy."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from rungproof.publish.pages.claimed import NONE, Claims
from rungproof.publish.pages.facts import VALUE_LIMIT, flat
from rungproof.publish.pages.text import shortened
from rungproof.records.codec import digest
from rungproof.records.environment import Fact
from rungproof.records.summary import SessionInfo

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


@dataclass(frozen=True, slots=True)
class SampledRow:
    """One sampled figure: per session its middle value with the range in which it lay."""

    key: str
    unit: str
    sessions: tuple[tuple[str, Markup], ...]


@dataclass(frozen=True, slots=True)
class EnergyRow:
    """Energy of one device in one session, by its own counter."""

    session: str
    device: str
    joules: Markup
    watts: Markup
    checked: Markup
    doubt: str


# What a reader looks for first, by the beginning of its key; the rest stands on a page of its own.
TOLD = (
    "cpu.model", "cpu.cores", "cpu_model", "cpus_online", "cpu_microcode", "smt", "numa_nodes", "memory_bytes", "memory_total_kb",
    "kernel", "distribution", "governors", "transparent_huge_pages", "virtualised", "python", "torch", "vllm", "engine", "driver",
    "identity.engine", "identity.kernel",
)  # fmt: skip
DEVICE = re.compile(r"(gpu|xpu|device)\d*\.(name|driver|memory_total.*|power_limit.*)")


def leading(same: Sequence[HostFact]) -> list[HostFact]:
    """Of the facts that are equal on all servers, those that a reader looks for first: processor, memory, kernel, devices, engine."""
    wanted = [row for row in same if row.key in TOLD or DEVICE.fullmatch(row.key)]
    return [row for row in wanted if row.value not in ("none", "")][:LONG]


def unequal(sessions: Sequence[SessionInfo], differ: Sequence[HostFact]) -> list[HostFact]:
    """Of the facts that must be equal, those that two servers of one arm do not have in common."""
    arms = {session.session: session.arm for session in sessions}
    values: dict[tuple[str, str], set[str]] = {}
    for row in differ:
        for name in row.sessions:
            values.setdefault((row.key, arms[name]), set()).add(row.value)
    keys = {key for (key, _), found in values.items() if len(found) > 1}
    return [row for row in differ if row.kind == KINDS["equal"] and row.key in keys]


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


def sampled(sessions: Sequence[SessionInfo], claims: Claims) -> list[SampledRow]:
    """A row for each figure, with every session that has it."""
    keys = sorted({key for s in sessions if s.env for key in s.env.sampled})
    return [_sampled(key, sessions, claims) for key in keys]


def _sampled(key: str, sessions: Sequence[SessionInfo], claims: Claims) -> SampledRow:
    found = [(i, s.session, s.env.sampled[key]) for i, s in enumerate(sessions) if s.env and key in s.env.sampled]
    cells = tuple(
        (
            name,
            Markup("{} ({} to {}; {})").format(
                *(claims.at("sessions", i, "env", "sampled", key, part) for part in ("median", "low", "high", "n"))
            ),
        )
        for i, name, _ in found
    )
    return SampledRow(key, found[0][2].unit, cells)


def energies(sessions: Sequence[SessionInfo], claims: Claims) -> list[EnergyRow]:
    """A row for each device and session with a counter."""
    made = []
    for i, session in enumerate(sessions):
        for device, one in sorted(session.env.energy.items()) if session.env else ():
            place = ("sessions", i, "env", "energy", device)
            watts = claims.at("sessions", i, "watts", device) if device in session.watts else NONE
            made.append(
                EnergyRow(
                    session.session,
                    device,
                    claims.at(*place, "joules"),
                    watts,
                    claims.at(*place, "checked_joules"),
                    one.doubt,
                )
            )
    return made
