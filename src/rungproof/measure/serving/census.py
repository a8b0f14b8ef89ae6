"""Census lines: what a lane demands of the server's own log, looked up there line by line."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from rungproof.records.formats import Knob

ANSI = re.compile(r"\x1b\[[0-9;]*m")
SOURCE = "log: census"
NOT_THERE = "no such line"
LONGEST_LOG = 64 * 1024 * 1024  # bytes that are searched; a log beyond that proves nothing absent
LONGEST_LINE, LONGEST_FOUND = 20_000, 300  # characters: of a line that is searched, of what is recorded


def read_log(path: Path) -> tuple[str, bool]:
    """A log without colour codes, up to LONGEST_LOG, and whether that is all of it; ("", True) if there is none."""
    try:
        with path.open("rb") as file:
            data = file.read(LONGEST_LOG + 1)
    except OSError:
        return "", True
    return ANSI.sub("", data[:LONGEST_LOG].decode("utf-8", "replace")), len(data) <= LONGEST_LOG


def verify(demands: Mapping[str, Mapping[str, str]], log: str, whole: bool = True) -> tuple[Knob, ...]:
    """One knob a demand. `found` is what was captured, each different value once, or the line; None: no line matched.

    A value asked for must be what every matching line captures: one layer that took another kernel is not in force.
    """
    lines = log.splitlines()
    return tuple(_knob(name, demand, lines, whole) for name, demand in demands.items())


def _knob(name: str, demand: Mapping[str, str], lines: list[str], whole: bool) -> Knob:
    wanted = demand.get("value")
    if "absent" in demand:
        first = next(_captured(demand["absent"], lines), None)
        found = first if first is not None else NOT_THERE if whole else None  # None: the log is too long to tell
        return Knob(f"census {name}", f"no line /{demand['absent']}/", found, SOURCE, found == NOT_THERE)
    seen = list(dict.fromkeys(_captured(demand["appears"], lines)))
    ok = bool(seen) and (wanted is None or seen == [wanted])
    asked = f"line /{demand['appears']}/" if wanted is None else wanted
    return Knob(f"census {name}", asked, "; ".join(seen)[:LONGEST_FOUND] if seen else None, SOURCE, ok)


def _captured(pattern: str, lines: list[str]) -> Iterator[str]:
    """What each matching line captures: its group, or the part that matched."""
    compiled = re.compile(pattern)
    for line in lines:
        if match := compiled.search(line[:LONGEST_LINE]):
            yield (match[1] or "" if compiled.groups else match[0]).strip()[:LONGEST_FOUND]
