"""One server that the supervisor started, as a process or in a container: how it begins, is found alive and proven, and ends."""

import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rungproof.measure.serving import exits, identity, procfs, surroundings, tree
from rungproof.measure.serving.children import Child, Children
from rungproof.measure.serving.engines.engine import Engine
from rungproof.measure.serving.knobs import Shown
from rungproof.measure.serving.launch import container, process
from rungproof.measure.serving.order import Order, Places
from rungproof.records.formats import Knob

QUIET_S = 1.0  # children that end with their server need a moment
TERM_S = 2.0
LOOK_S = 0.5  # how often a container engine is asked for a pid that is not there yet


Runtime = tuple[str, list[Path]]  # version of an interpreter, folders of its packages


class Running:
    """A server as a process of this machine. `url` and `model` are how it is asked; `argv` is its command."""

    def __init__(self, places: Places, order: Order, engine: Engine, children: Children, port: int, boot: str) -> None:
        """Start it. Raises OSError."""
        self.model = served_name(order, boot)
        self.url = f"http://127.0.0.1:{port}"
        self._places, self._order, self._engine, self._boot = places, order, engine, boot
        self._children = children
        self.argv = self._server_argv(port)
        work = process.make_caches(places.cache)
        self.caches_at_start = surroundings.caches(places.cache)
        command, variables = self._launch()
        self.began = time.monotonic()
        self.child: Child = children.adopt(process.spawn(command, variables, work, places.server_log))
        self._memory = exits.Before.now(self.child.pid)
        self._early = Shown.of(self.child.pid)

    def _server_argv(self, port: int) -> list[str]:
        return self._engine.argv(self._order, self.model, port)

    def _launch(self) -> tuple[list[str], dict[str, str]]:
        """The command that is spawned, and its variables."""
        order = self._order
        return self.argv, process.environment(
            os.environ, order.variables, self._boot, self._places.cache, self._engine.passed
        )

    @property
    def alive(self) -> bool:
        """Whether the server's first process runs."""
        self._children.reap()
        return self.child.status is None

    @property
    def pid(self) -> int:
        """The pid of the server's first process."""
        return self.child.pid

    def roots(self) -> list[int]:
        """Processes that are ours, with all their descendants, although they are not descendants of the supervisor."""
        return []

    def shown(self) -> Shown:
        """What it shows of how it was started; as it showed at its start where it has written over that since."""
        late = Shown.of(self.pid)
        return late if late.whole(self._boot) else self._early

    def runtime(self, known: Runtime) -> Runtime:
        """Version of its interpreter and where its packages lie on this machine. known: from `runtime_of`."""
        return known

    def knobs(self) -> tuple[Knob, ...]:
        """What was asked of the launcher itself."""
        return ()

    def facts(self) -> dict[str, Any]:
        """Further facts of its identity."""
        return {}

    def memory(self) -> str:
        """Kills for memory since it was started, in words; "" for none."""
        return exits.memory(self._memory)

    def cause(self) -> str:
        """Why it ended; only after it has."""
        return exits.cause(self.child.status or 0, self.child.pid, self._memory)

    def end(self, grace_s: float) -> str:
        """SIGTERM, `grace_s`, SIGKILL; returns how it ended, in words."""
        if not self.alive:
            return self.cause()
        procfs.send(self.child.pid, self.child.start, signal.SIGTERM)
        if self._children.wait(self.child, grace_s):
            return f"{exits.describe(self.child.status or 0)} after SIGTERM"
        return self._killed(grace_s)

    def _killed(self, grace_s: float) -> str:
        procfs.send(self.child.pid, self.child.start, signal.SIGKILL)
        if self._children.wait(self.child, 10.0):
            return f"{exits.describe(self.child.status or 0)}: it had not ended {grace_s:g} s after SIGTERM"
        return f"{tree.STILL} 10 s after SIGKILL (process {self.child.pid})"


class Contained(Running):
    """A server in a container; the process that we own is the engine's command, which stays in the foreground."""

    def _server_argv(self, port: int) -> list[str]:
        self.name = f"rungproof-{self._boot}"
        self._asked: dict[str, Any] = dict(self._order.launch["container"])
        self._tool = self._order.container_engine
        self._found, self._looked = 0, 0.0
        self._inside = replace(self._order, python=str(self._asked.get("python", "python3")))
        return container.moved(self._engine.argv(self._inside, self.model, port), self._order.model_path)

    def _launch(self) -> tuple[list[str], dict[str, str]]:
        order = self._order
        container.note(self._places, self._tool, self.name)
        words = container.command(
            self._tool, order.container_arguments, self.name, order.session, self._boot, self._asked, order.model_path, self._places.cache,
            container.inside(order.variables, self._boot), self.argv,
        )  # fmt: skip
        return words, container.client()

    @property
    def pid(self) -> int:
        """The pid of the container's first process on this machine; until there is one, that of the engine's command."""
        if not self._found and time.monotonic() - self._looked >= LOOK_S:
            self._looked = time.monotonic()
            pid = container.state(container.inspect(self._tool, self.name)).get("Pid")
            if isinstance(pid, int) and pid > 1:
                self._found = pid
                self._memory = exits.Before.now(pid)
        return self._found or self.child.pid

    def roots(self) -> list[int]:
        """The container's first process."""
        pid = self.pid
        return [pid] if pid != self.child.pid else []

    def shown(self) -> Shown:
        """What the engine says that runs in the container."""
        found = container.inspect(self._tool, self.name)
        return Shown(container.command_line(found), container.variables(found), container.SOURCE, container.SOURCE)

    def runtime(self, known: Runtime) -> Runtime:
        """Asked inside the container; its folders are read through its first process."""
        python = self._engine.python(self._inside)
        if not Path(python).name.startswith("python"):
            return "", []
        status, text = container.ask(self._tool, "exec", self.name, python, "-I", "-c", identity.ASK)
        version, folders = identity.told(text) if status == 0 else ("", [])
        root = Path(f"/proc/{self.pid}/root")
        return version, [root / str(folder).lstrip("/") for folder in folders]

    def knobs(self) -> tuple[Knob, ...]:
        """Image, mounts, memory, devices, network."""
        return container.knobs(
            self._tool, container.inspect(self._tool, self.name), self._asked, self._order.model_path
        )

    def facts(self) -> dict[str, Any]:
        """The image that really runs."""
        found = container.inspect(self._tool, self.name)
        image = container.inspect(self._tool, str(self._asked["image"]), "image")
        digests = image.get("RepoDigests")
        return {
            "image": f"sha256:{str(found.get('Image', '')).removeprefix('sha256:')}", "image_digests": sorted(map(str, digests or [])),
            "container_engine": Path(self._tool[0]).name,
        }  # fmt: skip

    def cause(self) -> str:
        """The container's own end where the engine still knows it, else that of the engine's command."""
        found = container.state(container.inspect(self._tool, self.name))
        text = super().cause()
        if found.get("OOMKilled") is True:
            limit = f" at its limit of {self._asked['memory']}" if self._asked.get("memory") else ""
            text += f"; out of memory: the engine says that the container was killed{limit}"
        return text

    def end(self, grace_s: float) -> str:
        """The engine's own stop, which sends SIGTERM and after `grace_s` SIGKILL; then the container is removed."""
        if self.alive:
            container.ask(self._tool, "stop", "-t", str(max(1, round(grace_s))), self.name, seconds=grace_s + 30.0)
            if self._children.wait(self.child, 10.0):
                text = f"{exits.describe(self.child.status or 0)} after SIGTERM"
            else:
                text = self._killed(grace_s)
        else:
            text = self.cause()
        left = container.remove(self._places)
        return f"{text}; {left}" if left else text


def runtime_of(order: Order, engine: Engine) -> Runtime:
    """The interpreter of a server that is a process of this machine, asked before it is started; ("", []) for a container."""
    return ("", []) if order.launch.get("launcher") == "container" else identity.interpreter(engine.python(order))


def start(places: Places, order: Order, engine: Engine, children: Children, port: int, boot: str) -> Running:
    """Start the server by the launcher that its lane names. Raises OSError."""
    kind = Contained if order.launch.get("launcher") == "container" else Running
    return kind(places, order, engine, children, port, boot)


def served_name(order: Order, boot: str) -> str:
    """The name under which the server answers; it carries the boot, so no other server can be mistaken for it."""
    return f"{order.launch.get('model', 'model')}-{boot}"


def family(
    children: Children, guard_pid: int | None, listed: Path, roots: Callable[[], Sequence[int]] = list
) -> Callable[[], list[procfs.Process]]:
    """A finder of every process that came from us: our descendants, those below `roots`, and those that the guard once saw as such."""
    me = os.getpid()
    supervisor = procfs.owner_of(me)

    def find() -> list[procfs.Process]:
        children.reap()
        also = list(roots())
        among = procfs.table()
        found = {one.pid: one for one in procfs.descendants([me, *also], among) if one.pid != guard_pid}
        found |= {pid: among[pid] for pid in also if pid in among and not among[pid].gone}
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
