"""The supervisor's parts, each alone: what /proc shows, logs, the lock, environments, causes of an end."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from measure.host_trees import made
from measure.serving_bench import until
from rungproof.measure.serving import exits, lock, procfs, ready, tree
from rungproof.measure.serving.kernel_log import KernelWatch
from rungproof.measure.serving.launch import process
from rungproof.records.errors import EvidenceError, HostError

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="servers are owned by means of /proc")


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that does nothing."""
    made = subprocess.Popen(["sleep", "3600"])
    yield made
    made.kill()
    made.wait()


def fake(proc: Path, pid: int, parent: int, name: str = "x", state: str = "S", start: int = 5) -> None:
    (proc / str(pid)).mkdir(parents=True)
    fields = f"{state} {parent} 1 {pid} " + "0 " * 15 + f"{start} 0 0"
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) {fields}")


def test_a_process_name_cannot_mislead_the_reader(tmp_path: Path) -> None:
    """A process may call itself anything, brackets and spaces too: pid, parent and start time are still read right."""
    fake(tmp_path, 40, 7, name="a) S 1 1 (b", start=99)
    found = procfs.process(40, tmp_path)
    assert found == procfs.Process(40, 99, 7, 40, "S", "a) S 1 1 (b")


def test_descendants_are_found_through_zombies(tmp_path: Path) -> None:
    """A child whose parent has ended but was not yet reaped is still ours; strangers never are."""
    for pid, parent, state in ((10, 1, "S"), (11, 10, "Z"), (12, 11, "R"), (13, 1, "S"), (14, 13, "S")):
        fake(tmp_path, pid, parent, state=state)
    assert [one.pid for one in procfs.descendants([10], procfs.table(tmp_path))] == [12]


def test_a_pid_without_its_start_time_is_another_process(sleeper: "subprocess.Popen[bytes]") -> None:
    """A reused pid is neither taken for alive nor signalled; a zombie counts as gone."""
    pid, start = procfs.owner_of(sleeper.pid)
    assert procfs.alive(pid, start)
    assert not procfs.alive(pid, start + 1)
    assert not procfs.send(pid, start + 1, signal.SIGKILL)
    assert procfs.alive(pid, start)
    assert procfs.send(pid, start, signal.SIGKILL)
    until(lambda: not procfs.alive(pid, start))
    assert procfs.process(pid) is not None, "not reaped: it is a zombie"
    assert not procfs.alive(pid, start)
    with pytest.raises(HostError, match="is not running"):
        procfs.owner_of(pid)


@pytest.mark.parametrize("pid", [-1, 0, 1])
def test_no_signal_goes_to_groups_or_to_pid_1(pid: int) -> None:
    """A damaged record cannot make us signal a whole group or the first process."""
    assert not procfs.send(pid, 0, signal.SIGTERM)


def test_listeners_are_read_from_both_tables(tmp_path: Path) -> None:
    """Listeners on a port are found on IPv4 and IPv6; connections of that port are not listeners."""
    head = "  sl  local_address rem_address st tx rx tr tm retrnsmt uid timeout inode\n"
    line = "   0: {0}:1F40 00000000:0000 {1} 00000000:00000000 00:00000000 00000000 0 0 {2} 1\n"
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp").write_text(head + line.format("0100007F", "0A", 70) + line.format("0100007F", "01", 71))
    (tmp_path / "net/tcp6").write_text(head + line.format("0" * 32, "0A", 72))
    assert procfs.listeners(8000, tmp_path) == {70, 72}
    assert procfs.listeners(8001, tmp_path) == set()


def test_a_foreign_listener_on_our_port_is_told_from_our_own() -> None:
    """The port counts as ours only if every listener is a process of our server; a lasting foreign one is named."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        me = procfs.process(os.getpid())
        assert me is not None
        own = ready.PortWatch(port, lambda: [me])
        assert own.look() is None
        assert own.owned
        foreign = ready.PortWatch(port, list)
        reasons = [foreign.look() for _ in range(ready.FOREIGN_LOOKS)]
    assert not foreign.owned
    assert reasons[:-1] == [None] * (ready.FOREIGN_LOOKS - 1)
    assert reasons[-1] is not None
    assert str(os.getpid()) in reasons[-1].found


@pytest.fixture
def slow_to_answer() -> Iterator[tuple[ThreadingHTTPServer, threading.Event, threading.Event]]:
    """A server that names its model at once and completes nothing before it may: (server, it was asked, it may answer)."""
    asked, may = threading.Event(), threading.Event()

    class Answer(BaseHTTPRequestHandler):
        def say(self, text: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_GET(self) -> None:
            self.say(b'{"data": [{"id": "m"}]}')

        def do_POST(self) -> None:
            asked.set()
            may.wait(300)
            self.say(b'{"choices": [{"text": "x"}]}')

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    made = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=made.serve_forever, args=(0.02,))
    thread.start()
    yield made, asked, may
    may.set()
    made.shutdown()
    thread.join()
    made.server_close()


def test_a_server_that_is_late_is_told_with_how_far_it_came(
    slow_to_answer: tuple[ThreadingHTTPServer, threading.Event, threading.Event], tmp_path: Path
) -> None:
    """Nobody listens, listens without being asked, or does not answer the call in hand; and once it answers, it is ready."""
    server, asked, may = slow_to_answer
    port, me = server.server_address[1], procfs.process(os.getpid())
    assert me is not None
    log, ours = ready.LogWatch(tmp_path / "log", ()), ready.PortWatch(port, lambda: [me])

    def waited(listener: ready.PortWatch, probe: ready.Probe, seconds: float = 0.0) -> list[str]:
        return [reason.found for reason in ready.wait(log, listener, probe, tuple, time.monotonic() + seconds)]

    probe = ready.Probe(f"http://127.0.0.1:{port}", "m", time.monotonic() + 300)
    assert waited(ready.PortWatch(procfs.free_port(0), list), probe) == [
        "its process runs, and nobody listens on its port"
    ]
    assert probe.told() == "it listens; no further call was made yet"
    probe.begin()
    assert asked.wait(60)
    (late,) = waited(ours, probe)
    assert re.fullmatch(r"it listens; /v1/models answered; /v1/completions: no answer after \d+\.\d s", late)
    may.set()
    assert waited(ours, probe, 60.0) == []
    assert not probe.late().found.endswith(" s"), "no call is in hand any more"


def test_a_free_port_is_given_and_a_taken_one_refused() -> None:
    """Port 0 gives a port that can be bound; a port in use raises and names its holder."""
    port = procfs.free_port(0)
    with socket.create_server(("127.0.0.1", port)), pytest.raises(HostError, match=str(os.getpid())):
        procfs.free_port(port)
    assert procfs.free_port(port) == port


def test_the_tracker_knows_orphans_and_leaves_strangers_out(sleeper: "subprocess.Popen[bytes]") -> None:
    """The guard's list holds descendants, also those whose parent has ended since, and no other process."""
    script = "sleep 3600 & sleep 3600 & echo $!; exec sleep 3600"
    lead = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    assert lead.stdout is not None
    child = int(lead.stdout.readline())
    tracker = tree.Tracker(procfs.owner_of(lead.pid))
    assert tracker.look()
    members = set(tracker.known)
    assert child in members
    assert len(members) == 2
    assert not tracker.look(), "nothing has changed"
    lead.kill()
    lead.wait()
    tracker.look()
    assert {one.pid for one in tracker.alive()} == members
    told, still = tree.end_all(tracker.alive, 60.0)
    assert len(told) == 2
    assert not still
    assert sleeper.poll() is None
    lead.stdout.close()


def test_a_damaged_list_of_processes_is_refused(tmp_path: Path) -> None:
    """tree.json decides whom we end: anything but a whole, sound list is an error, never a guess."""
    path = tmp_path / "tree.json"
    assert tree.recorded(path) is None
    for text in ("{", "{}", '{"supervisor":[1],"guard":null,"processes":[],"boot_id":"","host":""}'):
        path.write_text(text)
        with pytest.raises(EvidenceError):
            tree.recorded(path)


def test_the_lock_is_for_all_users_and_names_its_holder(tmp_path: Path) -> None:
    """The lock file may be written by everyone, tells who holds it, and is free again after its release."""
    path = tmp_path / "new" / "host.lock"
    held = lock.take(path, "first", "r001.a.a")
    assert path.stat().st_mode & 0o777 == 0o666
    with pytest.raises(HostError, match=f"process {os.getpid()}, campaign first, session r001.a.a"):
        lock.take(path, "second", "r001.b.a")
    assert "r001.a.a" in str(lock.holder(path))
    lock.release(held)
    assert lock.holder(path) is None
    lock.release(lock.take(path, "second", "r001.b.a"))
    assert lock.holder(tmp_path / "none.lock") is None


def test_a_lock_file_that_was_removed_does_not_make_two_holders_of_one_name(tmp_path: Path) -> None:
    """Whoever locks a file that is no longer the one of that name has not got the lock of that name, and tries again."""
    path = tmp_path / "host.lock"
    first = lock._opened(path)
    path.unlink()
    held = lock.take(path, "c", "s")
    with pytest.raises(HostError, match="is held by"):
        lock.take(path, "d", "t")
    lock.release(held)
    os.close(first)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a process as another user")
def test_the_lock_holds_across_users_and_folders(tmp_path: Path) -> None:
    """Another user in another folder is refused and told who measures, and takes the lock when it is free."""
    shared = Path(tempfile.mkdtemp(dir="/tmp"))
    shared.chmod(0o1777)
    path = shared / "rungproof-x.lock"
    python = shutil.which("python3", path="/usr/local/bin:/usr/bin")
    if python is None:
        pytest.skip("another user has no Python here")
    program = (
        "import importlib.util, sys\nfrom pathlib import Path\nfrom rungproof.records.errors import HostError\n"
        "spec = importlib.util.spec_from_file_location('lock', sys.argv[2])\nlock = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(lock)\n"
        "try:\n    lock.release(lock.take(Path(sys.argv[1]), 'other', 'r001.o.a'))\n    print('taken')\nexcept HostError as error:\n    print(error)\n"
    )

    def other() -> str:
        done = subprocess.run(
            [python, "-c", program, str(path), lock.__file__], cwd="/", user=65534, group=65534, extra_groups=[], capture_output=True, text=True,
            env={"PYTHONPATH": str(Path(lock.__file__).parents[3]), "PYTHONDONTWRITEBYTECODE": "1"}, check=False,
        )  # fmt: skip
        return done.stdout + done.stderr

    if "Permission denied" in (said := other()) or "No module" in said:
        pytest.skip("another user cannot read this checkout")
    held = lock.take(path, "first", "r001.a.a", tmp_path)
    try:
        said = other()
        assert f"process {os.getpid()}, campaign first, session r001.a.a, user {lock.user(0)}, since 20" in said
        assert str(tmp_path) not in said
        assert str(tmp_path) in str(lock.holder(path))
    finally:
        lock.release(held)
    assert other() == "taken\n"
    lock.release(lock.take(path, "again", "r002.a.a"))
    path.unlink()
    shared.rmdir()


def test_a_latched_host_starts_nothing_until_it_is_cleared(tmp_path: Path) -> None:
    """The latch says since when, which session and what it left; a damaged latch holds too."""
    path = tmp_path / "host.lock"
    lock.latch(path, "r001.a.a", ["gpu0: 9.0 GiB in use"])
    with pytest.raises(
        HostError,
        match=r"latched since 20.*session r001\.a\.a left it unclean: gpu0: 9\.0 GiB in use.*rungproof host clear",
    ):
        lock.take(path, "c", "s")
    assert lock.holder(path) is None, "the refusal holds nothing"
    lock.latch_of(path).write_text("{")
    with pytest.raises(HostError, match="it is damaged"):
        lock.take(path, "c", "s")
    assert lock.unlatch(path)
    assert not lock.unlatch(path)
    lock.release(lock.take(path, "c", "s"))


def test_faults_in_the_kernel_s_log_are_seen_from_now_on(tmp_path: Path) -> None:
    """Only new records count, continuation lines and other words do not; without patterns the log is not even opened."""
    path = tmp_path / "kmsg"
    path.write_text("3,1,1,-;xe 0000:03:00.0: GPU HANG: old\n")
    watch = KernelWatch(("GPU HANG",), path)
    assert watch.fault() is None
    with path.open("a") as file:
        file.write("6,2,2,-;eth0: up\n SUBSYSTEM=GPU HANG\n")
        file.flush()
        assert watch.fault() is None
        file.write("3,3,3,-;xe 0000:03:00.0: GPU HANG: ecode 12\n")
    assert watch.fault() == "xe 0000:03:00.0: GPU HANG: ecode 12"
    assert watch.fault() is None
    watch.close()
    assert KernelWatch((), tmp_path / "none").fault() is None
    with pytest.raises(OSError, match="none"):
        KernelWatch(("x",), tmp_path / "none")


def test_a_lock_path_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """In a folder that all may write, a link in the lock's place does not get another file written."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "host.lock").symlink_to(victim)
    with pytest.raises(HostError, match="cannot be opened"):
        lock.take(tmp_path / "host.lock", "c", "s")
    assert victim.read_text() == "precious"


def test_the_server_sees_only_what_it_is_meant_to_see(tmp_path: Path) -> None:
    """Nothing of the user's environment reaches a server but an allow list; ours wins over what was asked."""
    current = {
        "PATH": "/bin",
        "HOME": "/h",
        "LC_ALL": "C",
        "CUDA_VISIBLE_DEVICES": "0",
        "API_KEY": "s",
        "PYTHONPATH": "/x",
    }
    made = process.environment(current, {"OMP_NUM_THREADS": "2", "HF_HUB_OFFLINE": "0"}, "b00t", tmp_path)
    assert set(made) == {
        "PATH", "HOME", "LC_ALL", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "RUNGPROOF_BOOT", "HF_HUB_OFFLINE",
        *process.CACHES,
    }  # fmt: skip
    assert made["HF_HUB_OFFLINE"] == "1"
    assert all(Path(made[name]).parent == tmp_path for name in process.CACHES)
    assert process.environment(current, {}, "b", tmp_path, ("PYTHONPATH",))["PYTHONPATH"] == "/x"


def test_compile_caches_are_new_and_empty(tmp_path: Path) -> None:
    """A session never starts on a cache that another one has filled."""
    process.make_caches(tmp_path / "cache")
    with pytest.raises(FileExistsError):
        process.make_caches(tmp_path / "cache")


def test_the_server_gets_sigterm_when_its_parent_dies(tmp_path: Path) -> None:
    """kill -9 of the parent is a SIGTERM for the server, from its very start."""
    ready_file = tmp_path / "ready"
    program = (
        "import signal,sys,time\nsignal.signal(signal.SIGTERM, lambda *_: (print('told', flush=True), sys.exit(0)))\n"
    )
    program += f"open({str(ready_file)!r}, 'w').close()\ntime.sleep(3600)"
    parent = (
        "import time\nfrom pathlib import Path\nfrom rungproof.measure.serving.launch.process import spawn\n"
        f"spawn([{sys.executable!r}, '-c', {program!r}], {{}}, Path('/'), Path({str(tmp_path / 'log')!r}))\n"
        "time.sleep(3600)"
    )
    source = str(Path(process.__file__).parents[4])
    made = subprocess.Popen([sys.executable, "-c", parent], env={**os.environ, "PYTHONPATH": source})
    until(ready_file.exists)
    made.kill()
    made.wait()
    until(lambda: (tmp_path / "log").read_text() == "told\n")


def test_a_log_is_watched_line_by_line(tmp_path: Path) -> None:
    """A fault is found once its line is whole, in colour or not; an unfinished last line when the server has ended."""
    path = tmp_path / "log"
    watch = ready.LogWatch(path, ("^FAULT: ",))
    assert watch.fault() is None
    with path.open("ab", buffering=0) as file:
        file.write(b"all well, no FAULT: here\n\x1b[31mFAU")
        assert watch.fault() is None
        file.write(b"LT: fan\nmore\n")
        assert watch.fault() == "FAULT: fan"
        assert watch.fault() is None
        file.write(b"FAULT: last")
        assert watch.fault() is None
        assert watch.fault(ended=True) == "FAULT: last"
    with pytest.raises(re.error):
        ready.LogWatch(path, ("(",))


def test_an_end_is_told_with_its_cause(tmp_path: Path) -> None:
    """Exit codes, signals and the kernel's word on memory are told apart."""
    assert exits.describe(3 << 8) == "exit code 3"
    assert exits.describe(9) == "killed by SIGKILL"
    assert exits.oom_kills(tmp_path) is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/vmstat").write_text("pgfault 7\noom_kill 2\n")
    assert exits.oom_kills(tmp_path) == 2
    now = exits.oom_kills()
    if now is not None:
        assert "1 process(es) of this host for memory" in exits.cause(9, 2**22 + 1, exits.Before(now - 1, None, None))
        assert exits.cause(9, 2**22 + 1, exits.Before(now, None, None)) == "killed by SIGKILL"


GROUPS = {
    "version 2": ("0::/box\n", "sys/fs/cgroup/box/memory.events", "sys/fs/cgroup/box/memory.max", "low 0\noom 9\noom_kill {}\n"),
    "version 1": ("4:memory:/box\n", "sys/fs/cgroup/memory/box/memory.oom_control", "sys/fs/cgroup/memory/box/memory.limit_in_bytes", "under_oom 0\noom_kill {}\n"),
}  # fmt: skip


@pytest.mark.parametrize(("group", "counter", "limit", "text"), GROUPS.values(), ids=GROUPS)
def test_a_kill_at_the_limit_of_a_control_group_is_told_with_the_limit(
    tmp_path: Path, group: str, counter: str, limit: str, text: str
) -> None:
    """A server that was killed because its group's memory was spent says so, although the host had memory left."""
    made(tmp_path, {"proc/42/cgroup": group, counter: text.format(1), limit: "1073741824\n"})
    found = exits.MemoryGroup.of(42, tmp_path)
    assert found is not None
    before = exits.Before(exits.oom_kills(), found, found.kills())
    assert before.group_kills == 1
    assert exits.cause(9, 2**22 + 1, before) == "killed by SIGKILL"
    (tmp_path / counter).write_text(text.format(3))
    assert exits.cause(9, 2**22 + 1, before) == (
        "killed by SIGKILL; out of memory: 2 process(es) of its control group were killed at its limit of 1073741824 bytes"
    )
    assert exits.memory(before).startswith("out of memory: 2 process(es)")
    assert exits.MemoryGroup.of(43, tmp_path) is None
    (tmp_path / counter).unlink()
    assert found.kills() is None
    assert exits.cause(9, 2**22 + 1, before) == "killed by SIGKILL"


def test_the_kernels_own_line_on_memory_is_quoted(tmp_path: Path) -> None:
    """Where the kernel's log is readable, its line about this very process is the cause."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").write_text("3,1,2,-;Out of memory: Killed process 4711 (python) total-vm:9kB\n")
    assert exits.kernel_says(4711, tmp_path).startswith("Out of memory: Killed process 4711 (python)")
    assert exits.kernel_says(471, tmp_path) == ""
