"""What is recorded of a host, read from made trees of /proc and /sys."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from measure.host_trees import CPUINFO, MACHINE, made
from rungproof.measure.hosts import capture, machine, software
from rungproof.measure.hosts.tree import Tree, whole
from rungproof.measure.serving.surroundings import unmet
from rungproof.records.codec import build, canonical, plain
from rungproof.records.environment import Fact

SECRETS = {
    "VLLM_API_KEY": "hunter2hunter2", "NCCL_AUTH": "x", "CUDA_TOKEN_X": "x", "TORCH_SECRET": "x", "VLLM_PASSWORD": "x", "MY_OWN": "x",
    "HF_TOKEN": "x", "OMP_THING": "hf_abcdefghijklmnop", "VLLM_NOTE": "sk-proj-12345678", "TORCH_URL": "https:user:pw@host".replace(":", "://", 1),
    "TRITON_X": "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo0123456789", "CUDA_HOME": "/opt/cuda", "VLLM_CACHE_ROOT": "a/b",
    "ZE_X": "eyJhbGciOiJIUzI1NiJ9.e30.x",
}  # fmt: skip


def values(root: Path, pid: int | None = 42) -> dict[str, object]:
    return {key: fact.value for key, fact in machine.read(Tree(root), pid).items()}


def test_every_fact_is_read_from_its_file(tmp_path: Path) -> None:
    """Each recorded fact is the one that the kernel's files hold, in the unit that its name says."""
    found = values(made(tmp_path, MACHINE))
    known = {key: value for key, value in found.items() if value is not None}
    assert known == {
        "cpu_model": "Some CPU @ 2 GHz", "cpu_stepping": "7", "cpu_microcode": "0xa10113e", "cpu_flags": "fpu hypervisor sse", "virtualised": True,
        "cpus_online": 5, "cpus_allowed": "0-2,6", "memory_nodes_allowed": "0", "smt": "off", "boost": True, "governors": ["performance", "powersave"],
        "numa_nodes": 2, "numa_balancing": "0", "mitigation.meltdown": "Mitigation: PTI", "memory_total_kb": 16384, "memory_available_kb": 9000,
        "swap_total_kb": 1024, "swap_free_kb": 1000, "huge_pages": 4, "transparent_huge_pages": "madvise", "swappiness": "60",
        "kernel": "6.1.0 #1 SMP", "kernel_parameters": "mitigations=off isolcpus=2-3", "boot_id": "0f-00", "load": ["0.50", "0.25", "0.10"],
        "bios_version": "F4", "limit.memlock": "8388608 unlimited", "limit.nofile": "1024 4096",
        "cgroup.memory_max": "1073741824", "cgroup.cpu_max": "200000 100000",
    }  # fmt: skip
    assert {"cpus_isolated", "cgroup.pids_max", "product_name"} <= {
        key for key, value in found.items() if value is None
    }


def test_a_host_that_shows_nothing_gives_no_guesses(tmp_path: Path) -> None:
    """Where a file is missing the fact is None, never zero and never a default."""
    found = values(tmp_path)
    assert set(found.values()) == {None}
    assert len(found) >= 30


BROKEN = {
    "numbers that are none": {"proc/meminfo": "MemTotal: many kB\nHugePages_Total: -\n", "proc/loadavg": "high\n", "sys/devices/system/cpu/online": "0-x\n"},
    "empty files": dict.fromkeys(MACHINE, ""),
    "binary files": dict.fromkeys(MACHINE, "\0\0\ufffd\0"),
    "a folder in a file's place": {f"{name}/x": "" for name in MACHINE if not name.startswith("sys/devices/system/cpu/cpu")},
}  # fmt: skip


@pytest.mark.parametrize("files", BROKEN.values(), ids=BROKEN)
def test_a_broken_tree_gives_no_guesses(tmp_path: Path, files: dict[str, str]) -> None:
    """Whatever stands in the kernel's files, reading them neither fails nor invents a number."""
    found = values(made(tmp_path, files))
    assert [key for key, value in found.items() if isinstance(value, int) and not isinstance(value, bool)] == []


def test_limits_of_control_groups_are_found_in_both_versions(tmp_path: Path) -> None:
    """The first hierarchy has a folder a controller; a group that leads out of its mount is not followed."""
    files = {
        "proc/42/cgroup": "4:memory:/box\n1:cpu,cpuacct:/box\n0::/../../etc\n",
        "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "4096\n", "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "50000\n",
    }  # fmt: skip
    found = values(made(tmp_path, files))
    assert (found["cgroup.memory_max"], found["cgroup.cpu_max"], found["cgroup.pids_max"]) == ("4096", "50000", None)


def test_a_real_machine_is_told_from_a_virtual_one(tmp_path: Path) -> None:
    """The hypervisor flag decides; a CPU without flags (not x86) leaves it open."""
    assert values(made(tmp_path / "a", {"proc/cpuinfo": CPUINFO.replace(" hypervisor", "")}))["virtualised"] is False
    other = values(made(tmp_path / "b", {"proc/cpuinfo": "Hardware\t: Board\n"}))
    assert (other["virtualised"], other["cpu_model"]) == (None, "Board")


@pytest.mark.parametrize("name", SECRETS)
def test_no_secret_no_path_and_no_unknown_value_is_kept(name: str, tmp_path: Path) -> None:
    """Names are kept; values for known, harmless names alone, and never one that looks like a secret or a path."""
    variables = {name: SECRETS[name], "OMP_NUM_THREADS": "2", "RUNGPROOF_BOOT": "b00t"}
    found = software.read(Tree(tmp_path), variables, (), None)
    assert found["variables"].value == {"OMP_NUM_THREADS": "2"}
    assert found["variable_names"].value == sorted([name, "OMP_NUM_THREADS", "RUNGPROOF_BOOT"])
    assert SECRETS[name] == "x" or SECRETS[name] not in canonical(found).decode()


def test_variables_that_are_not_shown_are_not_none_at_all(tmp_path: Path) -> None:
    """A process that shows no environment is not one that has none."""
    assert software.read(Tree(tmp_path), None, (), None)["variables"].value is None
    assert software.read(Tree(tmp_path), {}, (), None)["variables"].value == {}


def test_packages_are_told_by_what_their_files_are(tmp_path: Path) -> None:
    """A package that was changed in place is another one, although its version is the same; compiled files do not count."""
    info = tmp_path / "torch-2.13.0+cpu.dist-info"
    made(
        tmp_path,
        {
            f"{info.name}/RECORD": "torch/a.py,sha256=x,1\ntorch/__pycache__/a.pyc,,\n",
            "torch/version.py": "cuda: Optional[str] = None\ngit_version = 'cafe01'\nxpu = \"2025.2\"\n",
        },
    )
    first = software.read(Tree(tmp_path), {}, [tmp_path], None)
    assert first["torch"].value == "2.13.0+cpu"
    assert (first["torch_git"].value, first["torch_xpu"].value) == ("cafe01", "2025.2")
    assert "torch_cuda" not in first
    (info / "RECORD").write_text("torch/a.py,sha256=x,1\n")
    assert software.record_hashes([tmp_path]) == first["python_packages"].value
    (info / "RECORD").write_text("torch/a.py,sha256=y,1\n")
    assert software.record_hashes([tmp_path]) != first["python_packages"].value
    (info / "RECORD").unlink()
    assert software.record_hashes([tmp_path]) == {"torch": "2.13.0+cpu no RECORD"}


def test_distribution_packages_and_loaded_libraries(tmp_path: Path) -> None:
    """All packages count by their digest; those that bear on speed are named; libraries are those really loaded."""
    dpkg = "Package: libc6\nStatus: install ok installed\nVersion: 2.36-9\n\nPackage: gone\nStatus: deinstall ok config-files\nVersion: 1\n\nPackage: vim\nStatus: install ok installed\nVersion: 9\n"
    made(tmp_path, {"var/lib/dpkg/status": dpkg, "etc/os-release": 'PRETTY_NAME="Debian 12"\nID=debian\n'})
    maps = "7f-80 r-xp 0 00:1 1 /usr/lib/libgomp-a34b3233.so.1.0.0\n7f-80 r--p 0 00:1 1 /home/me/secret/libother.so\n7f r 0 0 0 /x/libtcmalloc_minimal.so.4\n"
    found = software.read(Tree(tmp_path), {}, (), maps)
    assert found["distribution"].value == "Debian 12"
    assert found["distribution_packages"].value["count"] == 2
    assert found["distribution_packages_named"].value == {"libc6": "2.36-9"}
    assert found["libraries"].value == ["libgomp-a34b3233.so.1.0.0", "libtcmalloc_minimal.so.4"]
    made(tmp_path, {"var/lib/dpkg/status": dpkg.replace("9\n", "10\n")})
    assert software.read(Tree(tmp_path), {}, (), maps)["distribution_packages"] != found["distribution_packages"]


def test_a_power_limit_that_was_taken_without_effect_is_found_out() -> None:
    """What the profile demands is held against what is read back: nothing that was written is believed."""
    facts = {
        "gpu0.power_limit_w.card": Fact(190.0, "equal", "power1_max", "xe"),
        "boost": Fact(True, "equal", "x", "proc"),
    }
    assert unmet({"gpu0.power_limit_w.card": 190, "boost": True}, facts) == ()
    (reason,) = unmet({"gpu0.power_limit_w.card": 150}, facts)
    assert (reason.where, reason.found, reason.expected) == ("gpu0.power_limit_w.card", "190.0", "150")
    assert [r.found for r in unmet({"boost": 1, "smt": "off"}, facts)] == ["true", "nothing"]


@pytest.mark.parametrize(
    ("text", "wanted"), [("0x10", 16), ("-1", -1), ("", None), ("1e3", None), ("9" * 30, None), ("N/A", None)]
)
def test_whole_numbers(text: str, wanted: int | None) -> None:
    """What the kernel writes as a number, and nothing else."""
    assert whole(text) == wanted


def test_names_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """card10 comes after card9, also where some names begin with a number."""
    made(tmp_path, {f"d/{name}": "" for name in ("card10", "card9", "0000:03:00.0", "7", "card")})
    assert Tree(tmp_path).names("/d") == ["0000:03:00.0", "7", "card", "card9", "card10"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_this_machine_is_captured_cheaply_and_as_json() -> None:
    """Capturing this machine takes little time next to a measurement, and gives what JSON can hold."""
    began = time.process_time()
    found = {**capture.host(pid=os.getpid()), **capture.server(os.getpid(), dict(os.environ), ())}
    assert time.process_time() - began < 10.0
    assert found["memory_total_kb"].value > 0
    assert found["cpus_online"].value >= 1
    assert found["kernel"].value.startswith(os.uname().release)
    assert found["swappiness"].value is not None
    assert "PATH" in found["variable_names"].value
    assert json.loads(json.dumps(plain(found))) == plain(found)
    assert build(Fact, plain(found["cpu_model"]), "x") == found["cpu_model"]
