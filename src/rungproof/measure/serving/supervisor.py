"""The process that owns a server: starts it, proves it, watches it, and ends it and all its children.

    python -m rungproof.measure.serving.supervisor FOLDER

It reads control/order.json and writes server.json and, always last, closed.json. It closes the session when
control/stop appears, when the server exits, when the process that asked is gone, or at SIGTERM, SIGINT or SIGHUP.
"""

import os
import re
import secrets
import signal
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from rungproof.measure.serving import (
    census,
    engines,
    identity,
    knobs,
    lock,
    procfs,
    ready,
    report,
    rivals,
    running,
    tree,
)
from rungproof.measure.serving.children import Children, Guard
from rungproof.measure.serving.engines.engine import Engine
from rungproof.measure.serving.kernel_log import KernelWatch
from rungproof.measure.serving.launch.process import become_subreaper
from rungproof.measure.serving.order import Order, Places, last_lines, read_order
from rungproof.measure.serving.surroundings import Surroundings
from rungproof.records.errors import RungproofError
from rungproof.records.formats import Knob, Reason, Server

JOB_GRACE_S = 3.0
FAULTS_EVERY_S = 1.0
LOG = "logs/server.log"


class Supervisor:
    """One session, from the lock to closed.json."""

    def __init__(self, folder: Path) -> None:
        self.places = Places(folder)
        self.order: Order = read_order(folder)
        self.boot = secrets.token_hex(8)
        self.children = Children()
        self.lock: int | None = None
        self.guard: Guard | None = None
        self.server: running.Running | None = None
        self.knobs: tuple[Knob, ...] = ()
        self.identity: dict[str, Any] = {}
        self.environment: dict[str, Any] = {}
        self.surroundings: Surroundings | None = None
        self.ready_s: float | None = None
        self.told: str | None = None
        self.log: ready.LogWatch | None = None
        self.kernel_log: KernelWatch | None = None

    def hear(self, number: int, _frame: FrameType | None) -> None:
        """A signal asks to close; the loops look at it."""
        self.told = signal.Signals(number).name

    def run(self) -> int:
        """The whole life. Returns 0 if both records were written."""
        try:
            reasons = self.open()
        except RungproofError as error:
            reasons = (Reason("not started", str(error)),)
        except Exception as error:  # whatever fails, the server must be ended
            traceback.print_exc()
            reasons = (Reason("supervisor failed", repr(error), where="logs/supervisor.log"),)
        by: Literal["job", "supervisor"] = "supervisor"
        if not reasons and report.save(self.places.server, self._record(())):
            by, reasons = self._watched()
            return self.close(by, reasons, opened=True)
        return self.close(
            by, reasons or (Reason("server.json could not be written", where="logs/supervisor.log"),), opened=False
        )

    def open(self) -> tuple[Reason, ...]:
        """Lock, port, guard, server, readiness, knobs. () if the server is ready; else why not."""
        order, places = self.order, self.places
        tree.record(places.tree, procfs.owner_of(os.getpid()), None, ())
        engine = engines.find(str(order.launch.get("engine")))
        try:
            self.log = ready.LogWatch(places.server_log, order.fault_lines)
            self.kernel_log = KernelWatch(order.kernel_fault_lines)
        except re.error as error:
            return (Reason("fault line is no regular expression", str(error), "a regular expression", "fault_lines"),)
        except OSError as error:
            return (
                Reason(
                    "kernel log cannot be read",
                    str(error),
                    "readable, as the host profile watches it",
                    "kernel_fault_lines",
                ),
            )
        self.lock = lock.take(Path(order.lock), order.campaign, order.session, places.folder)
        port = procfs.free_port(order.port)
        self.surroundings = Surroundings(places, order, self.boot)
        if reasons := self.surroundings.occupied():
            return reasons
        known = running.runtime_of(order, engine)  # a child of ours for a moment: before the guard keeps its list
        self.guard = Guard(places, self.children, order.stop_grace_s, self.lock)
        if reasons := self._interrupted():
            return reasons
        try:
            server = running.start(places, order, engine, self.children, port, self.boot)
        except OSError as error:
            return (Reason("server could not be started", str(error), "a command that runs", engine.python(order)),)
        self.server = server
        self.environment = self.surroundings.at_start(server.pid)
        deadline = server.began + order.ready_deadline_s
        find = running.family(self.children, self.guard.pid, places.tree, server.roots)
        probe = ready.Probe(server.url, server.model, deadline)
        reasons = ready.wait(self.log, ready.PortWatch(port, find), probe, self._interrupted, deadline)
        if reasons:
            return (*(replace(reason, found=order.portable(reason.found)) for reason in reasons), *self._tail())
        self.ready_s = round(time.monotonic() - server.began, 3)
        runtime, shown = server.runtime(known), server.shown()
        children = [one.pid for one in find() if one.pid != server.pid]
        self.environment, unmet = self.surroundings.before(
            server.pid, shown.variables, runtime[1], children, server.caches_at_start
        )
        return (*self._prove(engine, server, shown, runtime), *unmet)

    def _prove(
        self, engine: Engine, server: running.Running, shown: knobs.Shown, runtime: tuple[str, list[Path]]
    ) -> tuple[Reason, ...]:
        order = self.order
        text, whole = census.read_log(self.places.server_log)
        self.identity = (
            identity.describe(order, engine, server.url, server.model, server.argv, text, runtime, server.pid)
            | server.facts()
        )
        self.knobs = tuple(
            knobs.portable(knob, order)
            for knob in (
                *knobs.verify(engine, order.arguments, order.variables, shown, text),
                *server.knobs(),
                *census.verify(order.census, text, whole),
                *identity.version_knobs(engine, self.identity),
            )
        )
        self.identity |= rivals.of(engine, order, text)
        return (
            *knobs.reasons(self.knobs),
            *rivals.equal(self.places.folder.parent, order, self.identity["effective_sha256"]),
        )

    def _census_after(self) -> tuple[Reason, ...]:
        """Lines that must not appear, looked for once more in all that the server has said by its end."""
        demands = {key: demand for key, demand in self.order.census.items() if "absent" in demand}
        found = census.verify(demands, *census.read_log(self.places.server_log)) if demands else ()
        return knobs.reasons(tuple(knobs.portable(knob, self.order) for knob in found))

    def _interrupted(self) -> tuple[Reason, ...]:
        """Why to stop waiting for readiness; () to go on."""
        self._tend()
        if self.server is not None and not self.server.alive:
            return (Reason("server exited", self.server.cause(), "a server that runs", LOG),)
        if self.places.stop.exists():
            return (Reason("stopped before it was ready", "control/stop"),)
        if self.told:
            return (Reason("supervisor was told to end", self.told),)
        if not self._owned():
            return (self._orphan_reason(),)
        return self._kernel_fault()

    def _kernel_fault(self) -> tuple[Reason, ...]:
        line = self.kernel_log.fault() if self.kernel_log else None
        return (Reason("fault line in the kernel's log", line, "no such line", "/dev/kmsg"),) if line else ()

    def _faults(self) -> tuple[Reason, ...]:
        """Fault lines of a server that is ready: it may go on to answer, and nothing that it answers can be used."""
        line = self.log.fault() if self.log else None
        if line:
            why = self.server.memory() if self.server else ""
            killed = (Reason("process killed for memory", why, "none"),) if why else ()
            return (Reason("fault line in the log", self.order.portable(line), "no such line", LOG), *killed)
        return self._kernel_fault()

    def _watched(self) -> tuple[Literal["job", "supervisor"], tuple[Reason, ...]]:
        try:
            return self.watch()
        except Exception as error:  # whatever fails, the server must be ended
            traceback.print_exc()
            return "supervisor", (Reason("supervisor failed", repr(error), where="logs/supervisor.log"),)

    def watch(self) -> tuple[Literal["job", "supervisor"], tuple[Reason, ...]]:
        """Wait for whatever closes the session: who closes it, and why if nobody asked for it."""
        looked = 0.0
        while True:
            self._tend()
            if time.monotonic() - looked >= FAULTS_EVERY_S:
                looked = time.monotonic()
                if faults := self._faults():
                    return "supervisor", (*faults, *self._tail())
            if self.places.stop.exists():
                return "job", ()
            if self.told:
                return "supervisor", (Reason("supervisor was told to end", self.told),)
            if self.server is None or not self.server.alive:
                cause = self.server.cause() if self.server else "never started"
                return "supervisor", (
                    Reason("server exited", cause, "a server that runs until it is stopped", LOG),
                    *self._tail(),
                )
            if not self._owned():
                return "supervisor", (self._orphan_reason(), *self._finish_for_owner())
            time.sleep(tree.POLL_S)

    def _finish_for_owner(self) -> tuple[Reason, ...]:
        """Let the job in hand end, end it if it does not, then make the canary that it would have made."""
        job = tree.read_pair(self.places.job)
        until = time.monotonic() + JOB_GRACE_S
        while job is not None and procfs.alive(*job) and time.monotonic() < until:
            self._tend()
            time.sleep(tree.POLL_S)
        if job is not None and procfs.alive(*job):
            procfs.send(*job, signal.SIGKILL)
        if self.server is None or not self.server.alive or self.places.canary("after").exists():
            return ()
        try:
            from rungproof.measure.workloads.canary import run_canary

            run_canary(self.places.folder, "after", "supervisor")
        except Exception as error:  # whatever fails, the server must be ended
            traceback.print_exc()
            return (Reason("canary could not be run", repr(error), where="logs/supervisor.log"),)
        return ()

    def close(self, by: Literal["job", "supervisor"], reasons: tuple[Reason, ...], opened: bool) -> int:
        """End everything, write what is left to write, closed.json last. Returns 0 if it was written."""
        lived = self.server is not None and self.server.alive
        if opened and not lived and not any(reason.what == "server exited" for reason in reasons):
            reasons = (
                *reasons,
                Reason("server exited", self.server.cause() if self.server else "never started", where=LOG),
            )
        changed = self.surroundings.after(self.server.pid, lived) if self.surroundings and self.server else ()
        exit_text = self.server.end(self.order.stop_grace_s) if self.server else "never started"
        lived_s = round(time.monotonic() - self.server.began, 3) if self.server else None
        roots = self.server.roots if self.server else list
        find = running.family(self.children, self.guard.pid if self.guard else None, self.places.tree, roots)
        leftovers = running.sweep(find)
        running.remove_cache(self.places)
        if self.guard:
            self.guard.end()
        unclean = self._unclean(exit_text, leftovers)
        if unclean:  # before the lock is given back, so that nobody slips in between
            lock.latch(Path(self.order.lock), self.order.session, unclean)
        if self.lock is not None:
            lock.release(self.lock)
        written = opened or report.save(self.places.server, self._record(reasons))
        doubts = (*report.unsound(self.places, self.boot), *self._census_after(), *changed) if opened else ()
        record = report.closed(
            self.order,
            self.boot,
            by,
            opened and lived and not doubts,
            (
                *reasons,
                *doubts,
                *(
                    Reason("host is not clean", text, "nothing left; it is latched until a person looks")
                    for text in unclean
                ),
            ),
            exit_text,
            leftovers,
            lived_s,
        )
        # Kept twice: where the server died, Snakemake starts `server_stop` afterwards and first removes its output.
        kept = report.save(self.places.kept_closed, record)
        return 0 if report.save(self.places.closed, record) and kept and written else 1

    def _unclean(self, exit_text: str, leftovers: tuple[str, ...]) -> tuple[str, ...]:
        """What of this session is still there after its end: processes that do not die, memory that is not given back."""
        left = [text for text in (exit_text, *leftovers) if tree.STILL in text]
        return (*left, *(self.surroundings.left() if self.surroundings and self.server else ()))

    def _record(self, reasons: tuple[Reason, ...]) -> Server:
        server = self.server
        return report.server(
            self.order,
            reasons,
            boot=self.boot,
            url=server.url if server else "",
            model=server.model if server else running.served_name(self.order, self.boot),
            knobs=self.knobs,
            identity=self.identity,
            environment=self.environment,
            pid=server.pid if server else None,
            ready_s=self.ready_s,
        )

    def _tend(self) -> None:
        self.children.reap()
        if self.guard:
            self.guard.keep()

    def _owned(self) -> bool:
        return procfs.alive(self.order.owner_pid, self.order.owner_start)

    def _orphan_reason(self) -> Reason:
        return Reason(
            "owner gone", f"process {self.order.owner_pid} has ended", "the process that asked for the session"
        )

    def _tail(self) -> tuple[Reason, ...]:
        text = self.order.portable(last_lines(self.places.server_log))
        return (Reason("last log lines", text, where=LOG),) if text else ()


def main(arguments: list[str]) -> int:
    """Supervise the session in the folder given."""
    procfs.require_linux()
    supervisor = Supervisor(Path(arguments[0]))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, supervisor.hear)
    become_subreaper()
    return supervisor.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
