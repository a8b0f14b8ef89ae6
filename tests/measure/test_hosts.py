"""What is recorded of a host, read from made trees of /proc and /sys."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from rungproof.measure.hosts.capture import capture, shown

CPUINFO = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu sse hypervisor\n"
FILES = {
    "proc/cpuinfo": CPUINFO,
    "proc/meminfo": "MemTotal:       16384 kB\nSwapTotal:       1024 kB\n",
    "proc/loadavg": "0.50 0.25 0.10 1/99 1234\n",
    "proc/sys/kernel/osrelease": "6.1.0\n",
    "proc/sys/kernel/version": "#1 SMP\n",
    "proc/sys/kernel/random/boot_id": "0f-00\n",
    "proc/42/status": "Name:\tpython\nCpus_allowed_list:\t0-2,6\n",
    "proc/42/environ": "OMP_NUM_THREADS=4\0HOME=/home/x\0VLLM_API_KEY=hunter2\0VLLM_CACHE_ROOT=/home/x/c\0EMPTY=\0",
    "sys/devices/system/cpu/online": "0-3,6\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave\n",
    "sys/devices/system/node/online": "0-1\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
}


def made(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_every_fact_is_read_from_its_file(tmp_path: Path) -> None:
    """Each recorded fact is the one that the kernel's files hold, in the unit that its name says."""
    found = capture(made(tmp_path, FILES), 42)
    del found["python"]
    assert found == {
        "cpu_model": "Some CPU @ 2 GHz",
        "cpus_online": 5,
        "cpus_allowed": "0-2,6",
        "governors": ["performance", "powersave"],
        "memory_total_kb": 16384,
        "swap_total_kb": 1024,
        "kernel": "6.1.0 #1 SMP",
        "boot_id": "0f-00",
        "load": ["0.50", "0.25", "0.10"],
        "numa_nodes": 2,
        "transparent_huge_pages": "madvise",
        "virtualised": True,
        "variable_names": ["EMPTY", "HOME", "OMP_NUM_THREADS", "VLLM_API_KEY", "VLLM_CACHE_ROOT"],
        "variables": {"OMP_NUM_THREADS": "4"},
    }


def test_a_host_that_shows_nothing_gives_no_guesses(tmp_path: Path) -> None:
    """Where a file is missing the fact is None, never zero and never a default."""
    found = capture(tmp_path, 42)
    assert found.pop("python")
    assert found.pop("variable_names") == []
    assert found.pop("variables") == {}
    assert set(found.values()) == {None}
    assert len(found) >= 12


def test_a_real_machine_is_told_from_a_virtual_one(tmp_path: Path) -> None:
    """The hypervisor flag decides; a CPU without flags (not x86) leaves it open."""
    assert capture(made(tmp_path / "a", {"proc/cpuinfo": CPUINFO.replace(" hypervisor", "")}))["virtualised"] is False
    assert capture(made(tmp_path / "b", {"proc/cpuinfo": "Hardware\t: Board\n"}))["virtualised"] is None
    assert capture(tmp_path / "b")["cpu_model"] == "Board"


@pytest.mark.parametrize(
    "name", ["VLLM_API_KEY", "NCCL_AUTH", "CUDA_TOKEN_X", "TORCH_SECRET", "VLLM_PASSWORD", "MY_OWN"]
)
def test_no_secret_and_no_unknown_value_is_kept(name: str) -> None:
    """Values are kept for known, harmless names alone."""
    assert shown({name: "x", "OMP_NUM_THREADS": "2"}) == {"OMP_NUM_THREADS": "2"}


def test_no_path_of_a_machine_is_kept() -> None:
    """A value that holds a path is left out, whatever its name."""
    assert shown({"CUDA_HOME": "/opt/cuda", "VLLM_CACHE_ROOT": "a/b", "CUDA_VISIBLE_DEVICES": "0,1"}) == {
        "CUDA_VISIBLE_DEVICES": "0,1"
    }


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_this_machine_is_captured_cheaply_and_as_json() -> None:
    """Capturing this machine takes little time next to a measurement, and gives what JSON can hold."""
    began = time.process_time()
    found = capture(pid=os.getpid())
    assert time.process_time() - began < 0.2
    assert found["memory_total_kb"] > 0
    assert found["cpus_online"] >= 1
    assert "PATH" in found["variable_names"]
    assert json.loads(json.dumps(found)) == found
