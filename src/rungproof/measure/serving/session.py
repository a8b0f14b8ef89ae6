"""What a job calls: start a session's server, stop it, and mend a session whose supervisor was killed."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rungproof.measure.serving import engines, lock, procfs, ready, report, running, tree
from rungproof.measure.serving.children import module_environment
from rungproof.measure.serving.launch import container
from rungproof.measure.serving.order import Order, Places, last_lines, read_order, write_order
from rungproof.records.codec import read
from rungproof.records.errors import HostError, ServerError
from rungproof.records.files import write_atomic
from rungproof.records.formats import Closed, Reason, Server

_DETACHED: list["subprocess.Popen[bytes]"] = []  # they outlive the call that started them; reaped when we look again
CLOSE_S = 120.0  # beyond the server's own grace: a canary by the supervisor, the sweep, a slow disk


def start(folder: Path, order: Order, tell: Callable[[str], None] = lambda _words: None) -> Server:
    """Start a supervisor for `order` in `folder` and wait for server.json; its status is ready or failed.

    `tell` gets the words of each phase of the start, as the server's log reaches it.
    Raises ServerError if the folder already holds a session, or if the process that asked is gone; HostError where
    nothing can be started or written.
    """
    procfs.require_linux()
    places = Places(folder.absolute())
    if places.order.exists() or places.server.exists() or places.closed.exists():
        raise ServerError(f"{folder}: already holds a session; sessions are never started again, expected a new folder")
    write_order(places.folder, order)
    places.supervisor_log.parent.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "rungproof.measure.serving.supervisor", str(places.folder)]
    with places.supervisor_log.open("ab") as log:
        supervisor = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=module_environment()
        )
    _DETACHED.append(supervisor)
    _record_supervisor(places, supervisor.pid)
    phases = ready.PhaseWatch(places.server_log, engines.find(str(order.launch.get("engine"))).phases)
    while not places.server.exists():
        code = supervisor.poll()
        if code is not None and not places.server.exists():
            _write_failed(places, order, "supervisor ended", _exit(code))
        elif not procfs.alive(order.owner_pid, order.owner_start):
            raise ServerError(
                f"process {order.owner_pid}, which asked for {order.session}, has ended; the supervisor closes it"
            )
        else:
            if words := phases.reached():
                tell(words)
            time.sleep(tree.POLL_S)
    return read(Server, places.server)


def _record_supervisor(places: Places, pid: int) -> None:
    """It records itself too, but a moment later, and this job may be killed in that moment."""
    found = procfs.process(pid)
    if found is not None and not places.tree.exists():
        tree.record(places.tree, (pid, found.start), None, ())


def supervised(folder: Path) -> bool:
    """Whether the supervisor of this session runs on this machine. Raises EvidenceError for a damaged tree.json."""
    held = tree.recorded(Places(folder.absolute()).tree)
    return held is not None and held.here and procfs.alive(*held.supervisor)


def stop(folder: Path) -> Closed:
    """Ask the supervisor to close the session and wait until it has; mend the session if the supervisor is gone.

    Raises EvidenceError if no session was ever started there, ServerError if the supervisor does not close it.
    """
    places = Places(folder.absolute())
    order = read_order(places.folder)
    if not places.closed.exists() and not places.kept_closed.exists():
        write_atomic(places.stop, b"{}\n")
    return _closing(places, order)


def repair(folder: Path) -> Closed:
    """Close a session that an earlier run left open. Ends only processes that this session recorded as its own.

    Returns closed.json as it is if there is one. Raises HostError if the session is still open under a running owner,
    or was opened on another host; EvidenceError if no session was ever started there.
    """
    places = Places(folder.absolute())
    order = read_order(places.folder)
    if supervised(folder) and not places.closed.exists() and procfs.alive(order.owner_pid, order.owner_start):
        raise HostError(f"{folder}: still open under process {order.owner_pid}; wait until that run has ended")
    return _closing(places, order)


def _closing(places: Places, order: Order) -> Closed:
    until = time.monotonic() + order.stop_grace_s + CLOSE_S
    while not places.closed.exists():
        if places.kept_closed.exists():
            write_atomic(places.closed, places.kept_closed.read_bytes())
            break
        held = tree.recorded(places.tree)
        if held is not None and held.host != tree.host():
            raise HostError(
                f"{places.folder}: opened on host {held.host}; expected to be closed there, and this is {tree.host()}"
            )
        if held is None or not held.here or not procfs.alive(*held.supervisor):
            if not places.closed.exists():
                _close_for(places, order, held)
            break
        if time.monotonic() >= until:
            raise ServerError(
                f"{places.folder}: supervisor {held.supervisor[0]} does not close it; see {places.supervisor_log}"
            )
        time.sleep(tree.POLL_S)
    _wait_for_supervisor(places)
    return read(Closed, places.closed)


def _wait_for_supervisor(places: Places) -> None:
    """closed.json is its last file; it ends at once after that."""
    held = tree.recorded(places.tree)
    until = time.monotonic() + 5.0
    while held is not None and held.here and procfs.alive(*held.supervisor) and time.monotonic() < until:
        time.sleep(tree.POLL_S)
    _DETACHED[:] = [supervisor for supervisor in _DETACHED if supervisor.poll() is None]


def _close_for(places: Places, order: Order, held: tree.Recorded | None) -> None:
    """The end of a session whose supervisor is gone: the guard's work is awaited, then done again for what is left."""
    leftovers: tuple[str, ...] = ()
    if held is not None and held.here:
        _wait_for_guard(places, held)
        held = tree.recorded(places.tree) or held
        leftovers = _end_recorded(held, min(order.stop_grace_s, tree.LONGEST_GRACE_S))
        if left := container.remove(places):
            leftovers = (*leftovers, left)
        if still := [text for text in leftovers if tree.STILL in text]:
            lock.latch(Path(order.lock), order.session, still)
    running.remove_cache(places)
    if not places.server.exists():
        _write_failed(places, order, "supervisor ended", "before the server was ready")
    server = read(Server, places.server)
    if server.status == "skipped":  # nothing was started, so there is nothing to mend
        record = report.closed(order, server.boot, "job", False, server.reasons, "never started", (), None)
    else:
        why = Reason("supervisor ended", "no closed.json", "a session closed by its supervisor", "logs/supervisor.log")
        text = "unknown: the supervisor was gone"
        record = report.closed(order, server.boot, "repair", False, (why,), text, leftovers, None)
    if not report.save(places.closed, record):
        raise HostError(f"{places.closed}: could not be written; free some space and run the same command again")


def _wait_for_guard(places: Places, held: tree.Recorded) -> None:
    until = time.monotonic() + tree.LONGEST_GRACE_S + 15.0
    while (
        not places.guard.exists() and held.guard is not None and procfs.alive(*held.guard) and time.monotonic() < until
    ):
        time.sleep(tree.POLL_S)


def _end_recorded(held: tree.Recorded, grace_s: float) -> tuple[str, ...]:
    def find() -> list[procfs.Process]:
        found = [procfs.process(pid) for pid, start, _name in held.processes if procfs.alive(pid, start)]
        return [one for one in found if one is not None]

    told, _still = tree.end_all(find, grace_s)
    if held.guard is not None:
        procfs.send(*held.guard, signal.SIGKILL)
    return tuple(sorted(told.values()))


def _write_failed(places: Places, order: Order, what: str, found: str) -> None:
    tail = last_lines(places.supervisor_log)
    reasons = [Reason(what, found, "a supervisor that writes server.json", "logs/supervisor.log")]
    if tail:
        reasons.append(Reason("last log lines", tail, where="logs/supervisor.log"))
    if not report.save(places.server, report.server(order, tuple(reasons))):
        raise HostError(f"{places.server}: could not be written; free some space and run the same command again")


def _exit(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
