"""The processes of a session: children of its supervisor, the list of them on disk, and their end.

Only a process that was seen as ours is ever signalled, and only by pid and start time.
"""

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rungproof.measure.serving import procfs
from rungproof.measure.serving.procfs import Process
from rungproof.records.codec import canonical, load_json
from rungproof.records.errors import EvidenceError
from rungproof.records.files import write_atomic

Pair = tuple[int, int]  # pid and start time
POLL_S = 0.05
STILL = "still running"  # in the words on a process that does not end
LONGEST_GRACE_S = 5.0  # for a server whose supervisor is gone


@dataclass(frozen=True, slots=True)
class Recorded:
    """control/tree.json. `boot_id` and `host`: where pids mean what they say."""

    supervisor: Pair
    guard: Pair | None
    processes: tuple[tuple[int, int, str], ...]
    boot_id: str
    host: str

    @property
    def here(self) -> bool:
        """Whether these pids are pids of this machine, since its last boot."""
        return self.boot_id == procfs.boot_id() and self.host == host()


def host() -> str:
    """The name of this machine (or container): a session is closed where it was opened."""
    return socket.gethostname()


def record(path: Path, supervisor: Pair, guard: Pair | None, processes: Iterable[tuple[int, int, str]]) -> None:
    """Write control/tree.json."""
    found = Recorded(supervisor, guard, tuple(sorted(processes)), procfs.boot_id(), host())
    write_atomic(path, canonical(found))


def recorded(path: Path) -> Recorded | None:
    """Read control/tree.json; None if it was never written. Raises EvidenceError for anything else in its place."""
    try:
        value = load_json(path.read_bytes(), str(path))
    except FileNotFoundError:
        return None
    try:
        guard = value["guard"]
        return Recorded(
            supervisor=(int(value["supervisor"][0]), int(value["supervisor"][1])),
            guard=(int(guard[0]), int(guard[1])) if guard else None,
            processes=tuple((int(pid), int(start), str(name)) for pid, start, name in value["processes"]),
            boot_id=str(value["boot_id"]),
            host=str(value["host"]),
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise EvidenceError(f"{path}: not the list of a session's processes ({error!r})") from error


@dataclass
class Tracker:
    """Keeps the set of a supervisor's descendants, cheaply: a look at /proc's names, and into new ones alone.

    It holds for descendants whose parents died too: while the supervisor lives they become its children, afterwards
    they are known by an earlier look, by a known parent, or by the session of a process known to be still there.
    """

    supervisor: Pair
    known: dict[int, Process] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)

    def look(self) -> bool:
        """Look once; True if the set has changed."""
        now = procfs.pids()
        before = {(found.pid, found.start) for found in self.known.values()}
        fresh = [found for pid in sorted(now - self.seen) if (found := procfs.process(pid)) is not None]
        self.seen = now
        self.known = {pid: found for pid, found in self.known.items() if pid in now}
        lead = procfs.process(self.supervisor[0])
        roots = {self.supervisor[0]} if lead is not None and lead.start == self.supervisor[1] else set()
        while joined := [found for found in fresh if self._ours(found, roots)]:
            self.known.update({found.pid: found for found in joined})
            fresh = [found for found in fresh if found.pid not in self.known]
        return before != {(found.pid, found.start) for found in self.known.values()}

    def _ours(self, found: Process, roots: set[int]) -> bool:
        if found.pid == os.getpid() or found.pid == self.supervisor[0]:
            return False
        if found.parent in roots:
            return True
        parent = self.known.get(found.parent)
        if parent is not None and self._there(parent):
            return True
        # A session's number is not given anew while one of its processes is there.
        return any(other.session == found.session and self._there(other) for other in self.known.values())

    def _there(self, member: Process) -> bool:
        now = procfs.process(member.pid)
        return now is not None and now.start == member.start

    def alive(self) -> list[Process]:
        """Members that still run, under the names that they have now."""
        now = [(found, procfs.process(found.pid)) for found in self.known.values()]
        return [later for found, later in now if later is not None and later.start == found.start and not later.gone]


def wait_gone(find: Callable[[], list[Process]], seconds: float) -> bool:
    """Wait until `find` finds nothing; False if it still does at the end."""
    until = time.monotonic() + seconds
    while find():
        if time.monotonic() >= until:
            return False
        time.sleep(POLL_S)
    return True


def end_all(
    find: Callable[[], list[Process]], term_s: float, kill_s: float = 10.0
) -> tuple[dict[Pair, str], list[Process]]:
    """SIGTERM to all that `find` finds (if term_s > 0), `term_s` later SIGKILL, again for what they may still start.

    Returns who was signalled, each in words, and what is left after `kill_s` more seconds.
    """
    told: dict[Pair, str] = {}
    until = time.monotonic() + term_s
    while time.monotonic() < until and (found := find()):
        for one in found:
            if (one.pid, one.start) not in told and procfs.send(one.pid, one.start, signal.SIGTERM):
                told[one.pid, one.start] = f"{one.name} ({one.pid}), ended by SIGTERM"
        time.sleep(POLL_S)
    until = time.monotonic() + kill_s
    while (found := find()) and time.monotonic() < until:
        for one in found:
            if procfs.send(one.pid, one.start, signal.SIGKILL):
                told[one.pid, one.start] = f"{one.name} ({one.pid}), ended by SIGKILL"
        time.sleep(POLL_S)
    for one in found:
        told[one.pid, one.start] = f"{one.name} ({one.pid}), {STILL} after SIGKILL"
    return told, found


def read_pair(path: Path) -> Pair | None:
    """{"pid", "start"} of a file; None if it is missing or no such object."""
    try:
        value = json.loads(path.read_bytes())
        return int(value["pid"]), int(value["start"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
