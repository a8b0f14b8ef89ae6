"""Reading /proc and /sys without trust: bounded, and None for whatever is not there, is empty or is no number."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rungproof.records.environment import Fact, Kind

PIECE = 64 * 1024
LONGEST = 32 * 1024 * 1024  # bytes of one file; a list of packages can be long


@dataclass(frozen=True, slots=True)
class Tree:
    """A root under which to read: the machine's, a container's (`/proc/<pid>/root`), or a made one in tests."""

    root: Path

    def path(self, name: str) -> Path:
        """A file of this tree by its absolute name."""
        return self.root / name.lstrip("/")

    def text(self, name: str) -> str | None:
        """Contents without surrounding space; None if missing, unreadable or empty."""
        try:
            with self.path(name).open("rb", buffering=0) as file:
                data = b""
                # In pieces: files under /proc/sys refuse to be read into a buffer of megabytes.
                while len(data) < LONGEST and (piece := file.read(PIECE)):
                    data += piece
        except OSError:  # sysfs files may also fail to read: a device that sleeps, a value the firmware refuses
            return None
        return data.decode("utf-8", "replace").strip("\0\n\t ") or None

    def number(self, name: str) -> int | None:
        """A whole number, decimal or 0x; None for anything else."""
        return whole(self.text(name))

    def names(self, folder: str) -> list[str]:
        """Names in a folder, sorted with numbers in order; [] where it cannot be listed."""
        try:
            found = os.listdir(self.path(folder))
        except OSError:
            return []
        return sorted(found, key=lambda name: [int(p) if p.isdecimal() else p for p in _parts(name)])

    def link(self, name: str) -> str | None:
        """Last part of where a link leads; None if it is none."""
        try:
            return os.path.basename(os.readlink(self.path(name)))
        except OSError:
            return None


def whole(text: str | None) -> int | None:
    """A whole number, decimal or 0x; None for anything else. Longer than 25 characters is no number of a kernel."""
    if text is None or len(text) > 25:
        return None
    try:
        return int(text, 16 if text.lower().startswith("0x") else 10)
    except ValueError:
        return None


def scaled(number: int | None, by: float) -> float | None:
    """A number in another unit; None stays None."""
    return None if number is None else number * by


def table(text: str | None) -> dict[str, str]:
    """Lines `name: value` as a dict; the first of equal names counts."""
    made: dict[str, str] = {}
    for line in (text or "").splitlines():
        name, mark, value = line.partition(":")
        if mark:
            made.setdefault(name.strip(), value.strip())
    return made


@dataclass(frozen=True, slots=True)
class Facts:
    """Collects the facts of one reader. A value None is kept: the key then says that the host does not show it."""

    reader: str
    made: dict[str, Fact]

    @classmethod
    def by(cls, reader: str) -> "Facts":
        """An empty collection."""
        return cls(reader, {})

    def add(self, key: str, value: Any, source: str, kind: Kind = "equal", tolerance: float | None = None) -> None:
        """One fact."""
        self.made[key] = Fact(value, kind, source, self.reader, tolerance)


def _parts(name: str) -> list[str]:
    parts, held = [], ""
    for char in name:
        if held and char.isdecimal() != held[-1].isdecimal():
            parts.append(held)
            held = ""
        held += char
    # Text and numbers take turns, so that two names are always compared part by part of the same kind.
    return ([""] if held and (parts or [held])[0][:1].isdecimal() else []) + [*parts, held]
