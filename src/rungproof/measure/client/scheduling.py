"""The client's place in the queue for processors, and how long it stood there.

Data that waits in a socket's queue is merged, and its stamp becomes that of the last packet. So a client that is not run for
100 ms does not see late tokens: it sees one burst, and every rate made of it is wrong. A busy server on a machine of few cores
does that to a client of equal rank: on two cores 350 of 700 ms have been seen, and less than 0.1 ms under real-time priority.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

Scheduling = Literal["fifo", "ordinary"]
TASKS = Path("/proc/self/task")


@contextmanager
def first_in_line() -> Iterator[Scheduling]:
    """Real-time priority (SCHED_FIFO, the lowest one) for all threads of this process inside, where the user may have it
    (root, CAP_SYS_NICE, or an RLIMIT_RTPRIO of at least 1); else as it is. It sleeps unless something has arrived.

    All threads, since one of lower rank that holds the interpreter's lock would be waited for. Children do not inherit it.
    """
    held: list[tuple[int, int, os.sched_param]] = []
    got: Scheduling = "ordinary"
    with suppress(OSError, AttributeError):  # not allowed, or not Linux
        for thread in _threads():
            was = (thread, os.sched_getscheduler(thread), os.sched_getparam(thread))
            os.sched_setscheduler(thread, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
            held.append(was)
        got = "fifo"
    try:
        yield got
    finally:
        for thread, policy, parameter in held:
            with suppress(OSError):  # the thread has ended
                os.sched_setscheduler(thread, policy, parameter)


def waits() -> dict[int, int] | None:
    """How long each thread of this process has waited for a processor while it could have run [ns, since its start].

    Source: /proc/self/task/*/schedstat, second number. None where the kernel does not tell.
    """
    try:
        return {thread: int((TASKS / str(thread) / "schedstat").read_text().split()[1]) for thread in _threads()}
    except (OSError, ValueError, IndexError):
        return None


def waited_ns(before: dict[int, int] | None, after: dict[int, int] | None) -> int | None:
    """The wait between two readings, over the threads that were there at both; None where one of them is unknown."""
    if before is None or after is None:
        return None
    return sum(after[thread] - since for thread, since in before.items() if thread in after)


def _threads() -> list[int]:
    return [int(name) for name in os.listdir(TASKS)]
