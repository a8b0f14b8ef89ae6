"""What the servers ran on: facts with their kind and source, what was sampled, energy."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from rungproof.judge.host_facts import KINDS, LONG, HostFact
from rungproof.publish.pages.claimed import NONE, Claims
from rungproof.records.summary import SessionInfo


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
