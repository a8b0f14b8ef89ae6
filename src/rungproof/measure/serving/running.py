"""One server that the supervisor started: how it begins, how it is found alive, how it and its children end."""

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from rungproof.measure.serving import exits, procfs, tree
from rungproof.measure.serving.children import Child, Children
from rungproof.measure.serving.engines.engine import Engine
from rungproof.measure.serving.launch import process
from rungproof.measure.serving.order import Order, Places

QUIET_S = 1.0  # children that end with their server need a moment
TERM_S = 2.0


class Running:
    """A started server. `url` and `model` are how it is asked; `argv` is its command."""

    def __init__(self, places: Places, order: Order, engine: Engine, children: Children, port: int, boot: str) -> None:
        """Start it. Raises OSError."""
        self.model = served_name(order, boot)
        self.url = f"http://127.0.0.1:{port}"
        self.argv = engine.argv(order, self.model, port)
        self.oom_before = exits.oom_kills()
        variables = process.environment(os.environ, order.variables, boot, places.cache, engine.passed)
        work = process.make_caches(places.cache)
        self._children = children
        self.began = time.monotonic()
        self.child: Child = children.adopt(process.spawn(self.argv, variables, work, places.server_log))

    @property
    def alive(self) -> bool:
        """Whether the server's first process runs."""
        self._children.reap()
        return self.child.status is None

    def cause(self) -> str:
        """Why it ended; only after it has."""
        return exits.cause(self.child.status or 0, self.child.pid, self.oom_before)

    def end(self, grace_s: float) -> str:
        """SIGTERM, `grace_s`, SIGKILL; returns how it ended, in words."""
        if not self.alive:
            return self.cause()
        procfs.send(self.child.pid, self.child.start, signal.SIGTERM)
        if self._children.wait(self.child, grace_s):
            return f"{exits.describe(self.child.status or 0)} after SIGTERM"
        procfs.send(self.child.pid, self.child.start, signal.SIGKILL)
        if self._children.wait(self.child, 10.0):
            return f"{exits.describe(self.child.status or 0)}: it had not ended {grace_s:g} s after SIGTERM"
        return f"still running 10 s after SIGKILL (process {self.child.pid})"


def served_name(order: Order, boot: str) -> str:
    """The name under which the server answers; it carries the boot, so no other server can be mistaken for it."""
    return f"{order.launch.get('model', 'model')}-{boot}"


def family(children: Children, guard_pid: int | None, listed: Path) -> Callable[[], list[procfs.Process]]:
    """A finder of every process that came from us: our descendants, and those that the guard once saw as such."""
    me = os.getpid()
    supervisor = procfs.owner_of(me)

    def find() -> list[procfs.Process]:
        children.reap()
        among = procfs.table()
        found = {one.pid: one for one in procfs.descendants([me], among) if one.pid != guard_pid}
        held = tree.recorded(listed)
        if held is not None and held.supervisor == supervisor:
            for pid, start, _name in held.processes:
                one = among.get(pid)
                if one is not None and one.start == start and not one.gone and pid not in (me, guard_pid):
                    found[pid] = one
        return list(found.values())

    return find


def sweep(find: Callable[[], list[procfs.Process]]) -> tuple[str, ...]:
    """End what the server left behind; returns it in words, () if there was nothing."""
    if tree.wait_gone(find, QUIET_S):
        return ()
    told, _still = tree.end_all(find, TERM_S)
    return tuple(sorted(told.values()))


def remove_cache(places: Places) -> None:
    """Remove the session's compile caches."""
    shutil.rmtree(places.cache, ignore_errors=True)
