"""The supervisor's own children: their wait statuses, and the guard that is always one of them."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rungproof.measure.serving import procfs
from rungproof.measure.serving.order import Places
from rungproof.measure.serving.tree import LONGEST_GRACE_S, POLL_S

GUARD = "rungproof.measure.serving.guard"
RESTART_S = 1.0  # at most one new guard in this time


@dataclass
class Child:
    """A process we started; `status` is its wait status once it has ended and was reaped."""

    popen: "subprocess.Popen[bytes]"
    start: int
    status: int | None = None

    @property
    def pid(self) -> int:
        """Its pid; not reused before `status` is set."""
        return self.popen.pid


class Children:
    """Reaps every child, the orphans that a subreaper inherits too."""

    def __init__(self) -> None:
        self._own: dict[int, Child] = {}

    def adopt(self, popen: "subprocess.Popen[bytes]") -> Child:
        """Take over the waiting for a process just started."""
        found = procfs.process(popen.pid)  # not None: nobody has reaped it
        child = Child(popen, found.start if found else 0)
        self._own[child.pid] = child
        return child

    def reap(self) -> None:
        """Collect all that have ended; never waits."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if child := self._own.pop(pid, None):
                child.status = status
                child.popen.returncode = os.waitstatus_to_exitcode(status)  # Popen must not wait for it again

    def wait(self, child: Child, seconds: float) -> bool:
        """Wait for one child's end; False if it has not ended in time."""
        until = time.monotonic() + seconds
        while child.status is None:
            self.reap()
            if child.status is None:
                if time.monotonic() >= until:
                    return False
                time.sleep(POLL_S)
        return True


class Guard:
    """Keeps one guard process running while the session is open."""

    def __init__(self, places: Places, children: Children, grace_s: float, lock: int) -> None:
        self._places, self._children = places, children
        self._grace_s, self._lock = min(grace_s, LONGEST_GRACE_S), lock
        self._began = 0.0
        self._child = self._spawn()

    @property
    def pid(self) -> int:
        """The guard's pid."""
        return self._child.pid

    def keep(self) -> None:
        """Start another one if it has ended."""
        if self._child.status is not None and time.monotonic() - self._began > RESTART_S:
            print(f"guard {self.pid} has ended; starting another", file=sys.stderr, flush=True)
            self._child = self._spawn()

    def end(self) -> None:
        """End it; the session is closed without it."""
        if self._child.status is None:
            procfs.send(self._child.pid, self._child.start, signal.SIGKILL)
            self._children.wait(self._child, 5.0)

    def _spawn(self) -> Child:
        self._began = time.monotonic()
        pid, start = procfs.owner_of(os.getpid())
        argv = [sys.executable, "-m", GUARD, str(self._places.folder), str(pid), str(start), str(self._grace_s)]
        # It inherits the lock: the lock is free only when both have ended or the supervisor has given it back.
        popen = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True, pass_fds=(self._lock,))
        return self._children.adopt(popen)


def module_environment() -> dict[str, str]:
    """Our variables, so that `python -m rungproof...` finds this very package."""
    source = str(Path(__file__).resolve().parents[3])
    rest = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part and part != source]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([source, *rest])}
