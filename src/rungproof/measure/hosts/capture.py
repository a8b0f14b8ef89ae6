"""What a host is at one moment, read from /proc and /sys alone; a few milliseconds, nothing is run.

`root` is the root of the tree that is read: a made one in tests. A fact that this host does not show is None or
left out; it is never guessed.
"""

import platform
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

SHOWN = re.compile(
    r"(VLLM|OMP|KMP|GOMP|MKL|CUDA|NVIDIA|NCCL|CCL|ZE|ONEAPI|SYCL|UR|TORCH|PYTORCH|TRITON|GLOO|MALLOC)_\w+"
    r"|HF_HUB_OFFLINE|DO_NOT_TRACK|LANG|LC_\w+|PYTHONHASHSEED"
)
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CRED|AUTH|COOKIE|SIGNATURE", re.IGNORECASE)
CPU_FIELDS = ("model name", "Model", "cpu model", "Processor", "Hardware")


def capture(root: Path = Path("/"), pid: int | None = None) -> dict[str, Any]:
    """The environment of process `pid` (None: this one) and of its host, as plain JSON values.

    Keys: cpu_model, cpus_online, cpus_allowed, governors, memory_total_kb, swap_total_kb, kernel, boot_id, load,
    numa_nodes, transparent_huge_pages, virtualised, python, variable_names, variables. Values of variables are kept
    only for names on an allow list that are no secrets and hold no path.
    """
    cpuinfo = _text(root / "proc/cpuinfo")
    memory = _colon_table(_text(root / "proc/meminfo"))
    own = root / "proc" / ("self" if pid is None else str(pid))
    names, values = _variables(own / "environ")
    return {
        "cpu_model": _cpu_model(cpuinfo),
        "cpus_online": _count(_text(root / "sys/devices/system/cpu/online")),
        "cpus_allowed": _colon_table(_text(own / "status")).get("Cpus_allowed_list"),
        "governors": _governors(root),
        "memory_total_kb": _kilobytes(memory.get("MemTotal")),
        "swap_total_kb": _kilobytes(memory.get("SwapTotal")),
        "kernel": _kernel(root),
        "boot_id": _text(root / "proc/sys/kernel/random/boot_id").strip() or None,
        "load": _load(_text(root / "proc/loadavg")),
        "numa_nodes": _count(_text(root / "sys/devices/system/node/online")),
        "transparent_huge_pages": _chosen(_text(root / "sys/kernel/mm/transparent_hugepage/enabled")),
        "virtualised": _virtualised(cpuinfo),
        "python": platform.python_version(),
        "variable_names": names,
        "variables": values,
    }


def shown(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables whose values may be published: named by the allow list, no secret by name, no path by value."""
    return {
        name: value
        for name, value in sorted(variables.items())
        if SHOWN.fullmatch(name) and not SECRET.search(name) and "/" not in value and "\\" not in value
    }


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _variables(path: Path) -> tuple[list[str], dict[str, str]]:
    pairs = [item.partition("=") for item in _text(path).split("\0")]
    found = {name: value for name, mark, value in pairs if mark and name}
    return sorted(found), shown(found)


def _colon_table(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, mark, value in pairs if mark}


def _cpu_model(cpuinfo: str) -> str | None:
    table = _colon_table(cpuinfo)
    return next((table[name] for name in CPU_FIELDS if table.get(name)), None)


def _virtualised(cpuinfo: str) -> bool | None:
    """Whether the CPU says that it runs under a hypervisor; None on CPUs that have no such flag (not x86)."""
    flags = _colon_table(cpuinfo).get("flags")
    return None if flags is None else "hypervisor" in flags.split()


def _count(ranges: str) -> int | None:
    """How many numbers a kernel list such as "0-3,8" names."""
    total = 0
    for part in filter(None, ranges.strip().split(",")):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            return None
        total += int(last or first) - int(first) + 1
    return total or None


def _governors(root: Path) -> list[str] | None:
    found = _distinct(
        _text(path) for path in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    )
    return found or None


def _distinct(texts: Iterable[str]) -> list[str]:
    return sorted({text.strip() for text in texts} - {""})


def _kilobytes(text: str | None) -> int | None:
    number = (text or "").partition(" ")[0]
    return int(number) if number.isdecimal() else None


def _kernel(root: Path) -> str | None:
    release = _text(root / "proc/sys/kernel/osrelease").strip()
    version = _text(root / "proc/sys/kernel/version").strip()
    return f"{release} {version}".strip() or None


def _load(text: str) -> list[str] | None:
    """The three load averages as the kernel writes them (1, 5, 15 minutes)."""
    fields = text.split()
    return fields[:3] if len(fields) >= 3 else None


def _chosen(text: str) -> str | None:
    match = re.search(r"\[(\w+)\]", text)
    return match[1] if match else None
