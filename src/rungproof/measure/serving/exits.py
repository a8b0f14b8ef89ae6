"""How a process ended, in words, and whether the kernel says it was killed for memory."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from rungproof.measure.hosts.machine import cgroups
from rungproof.measure.hosts.tree import Tree


def describe(status: int) -> str:
    """A wait status in words: "exit code 3", "killed by SIGKILL"."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def oom_kills(root: Path = Path("/")) -> int | None:
    """How many processes the kernel has killed for memory since boot; None where it does not say."""
    try:
        lines = (root / "proc/vmstat").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.isdecimal():
            return int(value)
    return None


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """The control group whose memory a server may use: its counter of kills, and its limit in words."""

    counter: Path
    limit: str

    @classmethod
    def of(cls, pid: int, root: Path = Path("/")) -> "MemoryGroup | None":
        """The group of a process; None where it has none that can be read."""
        tree = Tree(root)
        found = cgroups(tree, f"/proc/{pid}")
        for controller, counter, limit in (
            ("", "memory.events", "memory.max"),
            ("memory", "memory.oom_control", "memory.limit_in_bytes"),
        ):
            folder = found.get(controller)
            if folder and tree.text(f"{folder}/{counter}") is not None:
                return cls(tree.path(f"{folder}/{counter}"), tree.text(f"{folder}/{limit}") or "unknown")
        return None

    def kills(self) -> int | None:
        """How many of its processes the kernel has killed for memory; None where it does not say."""
        try:
            lines = self.counter.read_text().splitlines()
        except OSError:
            return None
        return next(
            (
                int(value)
                for name, _, value in (line.partition(" ") for line in lines)
                if name == "oom_kill" and value.isdecimal()
            ),
            None,
        )


@dataclass(frozen=True, slots=True)
class Before:
    """Counters of kills for memory when a server started: of the host, and of its control group."""

    host: int | None
    group: MemoryGroup | None
    group_kills: int | None

    @classmethod
    def now(cls, pid: int) -> "Before":
        """As they are now."""
        group = MemoryGroup.of(pid)
        return cls(oom_kills(), group, group.kills() if group else None)


def kernel_says(pid: int, root: Path = Path("/")) -> str:
    """The kernel's line that it killed this pid for memory; "" where there is none or its log is not readable."""
    try:
        handle = os.open(root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return ""
    found = ""
    try:
        while record := _record(handle):
            if f"Killed process {pid} " in record:
                found = record.partition(";")[2].strip()
    finally:
        os.close(handle)
    return found


def _record(handle: int) -> str:
    while True:
        try:
            return os.read(handle, 8192).decode("utf-8", "replace")
        except BrokenPipeError:  # this record was overwritten while we read; the next one is whole
            continue
        except OSError:
            return ""


def cause(status: int, pid: int, before: Before) -> str:
    """`describe`, and out of memory where the kernel's log, the control group or the host's counter say so, in this order."""
    found = kernel_says(pid)
    why = f"out of memory: {found}" if found else memory(before)
    return f"{describe(status)}; {why}" if why else describe(status)


def memory(before: Before) -> str:
    """Kills for memory since then, whichever process it was: an engine may be killed and its front end live on. "" for none."""
    if before.group is not None and (killed := _more(before.group_kills, before.group.kills())):
        return f"out of memory: {killed} process(es) of its control group were killed at its limit of {before.group.limit} bytes"
    if killed := _more(before.host, oom_kills()):
        return f"perhaps out of memory: the kernel killed {killed} process(es) of this host for memory meanwhile"
    return ""


def _more(before: int | None, after: int | None) -> int:
    return after - before if before is not None and after is not None and after > before else 0
