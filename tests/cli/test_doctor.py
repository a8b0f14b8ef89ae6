"""`rungproof doctor` on this machine and on broken ones."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from cli.kit import ROOT
from measure.host_trees import MACHINE, made
from measure.test_occupied import device
from rungproof.cli import main
from rungproof.measure.hosts.doctor import Check, Machine, Room, Wanted, examine, together
from rungproof.measure.hosts.tree import Tree
from rungproof.measure.serving import lock

GIB = 2**30
PROC = {
    "proc/self/stat": "1 (x) R",
    "proc/self/limits": "Max open files            65536                1048576              files\n",
    "proc/self/cgroup": "0::/\n",
}


def states(wanted: Wanted, machine: Machine) -> dict[str, Check]:
    return {check.name: check for check in examine(wanted, machine)}


def answers(*good: str) -> object:
    def run(argv: Sequence[str], _seconds: float) -> tuple[int, str]:
        words = " ".join(argv)
        return (0, "") if any(one in words for one in good) else (125, "cannot connect to the engine")

    return run


def healthy(root: Path, **more: str) -> Machine:
    files = {
        **MACHINE,
        **PROC,
        "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance\n",
        "proc/meminfo": "MemAvailable: 64000000 kB\nSwapTotal: 0 kB\n",
    }
    return Machine(
        Tree(made(root, {**files, **more})),
        (device([0]),),
        lambda _: 10**12,
        answers("pip", "docker"),
        lambda: "",
        lambda _: True,
    )  # type: ignore[arg-type]


def needs(root: Path) -> Wanted:
    return Wanted(
        root / "x.lock", (Room(root, 10**9, "records"),), 5 * 10**9, "packaging", ("gpu0",), (), {}, True, {("docker",): ("sha256:ab",)},
    )  # fmt: skip


def test_a_healthy_machine_lacks_nothing(tmp_path: Path) -> None:
    """Every check is there and none has a fix."""
    found = states(needs(tmp_path), healthy(tmp_path))
    assert {check.state for check in found.values()} == {"ok"}, [c for c in found.values() if c.state != "ok"]
    assert not any(check.fix for check in found.values())
    assert {
        "process table", "ports", "open files", "governor", "other load", "memory", "disk for records", "host lock", "device gpu0", "package index",
        "container engine docker", "image sha256:ab", "kernel log",
    } <= set(found)  # fmt: skip


def test_a_broken_machine_is_told_all_at_once_with_fixes(tmp_path: Path) -> None:
    """No disk, no memory, low limits, no engine, no index, no device, no ports, a held lock: each with what was found and what to do."""
    broken = Machine(
        Tree(made(tmp_path, {**MACHINE, **PROC, "proc/self/limits": "Max open files            256                256                  files\n", "proc/loadavg": "7.5 1 1 9/9 9\n"})),
        (), lambda _: 10**6, answers(), lambda: "Cannot assign requested address", lambda _: False,
    )  # fmt: skip
    held = lock.take(tmp_path / "x.lock", "other", "r001.a.a")
    try:
        found = states(needs(tmp_path), broken)
    finally:
        lock.release(held)
    failing = {name for name, check in found.items() if check.state == "fail"}
    assert failing == {
        "ports", "open files", "memory", "disk for records", "host lock", "device gpu0", "package index", "container engine docker", "kernel log",
    }  # fmt: skip
    assert {name for name, check in found.items() if check.state == "warn"} == {"governor", "other load"}
    assert all(check.fix and check.needed for check in found.values() if check.state != "ok")
    assert "1 MB free" in found["disk for records"].found
    assert "256 256" in found["open files"].found
    assert "campaign other" in found["host lock"].found
    assert "image sha256:ab" not in found, "an engine that does not answer is not asked for images"


def test_what_is_not_known_is_not_called_good(tmp_path: Path) -> None:
    """On a machine that shows nothing, memory, limits and load are not known: never enough."""
    found = states(
        needs(tmp_path),
        Machine(Tree(tmp_path / "none"), (), lambda _: 10**12, answers("pip", "docker"), lambda: "", lambda _: True),
    )  # type: ignore[arg-type]
    assert {"process table", "memory", "open files"} <= {name for name, check in found.items() if check.state == "fail"}
    assert found["other load"].state == "warn"


def test_limits_of_a_control_group_and_swap_count(tmp_path: Path) -> None:
    """A container of 1 GiB on a machine of 64 GB cannot hold a server of 5 GB; a machine that swaps is warned of."""
    machine = healthy(
        tmp_path,
        **{
            "sys/fs/cgroup/memory.max": "1073741824\n",
            "proc/meminfo": "MemAvailable: 64000000 kB\nSwapTotal: 1000 kB\nSwapFree: 100 kB\n",
        },
    )
    found = states(needs(tmp_path), machine)
    assert (found["memory"].state, found["memory"].found) == ("fail", "1.1 GB available")
    assert found["swap"].state == "warn"


def test_a_latch_a_holder_and_a_fact_that_differs(tmp_path: Path) -> None:
    """What an earlier session left, who holds the device and a limit that does not hold are lacking too."""
    wanted = needs(tmp_path)
    sleeper = subprocess.Popen(["sleep", "3600"])
    try:
        lock.latch(wanted.lock, "r000.a.a", ["gpu0: 9.0 GiB in use"])
        machine = healthy(tmp_path)
        other = Machine(
            machine.tree, (device([0], [sleeper.pid]),), machine.free, machine.run, machine.port, machine.readable
        )
        found = states(Wanted(wanted.lock, devices=("gpu0",), expect={"boost": False}), other)
    finally:
        sleeper.kill()
        sleeper.wait()
    assert "rungproof host clear" in found["host latch"].fix
    assert f"process {sleeper.pid} (sleep)" in found["device gpu0"].found
    assert (found["host fact boost"].found, found["host fact boost"].needed) == ("true", "false")


def test_a_program_that_is_not_installed_is_lacking(tmp_path: Path) -> None:
    """A lane that starts a program of the machine needs that program on the path."""
    machine = healthy(tmp_path)
    wanted = Wanted(tmp_path / "x.lock", programs=("sh", "no-such-server"))
    found = states(wanted, machine)
    assert (found["program sh"].state, found["program no-such-server"].state) == ("ok", "fail")
    assert "program" in found["program no-such-server"].fix


def test_two_folders_on_one_disk_share_its_room(tmp_path: Path) -> None:
    """Records and environments on one disk are added up before its free space is held against them."""
    rooms = [Room(tmp_path / "a", 6, "records"), Room(tmp_path / "b", 7, "models")]
    assert [r.size for r in together(rooms)] == [13]
    assert [r.size for r in together(rooms, lambda folder: ord(folder.name))] == [6, 7]


def test_this_machine_is_examined_without_a_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command gives a verdict and an exit code that fit each other, in words and as JSON, and writes nothing."""
    monkeypatch.setenv("RUNGPROOF_LOCK_DIR", str(tmp_path / "locks"))
    for name in ("config", "envs"):
        shutil.copytree(ROOT / name, tmp_path / "checkout" / name)
    before = sorted(tmp_path.rglob("*"))
    code = main(["doctor", "campaign_v2", "--host", "simulated", "--json", "--root", str(tmp_path / "checkout")])
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] == (code == 0)
    assert found["host"] == "simulated"
    assert {"ports", "open files", "disk for records", "host lock"} <= {check["name"] for check in found["checks"]}
    assert code == main(["doctor", "campaign_v2", "--host", "simulated", "--root", str(tmp_path / "checkout")])
    out = capsys.readouterr().out
    assert ("Nothing is lacking." in out) == (code == 0)
    assert sorted(tmp_path.rglob("*")) == before
    assert main(["doctor", "nope", "--root", str(tmp_path / "checkout")]) == 2
