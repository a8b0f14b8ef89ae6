"""The one fact about the machine that a plan depends on: which instructions its processor has."""

from pathlib import Path


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
