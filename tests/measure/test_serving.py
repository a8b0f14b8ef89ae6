"""A server's life under its supervisor, with the simulated server as a real process."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rungproof.measure import serving
from rungproof.measure.serving import Order, lock, procfs, tree
from rungproof.measure.workloads.canary import run_canary
from rungproof.records.codec import canonical, read
from rungproof.records.errors import HostError, ServerError
from rungproof.records.files import write_atomic
from rungproof.records.formats import Canary, Closed, Server

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="servers are owned by means of /proc"),
    pytest.mark.timeout(60),
]

SAMPLING = {
    "temperature": 0.0,
    "seed": 42,
    "stream": True,
    "stream_options": {"include_usage": True},
    "return_token_ids": True,
}
CHECK = {"id": "same", "kind": "repeat8", "prompt": "Count to ten.", "max_tokens": 8, "expect": ""}


def until(holds: Callable[[], Any], seconds: float = 30.0) -> None:
    """Wait for a condition; fail with a message that names it."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not so within {seconds} s"
        time.sleep(0.02)


def mentioning(text: str) -> list[str]:
    """Living processes whose command or environment mentions `text`, but not this one."""
    found = []
    for pid, one in procfs.table().items():
        words = (*(procfs.command_line(pid) or ()), *(procfs.variables(pid) or {}).values())
        if pid != os.getpid() and not one.gone and any(text in word for word in words):
            found.append(f"{pid} {one.name} {words[:3]}")
    return found


class Bench:
    """One session folder and the order for it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.folder = root, root / "r001.base.a"
        self.faults = root / "faults.json"
        monkeypatch.setenv("RUNGPROOF_SIM_FAULTS", str(self.faults))
        self.helpers: list[subprocess.Popen[bytes]] = []
        pid, start = serving.owner_of(os.getpid())
        self.order = Order(
            session="r001.base.a",
            campaign="try",
            arm="base",
            replicate="a",
            launch={
                "engine": "simulated",
                "model": "m",
                "arguments": {"start-s": 0.05, "token-ms": 0.1},
                "variables": {},
            },
            launch_sha256="0" * 64,
            python=sys.executable,
            model_path="",
            model_identity={"name": "m"},
            port=0,
            ready_deadline_s=15.0,
            stop_grace_s=1.0,
            lock=str(root / "host.lock"),
            owner_pid=pid,
            owner_start=start,
            canary={"sampling": SAMPLING, "checks": [CHECK], "deadline_s": 10.0, "idle_s": 5.0},
            fault_lines=("^FAULT: ",),
        )

    def asking(self, **arguments: Any) -> Order:
        """The order with further server arguments, `_` for `-`."""
        more = {key.replace("_", "-"): value for key, value in arguments.items()}
        return replace(self.order, launch={**self.order.launch, "arguments": {**self.order.arguments, **more}})

    def helper(self) -> tuple[subprocess.Popen[bytes], tuple[int, int]]:
        """A process that does nothing for a minute."""
        made = subprocess.Popen(["sleep", "60"])
        self.helpers.append(made)
        return made, serving.owner_of(made.pid)

    def start(self, order: Order | None = None) -> Server:
        return serving.start(self.folder, order or self.order)

    def fault(self, **what: Any) -> None:
        self.faults.write_text(json.dumps([what]))

    def closed(self) -> Closed:
        until((self.folder / "closed.json").exists)
        return serving.stop(self.folder)

    def listed(self) -> tree.Recorded:
        held = tree.recorded(self.folder / "control/tree.json")
        assert held is not None
        return held

    def guarded(self, processes: int = 1) -> tree.Recorded:
        """The list of processes once the guard has written it with so many in it."""
        until(lambda: self.listed().guard is not None and len(self.listed().processes) >= processes)
        return self.listed()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bench that is cleaned, and that fails the test that left a process."""
    made = Bench(tmp_path, monkeypatch)
    yield made
    if (made.folder / "control/order.json").exists():
        serving.stop(made.folder)
    for helper in made.helpers:
        helper.kill()
        helper.wait()
    until(lambda: not mentioning(str(tmp_path)), 15.0)


def whats(record: Server | Closed) -> list[str]:
    return [reason.what for reason in record.reasons]


def test_a_session_opens_proves_itself_and_closes_sound(bench: Bench) -> None:
    """A good server is ready under a name nobody else has, every knob is found in it, and nothing is left after it."""
    order = bench.asking(enforce_eager=True, enable_prefix_caching=False, speculative_config={"num_speculative_tokens": 3})
    order = replace(order, launch={**order.launch, "variables": {"VLLM_CPU_KVCACHE_SPACE": "2"}})
    server = bench.start(order)
    assert (server.status, server.reasons) == ("ready", ())
    assert server.model == f"m-{server.boot}"
    assert server.ready_s is not None
    assert len(server.boot) == 16
    assert {(knob.name, knob.found) for knob in server.knobs} == {
        ("--start-s", "0.05"),
        ("--token-ms", "0.1"),
        ("--enforce-eager", "--enforce-eager"),
        ("--enable-prefix-caching", "--no-enable-prefix-caching"),
        ("--speculative-config", '{"num_speculative_tokens":3}'),
        ("VLLM_CPU_KVCACHE_SPACE", "2"),
    }
    assert server.identity["engine_version"] == "simulated"
    assert server.identity["packages"]["requests"]
    assert server.identity["argv"][0] == "<python>"
    assert "RUNGPROOF_BOOT" in server.environment["variable_names"]
    assert server.environment["variables"]["VLLM_CPU_KVCACHE_SPACE"] == "2"
    assert run_canary(bench.folder, "before", "job").status == "passed"
    assert run_canary(bench.folder, "after", "job").status == "passed"
    closed = serving.stop(bench.folder)
    assert (closed.by, closed.sound, closed.reasons, closed.leftovers) == ("job", True, (), ())
    assert closed.exit == "exit code 0 after SIGTERM"
    assert closed.boot == server.boot
    assert not (bench.folder / "cache").exists()
    assert serving.stop(bench.folder) == serving.repair(bench.folder) == closed
    assert not serving.supervised(bench.folder)


def test_a_session_without_canaries_is_not_sound(bench: Bench) -> None:
    """A session whose canaries are missing says so for each, and is never called sound."""
    bench.start()
    closed = serving.stop(bench.folder)
    assert not closed.sound
    assert [reason.where for reason in closed.reasons] == ["canary_before.json", "canary_after.json"]


def test_a_folder_is_used_once(bench: Bench) -> None:
    """Sessions are evidence: a second start in the same folder is refused."""
    bench.start()
    with pytest.raises(ServerError, match="already holds a session"):
        bench.start()


@pytest.mark.parametrize(
    ("fault", "what", "found"),
    [
        ({"do": "exit_at_start", "code": 3}, "server exited", "exit code 3"),
        ({"do": "never_ready"}, "not ready in time", "nobody listens"),
        ({"do": "fault_line"}, "fault line in the log", "FAULT: the simulated device"),
        ({"do": "wrong_model"}, "another model is served", "another-model"),
    ],
)
def test_a_server_that_does_not_become_ready_is_reported_with_its_cause(bench: Bench, fault: dict[str, Any], what: str, found: str) -> None:
    """A start that fails ends in a failed record that says why, a closed session and a free host."""
    bench.fault(**fault)
    deadline = 1.5 if fault["do"] == "never_ready" else 15.0
    server = bench.start(replace(bench.order, ready_deadline_s=deadline))
    assert server.status == "failed"
    assert server.reasons[0].what == what
    assert found in server.reasons[0].found
    assert server.ready_s is None
    closed = bench.closed()
    assert not closed.sound
    assert what in whats(closed)
    assert Path(bench.order.lock).read_bytes() == b""


def test_a_fault_line_ends_the_wait_long_before_the_deadline(bench: Bench) -> None:
    """With a fault in its log a server is given up at once, not after the deadline."""
    bench.fault(do="fault_line")
    began = time.monotonic()
    server = bench.start(replace(bench.asking(start_s=30), ready_deadline_s=30.0))
    assert server.status == "failed"
    assert time.monotonic() - began < 10


def test_a_command_that_does_not_exist_is_named(bench: Bench) -> None:
    """An interpreter that is not there fails the start with its path, and nothing stays behind."""
    launch = {"engine": "vllm", "model": "m", "arguments": {}, "variables": {}}
    server = bench.start(replace(bench.order, launch=launch, python=str(bench.root / "none/python")))
    assert whats(server) == ["server could not be started"]
    assert "none/python" in server.reasons[0].where


def test_a_port_that_is_taken_is_refused_and_its_holder_named(bench: Bench) -> None:
    """Nothing is started on a port that another process holds; that process is named and left alone."""
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        port = foreign.getsockname()[1]
        server = bench.start(replace(bench.order, port=port))
    assert server.status == "failed"
    assert server.pid is None
    assert f"port {port} is taken by process {os.getpid()}" in server.reasons[0].found


def test_a_host_that_is_measuring_is_not_measured_on_twice(bench: Bench) -> None:
    """The second campaign on a host ends at once and says which process, campaign and session hold it."""
    bench.start()
    second = serving.start(bench.root / "other", replace(bench.order, session="r001.other.a", campaign="second"))
    assert second.status == "failed"
    assert f"process {bench.listed().supervisor[0]}, campaign try, session r001.base.a" in second.reasons[0].found
    assert read(Server, bench.folder / "server.json").status == "ready"
    serving.stop(bench.folder)
    third = serving.start(bench.root / "third", replace(bench.order, session="r002.other.a"))
    serving.stop(bench.root / "third")
    assert third.status == "ready"


def test_a_knob_that_is_not_in_force_fails_the_session(bench: Bench) -> None:
    """A variable that the running server does not have as asked makes the session invalid before any measurement."""
    server = bench.start(replace(bench.order, launch={**bench.order.launch, "variables": {"HF_HUB_OFFLINE": "0"}}))
    assert server.status == "failed"
    assert [str(reason) for reason in server.reasons] == ["HF_HUB_OFFLINE (environment): knob not in force (found 1; expected 0)"]


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
    os.kill(held.supervisor[0], signal.SIGKILL)
    refused = 0
    while not (bench.folder / "control/guard.json").exists():
        with pytest.raises(HostError, match="is held by"):
            lock.release(lock.take(Path(bench.order.lock), "second", "r001.other.a"))
        refused += procfs.alive(*server)
        time.sleep(0.05)
    assert refused, "the server was seen alive and the host locked"
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
    assert job.wait(1) == -signal.SIGKILL
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
    job.join(30)
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
    job.join(30)
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
