"""Nested facts as flat rows: rules, launch arguments, environments, knobs; equal ones said once."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rungproof.judge.host_facts import VALUE_LIMIT, flat
from rungproof.records.formats import Knob
from rungproof.records.summary import ArmInfo, SessionInfo, Summary
from rungproof.records.text import shortened


@dataclass(frozen=True, slots=True)
class Fact:
    """One key and its value; `sessions` are empty where it is the same in all of them."""

    key: str
    value: str
    sessions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KnobRow:
    """One requested knob as found; `sessions` are empty where all of the arm's agree."""

    knob: Knob
    source: str
    sessions: tuple[str, ...]


def facts(value: Any) -> list[Fact]:
    """Flat rows of one nested value."""
    return [Fact(key, shortened(text, VALUE_LIMIT)) for key, text in flat(value)]


def find(value: Any, name: str) -> Any:
    """The first value under the key `name` anywhere in nested dicts, keys in sorted order; None if there is none."""
    if not isinstance(value, Mapping):
        return None
    if name in value:
        return value[name]
    return next((found for key in sorted(value, key=str) if (found := find(value[key], name)) is not None), None)


def knobs(summary: Summary) -> list[tuple[str, int, list[KnobRow]]]:
    """Per arm: its name, how many servers were looked at, and its knobs, each once where all servers agree."""
    arms = dict.fromkeys([arm.name for arm in summary.arms] + [session.arm for session in summary.sessions])
    made = []
    for arm in arms:
        mine = [session for session in summary.sessions if session.arm == arm and session.knobs]
        if mine:
            made.append((arm, len(mine), _knob_rows(mine)))
    return made


def _knob_rows(sessions: Sequence[SessionInfo]) -> list[KnobRow]:
    seen: dict[Knob, list[str]] = {}
    for session in sessions:
        for knob in session.knobs:
            # A process id differs on every server and says nothing: without it equal knobs are equal.
            source = re.sub(r"/proc/\d+", "/proc/<pid>", knob.source)
            seen.setdefault(Knob(knob.name, knob.asked, knob.found, source, knob.ok), []).append(session.session)
    rows = [KnobRow(knob, knob.source, () if len(who) == len(sessions) else tuple(who)) for knob, who in seen.items()]
    return sorted(rows, key=lambda row: row.knob.name)


KnobGroups = Sequence[tuple[str, int, Sequence[KnobRow]]]


def not_verified(groups: KnobGroups) -> list[tuple[str, int, list[KnobRow]]]:
    """Of `knobs`, those that a running server did not show as asked."""
    made = [(arm, servers, [row for row in rows if not row.knob.ok]) for arm, servers, rows in groups]
    return [group for group in made if group[2]]


def own(groups: KnobGroups) -> list[tuple[str, list[tuple[str, str]]]]:
    """Per arm what it asks for, (knob, value) once each, that not every arm asks for with that value."""
    asked = [list(dict.fromkeys((row.knob.name, row.knob.asked) for row in rows)) for _, _, rows in groups]
    common = set.intersection(*map(set, asked)) if asked else set()
    return [(arm, [one for one in mine if one not in common]) for (arm, _, _), mine in zip(groups, asked, strict=True)]


def launches(arms: Sequence[ArmInfo]) -> list[tuple[Fact, bool]]:
    """Launch keys of all arms: (fact, whether it is equal in all arms); where not, the arms stand in `sessions`."""
    values: dict[str, dict[str, list[str]]] = {}
    for arm in arms:
        for key, text in flat(arm.launch):
            values.setdefault(key, {}).setdefault(text, []).append(arm.name)
    made = []
    for key, by_text in sorted(values.items()):
        for text, who in by_text.items():
            equal = len(who) == len(arms)
            made.append((Fact(key, shortened(text, VALUE_LIMIT), () if equal else tuple(who)), equal))
    return made
