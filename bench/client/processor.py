"""Processor time of other processes, from /proc: of a running tree, and of children that have been waited for."""

import resource
from pathlib import Path


def tree_ns(root: int) -> int:
    """Time on a processor of a process and everything below it, all threads, those that have ended left out [ns]."""
    below: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(") ")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        below.setdefault(parent, []).append(int(stat.parent.name))
    wanted, total = [root], 0
    while wanted:
        pid = wanted.pop()
        wanted += below.get(pid, [])
        for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            try:
                total += int(task.read_text().split()[0])
            except (OSError, ValueError, IndexError):
                continue
    return total


def waited_s() -> float:
    """Processor time of all children that this process has waited for, and theirs [s]."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
