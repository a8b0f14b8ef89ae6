"""What is left when something of a session is killed: server, supervisor, guard, owner, job."""

import json
import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from measure.serving_bench import Bench, opened, until, whats
from rungproof.measure import serving
from rungproof.measure.serving import lock, procfs, tree
from rungproof.measure.workloads.canary import run_canary
from rungproof.records.codec import canonical, read
from rungproof.records.errors import HostError, ServerError
from rungproof.records.files import write_atomic
from rungproof.records.formats import Canary, Server

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="servers are owned by means of /proc"),
    pytest.mark.timeout(600),
]
bench = pytest.fixture(opened)


def test_children_that_outlive_a_killed_server_are_ended_and_listed(bench: Bench) -> None:
    """After kill -9 of the server its orphaned helper is found and ended, and the session is closed with the cause."""
    server = bench.start(bench.asking(fork_child=True))
    assert server.pid is not None
    held = bench.guarded(2)
    child = next((pid, start) for pid, start, _name in held.processes if pid != server.pid)
    run_canary(bench.folder, "before", "job")
    os.kill(server.pid, signal.SIGKILL)
    closed = bench.closed()
    assert not procfs.alive(*child)
    assert [text for text in closed.leftovers if f"({child[0]}), ended by SIGTERM" in text] == list(closed.leftovers)
    assert len(closed.leftovers) == 1
    assert closed.by == "supervisor"
    assert not closed.sound
    assert closed.reasons[0].found.startswith("killed by SIGKILL")


def test_the_cause_of_a_death_outlives_the_removal_of_its_record(bench: Bench) -> None:
    """Snakemake removes a job's output before it starts the job: stop then gives the supervisor's own account back, not a guess."""
    server = bench.start()
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    closed = bench.closed()
    (bench.folder / "closed.json").unlink()
    assert serving.stop(bench.folder) == closed
    assert closed.by == "supervisor"
    assert read(type(closed), bench.folder / "closed.json") == closed


def test_a_server_that_ignores_sigterm_is_killed_after_its_grace(bench: Bench) -> None:
    """Closing never hangs on a server that does not want to end."""
    bench.start(bench.asking(ignore_sigterm=True, fork_child=True))
    closed = serving.stop(bench.folder)
    assert closed.exit == "killed by SIGKILL: it had not ended 1 s after SIGTERM"
    assert len(closed.leftovers) == 1
    assert "ended by SIGKILL" in closed.leftovers[0]


def test_the_tree_ends_when_the_supervisor_is_killed(bench: Bench) -> None:
    """kill -9 of the supervisor: even a server that ignores SIGTERM is ended, and the session is mended."""
    server = bench.start(bench.asking(ignore_sigterm=True, fork_child=True))
    held = bench.guarded(2)
    os.kill(held.supervisor[0], signal.SIGKILL)
    closed = serving.stop(bench.folder)
    assert not [one for one in held.processes if procfs.alive(one[0], one[1])]
    ended = json.loads((bench.folder / "control/guard.json").read_text())["ended"]
    assert len(ended) == 2
    assert all(text.endswith("ended by SIGKILL") for text in ended)
    assert (closed.by, closed.sound, closed.boot) == ("repair", False, server.boot)


def test_a_well_behaved_server_ends_by_itself_when_the_supervisor_is_killed(bench: Bench) -> None:
    """kill -9 of the supervisor gives the server a SIGTERM, and time to end its own children."""
    bench.start(bench.asking(fork_child=True))
    held = bench.guarded(2)
    os.kill(held.supervisor[0], signal.SIGKILL)
    until((bench.folder / "control/guard.json").exists)
    assert json.loads((bench.folder / "control/guard.json").read_text()) == {"ended": [], "left": []}
    assert not [one for one in held.processes if procfs.alive(one[0], one[1])]


def test_the_host_stays_locked_until_the_tree_has_ended(bench: Bench) -> None:
    """While the guard still ends the tree of a killed supervisor, no other campaign can begin on the host."""
    bench.start(bench.asking(ignore_sigterm=True))
    held = bench.guarded()
    server = held.processes[0][:2]
    assert held.guard is not None
    os.kill(held.guard[0], signal.SIGSTOP)  # so that we look before it has ended anything
    os.kill(held.supervisor[0], signal.SIGKILL)
    until(lambda: not procfs.alive(*held.supervisor))

    def free() -> bool:
        try:
            lock.release(lock.take(Path(bench.order.lock), "second", "r001.other.a"))
        except HostError as error:
            return "is held by" not in str(error)
        return True

    assert procfs.alive(*server)
    assert not free()
    os.kill(held.guard[0], signal.SIGCONT)
    until(free)
    assert not procfs.alive(*server)


def test_a_killed_guard_is_replaced(bench: Bench) -> None:
    """There is always a second watcher: a new one takes the place of one that was killed."""
    bench.start()
    first = bench.guarded().guard
    assert first is not None
    os.kill(first[0], signal.SIGKILL)
    until(lambda: bench.listed().guard != first)
    assert serving.stop(bench.folder).exit == "exit code 0 after SIGTERM"


def test_repair_ends_what_was_recorded_when_supervisor_and_guard_are_gone(bench: Bench) -> None:
    """The next run finds and ends a server that has lost both its watchers, and closes its session."""
    bench.start(bench.asking(ignore_sigterm=True))
    held = bench.guarded()
    assert held.guard is not None
    os.kill(held.guard[0], signal.SIGSTOP)  # a dead guard would be replaced
    os.kill(held.supervisor[0], signal.SIGKILL)
    os.kill(held.guard[0], signal.SIGKILL)
    until(lambda: not procfs.alive(*held.supervisor))
    assert procfs.alive(*held.processes[0][:2])
    closed = serving.repair(bench.folder)
    assert not procfs.alive(*held.processes[0][:2])
    assert (closed.by, len(closed.leftovers)) == ("repair", 1)


def test_after_a_sigkill_of_everything_at_once_the_next_run_ends_what_is_left(bench: Bench) -> None:
    """Owner, supervisor, guard and server killed in one moment: the child that nobody looks after is found and ended by repair."""
    owner, (pid, start) = bench.helper()
    server = bench.start(replace(bench.asking(fork_child=True, ignore_sigterm=True), owner_pid=pid, owner_start=start))
    held = bench.guarded(2)
    assert held.guard is not None
    assert server.pid is not None
    (child,) = [(one[0], one[1]) for one in held.processes if one[0] != server.pid]
    at_once = (held.guard[0], held.supervisor[0], server.pid)
    for one in at_once:
        os.kill(one, signal.SIGSTOP)  # so that none of them sees another one die
    owner.kill()
    for one in at_once:
        os.kill(one, signal.SIGKILL)
    until(lambda: not any(procfs.alive(*pair) for pair in (held.supervisor, held.guard or (0, 0))))
    assert procfs.alive(*child)
    closed = serving.repair(bench.folder)
    assert not procfs.alive(*child)
    assert (closed.by, closed.sound) == ("repair", False)
    assert [text for text in closed.leftovers if f"({child[0]})" in text] == list(closed.leftovers)
    assert lock.holder(Path(bench.order.lock)) is None


def test_repair_leaves_alone_what_is_not_ours(bench: Bench) -> None:
    """A recorded pid that now belongs to another process, or to another boot of the machine, is not touched."""
    helper, (pid, start) = bench.helper()
    for name, boot, began in (("reused", procfs.boot_id(), start - 1), ("rebooted", "another boot", start)):
        folder = bench.root / name
        write_atomic(folder / "control/order.json", canonical(bench.order))
        held = tree.Recorded((1, 0), None, ((pid, began, "sleep"),), boot, tree.host())
        write_atomic(folder / "control/tree.json", canonical(held))
        assert serving.repair(folder).leftovers == ()
        assert read(Server, folder / "server.json").status == "failed"
    assert helper.poll() is None


def test_a_session_of_another_host_is_not_closed_here(bench: Bench) -> None:
    """On a shared disk a session is closed on the host where its processes are."""
    folder = bench.root / "elsewhere"
    write_atomic(folder / "control/order.json", canonical(bench.order))
    write_atomic(folder / "control/tree.json", canonical(tree.Recorded((1, 0), None, (), "boot", "far-host")))
    with pytest.raises(HostError, match="far-host"):
        serving.repair(folder)
    assert not (folder / "closed.json").exists()


def test_repair_does_not_touch_a_session_that_is_in_use(bench: Bench) -> None:
    """A session whose owner and supervisor live is refused, and goes on."""
    bench.start()
    assert serving.supervised(bench.folder)
    with pytest.raises(HostError, match="still open"):
        serving.repair(bench.folder)
    assert run_canary(bench.folder, "before", "job").status == "passed"


def test_a_session_whose_owner_is_gone_is_finished_by_the_supervisor(bench: Bench) -> None:
    """kill -9 of the owner: a job that hangs is ended, the canary is still made, and what was measured stays sound."""
    owner, (pid, start) = bench.helper()
    job, pair = bench.helper()
    bench.start(replace(bench.order, owner_pid=pid, owner_start=start))
    assert run_canary(bench.folder, "before", "job").status == "passed"
    write_atomic(bench.folder / "control/job.json", canonical({"pid": pair[0], "start": pair[1]}))
    owner.kill()  # and not reaped: a zombie counts as gone
    closed = bench.closed()
    assert job.wait(60) == -signal.SIGKILL
    assert read(Canary, bench.folder / "canary_after.json").by == "supervisor"
    assert (closed.by, closed.sound, whats(closed)) == ("supervisor", True, ["owner gone"])


def test_an_owner_that_is_gone_starts_nothing(bench: Bench) -> None:
    """A job whose owner has ended ends too, and the server that it asked for is not left running."""
    owner, (pid, start) = bench.helper()
    owner.kill()
    with pytest.raises(ServerError, match="has ended"):
        bench.start(replace(bench.order, owner_pid=pid, owner_start=start))
    assert "owner gone" in whats(bench.closed())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_supervisor_closes_in_order(bench: Bench, number: signal.Signals) -> None:
    """SIGTERM or SIGINT to the supervisor ends the server properly and says so in the record."""
    bench.start()
    os.kill(bench.listed().supervisor[0], number)
    closed = bench.closed()
    assert (closed.by, closed.exit) == ("supervisor", "exit code 0 after SIGTERM")
    assert (closed.reasons[0].what, closed.reasons[0].found) == ("supervisor was told to end", number.name)


def test_a_ctrl_c_in_the_terminal_reaches_neither_supervisor_nor_server(bench: Bench) -> None:
    """Supervisor, guard and server each have a session of their own, so no terminal signals them."""
    server = bench.start()
    held = bench.guarded()
    assert held.guard is not None
    assert server.pid is not None
    sessions = [os.getsid(pid) for pid in (held.supervisor[0], held.guard[0], server.pid)]
    assert len({*sessions, os.getsid(0)}) == 4


def test_a_supervisor_killed_before_ready_is_reported_by_the_job(bench: Bench) -> None:
    """The job that waits does not wait for ever: it writes the failed record itself, and the tree ends."""
    bench.fault(do="never_ready")
    made: list[Server] = []
    job = threading.Thread(target=lambda: made.append(bench.start()))
    job.start()
    until((bench.folder / "control/tree.json").exists)
    held = bench.guarded()
    os.kill(held.supervisor[0], signal.SIGKILL)
    job.join(90)
    assert made[0].status == "failed"
    assert made[0].reasons[0].found == "killed by SIGKILL"
    assert serving.stop(bench.folder).by == "repair"
    assert not [one for one in held.processes if procfs.alive(one[0], one[1])]


def test_a_stop_before_ready_ends_the_start(bench: Bench) -> None:
    """A session can be stopped while its server is still loading."""
    bench.fault(do="never_ready")
    made: list[Server] = []
    job = threading.Thread(target=lambda: made.append(bench.start()))
    job.start()
    until((bench.folder / "control/tree.json").exists)
    assert serving.stop(bench.folder).exit
    job.join(90)
    assert whats(made[0])[0] == "stopped before it was ready"


def test_a_skipped_session_closes_without_having_run(bench: Bench) -> None:
    """Where a gate forbade the start, stopping the session records that nothing ran, and calls it nobody's fault."""
    order = bench.order
    skipped = Server(
        order.session, order.arm, order.replicate, "skipped", (), "", "", "", order.launch, order.launch_sha256, (), {},
        {}, None, "2026-01-01T00:00:00Z", None,
    )  # fmt: skip
    write_atomic(bench.folder / "control/order.json", canonical(order))
    write_atomic(bench.folder / "server.json", canonical(skipped))
    closed = serving.stop(bench.folder)
    assert (closed.by, closed.sound, closed.exit) == ("job", False, "never started")
