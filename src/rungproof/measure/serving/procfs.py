"""Processes as the kernel shows them in /proc, named by pid *and* start time, so that a reused pid is never mistaken.

A start time is field 22 of /proc/<pid>/stat [clock ticks since boot]. A zombie counts as gone: it holds no memory
and no device. `proc` is the root of the tree, another folder in tests.
"""

import os
import signal
import socket
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rungproof.records.errors import HostError

PROC = Path("/proc")
GONE = frozenset("ZXx")  # states of a process that has ended


@dataclass(frozen=True, slots=True)
class Process:
    """One line of /proc/<pid>/stat: who it is, whose child, in which session."""

    pid: int
    start: int
    parent: int
    session: int
    state: str
    name: str

    @property
    def gone(self) -> bool:
        """Ended, perhaps not yet reaped."""
        return self.state in GONE


def process(pid: int, proc: Path = PROC) -> Process | None:
    """The process with this pid, zombies included; None if there is none."""
    try:
        text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name may hold spaces and brackets; the last bracket is the kernel's.
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    if len(fields) < 20:
        return None
    name = head.partition("(")[2]
    return Process(pid, int(fields[19]), int(fields[1]), int(fields[3]), fields[0], name)


def owner_of(pid: int) -> tuple[int, int]:
    """(pid, start time) of a running process. Raises HostError if there is none."""
    found = process(pid)
    if found is None or found.gone:
        raise HostError(f"process {pid} is not running; expected the process that asks for the session")
    return pid, found.start


def alive(pid: int, start: int) -> bool:
    """Whether this very process still runs: same pid, same start time, no zombie."""
    found = process(pid)
    return found is not None and found.start == start and not found.gone


def pids(proc: Path = PROC) -> set[int]:
    """All pids there are."""
    return {int(name) for name in os.listdir(proc) if name.isdecimal()}


def table(proc: Path = PROC) -> dict[int, Process]:
    """Every process by its pid."""
    return {pid: found for pid in pids(proc) if (found := process(pid, proc)) is not None}


def descendants(roots: Iterable[int], among: Mapping[int, Process]) -> list[Process]:
    """Children of `roots`, their children and so on, zombies left out but looked through; the roots are not in it."""
    children: dict[int, list[Process]] = {}
    for found in among.values():
        children.setdefault(found.parent, []).append(found)
    made: list[Process] = []
    seen = set(roots)
    waiting = list(seen)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child.pid not in seen:
                seen.add(child.pid)
                waiting.append(child.pid)
                made.append(child)
    return sorted((child for child in made if not child.gone), key=lambda child: child.pid)


def send(pid: int, start: int, number: signal.Signals) -> bool:
    """Signal this very process; False if it is gone. The pid cannot be reused between the check and the signal."""
    if pid <= 1:
        return False
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    except OSError:  # a kernel or sandbox without pidfds
        if not alive(pid, start):
            return False
        return _kill(pid, number)
    try:
        if not alive(pid, start):
            return False
        signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(handle)
    return True


def _kill(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def command_line(pid: int, proc: Path = PROC) -> tuple[str, ...] | None:
    """Arguments of a running process as it shows them; None if unreadable or empty."""
    return _strings(proc / str(pid) / "cmdline")


def variables(pid: int, proc: Path = PROC) -> dict[str, str] | None:
    """Environment a process was started with; None if unreadable or overwritten by the process."""
    strings = _strings(proc / str(pid) / "environ")
    if strings is None:
        return None
    return {name: value for name, mark, value in (item.partition("=") for item in strings) if mark}


def _strings(path: Path) -> tuple[str, ...] | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if not data.strip(b"\0"):
        return None
    return tuple(item.decode("utf-8", "replace") for item in data.removesuffix(b"\0").split(b"\0"))


def listeners(port: int, proc: Path = PROC) -> set[int]:
    """Socket inodes that listen on this TCP port, on any address, IPv4 and IPv6."""
    made: set[int] = set()
    for name in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if len(fields) > 9 and fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                made.add(int(fields[9]))
    return made


def sockets(pid: int, proc: Path = PROC) -> set[int]:
    """Inodes of the sockets that a process holds open; empty where we may not look."""
    made: set[int] = set()
    folder = proc / str(pid) / "fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return made
    for name in names:
        try:
            target = os.readlink(folder / name)
        except OSError:
            continue
        if target.startswith("socket:["):
            made.add(int(target[8:-1]))
    return made


def holder(inodes: set[int]) -> str:
    """Who holds one of these sockets, for a person to read."""
    for pid, found in sorted(table().items()):
        if inodes & sockets(pid):
            return f"process {pid} ({found.name})"
    return "a process of another user"


def free_port(asked: int) -> int:
    """The asked TCP port of the loopback if it is free, or a free one for 0. HostError says who holds it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", asked))
            taken = listeners(asked) if asked else set()
            if not taken:
                return int(probe.getsockname()[1])
        except OSError as error:
            taken = listeners(asked)
            if not taken:
                raise HostError(f"port {asked} cannot be used ({error.strerror}); expected a free port") from error
    raise HostError(f"port {asked} is taken by {holder(taken)}; expected it free: end that process or set another port")


def boot_id(root: Path = Path("/")) -> str:
    """The kernel's id of this boot; pids and start times mean nothing on another. "" if unreadable."""
    try:
        return (root / "proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def require_linux() -> None:
    """Raise HostError where there is no /proc to prove ownership with."""
    if not sys.platform.startswith("linux") or not (PROC / "self/stat").exists():
        raise HostError(f"servers are measured on Linux with /proc mounted; found {sys.platform}")
