"""The one fact about the machine that a plan depends on: which instructions its processor has."""

from collections.abc import Iterable
from pathlib import Path

from rungproof.records.codec import read
from rungproof.records.errors import EvidenceError
from rungproof.records.plan import Plan


def processor_flags(root: Path = Path("/")) -> frozenset[str]:
    """Flags of the first processor of /proc/cpuinfo (`flags`, on Arm `Features`); empty where it cannot be read."""
    try:
        text = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def flags_without(flags: frozenset[str], lacks: str) -> frozenset[str]:
    """The flags without those that `lacks` of the run's configuration names, comma separated."""
    return flags - {name.strip() for name in lacks.split(",")}


def flags_of_study(study: Path, flags: frozenset[str], needs: Iterable[str]) -> frozenset[str]:
    """Flags under which a results folder goes on: those of the processor it was begun on, as far as lanes `need` them.

    A folder that is opened on another processor would otherwise get other arms, servers and another page.
    """
    for path in sorted(
        study.glob("runs/*/campaign.lock.json"), key=lambda p: (len(p.parent.name), p.parent.name), reverse=True
    ):
        try:
            plan = read(Plan, path)
        except EvidenceError:
            continue
        return (flags | frozenset(needs)) - {flag for one in plan.unavailable for flag in one.lacks}
    return flags
