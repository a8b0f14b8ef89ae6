"""A lane's own history: the packs of one study in order of time, with a step wherever its configuration, engine or image changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rungproof.judge.host_facts import flat
from rungproof.publish.site.found import ArmEntry, PackEntry

SHOWN = 8  # changed keys told of one step


@dataclass(frozen=True, slots=True)
class Moment:
    """One arm in one pack. `steps`: what changed in its launch against the pack before it, in words; empty in the first."""

    pack: PackEntry
    arm: ArmEntry
    steps: tuple[str, ...]


def histories(packs: Sequence[PackEntry]) -> list[tuple[str, list[Moment]]]:
    """Per arm name, oldest pack first. packs: of one study."""
    ordered = sorted(packs, key=lambda pack: (pack.measured, pack.id))
    names = dict.fromkeys(arm.name for pack in ordered for arm in pack.arms)
    made = []
    for name in names:
        moments: list[Moment] = []
        for pack in ordered:
            arm = next((one for one in pack.arms if one.name == name), None)
            if arm is not None:
                before = moments[-1] if moments else None
                moments.append(Moment(pack, arm, steps(before, pack, arm) if before else ()))
        made.append((name, moments))
    return made


def steps(before: Moment, pack: PackEntry, arm: ArmEntry) -> tuple[str, ...]:
    """What changed between two packs of an arm: host, suites, then each key of the launch."""
    found = []
    if before.pack.host != pack.host:
        found.append(f"host: {before.pack.host} → {pack.host}")
    old, new = dict(before.pack.suites), dict(pack.suites)
    found += [f"suite {name}: another version" for name in sorted(set(old) & set(new)) if old[name] != new[name]]
    return (*found, *changed(before.arm.launch, arm.launch))


def changed(old: Mapping[str, object], new: Mapping[str, object]) -> tuple[str, ...]:
    """Keys of two launches that differ, each with both values, in words; at most SHOWN of them."""
    found = differing(old, new)
    told = [f"{key}: {a[:80]} → {b[:80]}" for key, a, b in found[:SHOWN]]
    return tuple(told + ([f"and {len(found) - SHOWN} keys more"] if len(found) > SHOWN else []))


def differing(old: Mapping[str, object], new: Mapping[str, object]) -> list[tuple[str, str, str]]:
    """(key, old value, new value) of every key of two launches that differs."""
    a, b = dict(flat(old)), dict(flat(new))
    return [(key, a.get(key, "none"), b.get(key, "none")) for key in sorted({*a, *b}) if a.get(key) != b.get(key)]
