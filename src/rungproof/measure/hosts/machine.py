"""Processor, memory, kernel and limits, from /proc and /sys alone; a few milliseconds, nothing is run."""

import re

from rungproof.measure.hosts.tree import Facts, Tree, table, whole
from rungproof.records.environment import Fact

CPU_FIELDS = ("model name", "Model", "cpu model", "Processor", "Hardware")
CPU = "/sys/devices/system/cpu"
LIMITS = {
    "Max locked memory": "memlock",
    "Max open files": "nofile",
    "Max processes": "nproc",
    "Max stack size": "stack",
}


def read(tree: Tree, pid: int | None = None) -> dict[str, Fact]:
    """Facts of the machine, and of the limits under which process `pid` runs (None: this one)."""
    facts = Facts.by("proc")
    own = f"/proc/{'self' if pid is None else pid}"
    _processor(facts, tree, own)
    _memory(facts, tree)
    _kernel(facts, tree)
    _limits(facts, tree, own)
    return facts.made


def _processor(facts: Facts, tree: Tree, own: str) -> None:
    text = tree.text("/proc/cpuinfo")
    info = table(text)
    facts.add("cpu_model", next((info[name] for name in CPU_FIELDS if info.get(name)), None), "/proc/cpuinfo")
    facts.add("cpu_stepping", info.get("stepping"), "/proc/cpuinfo")
    facts.add("cpu_microcode", info.get("microcode"), "/proc/cpuinfo")
    flags = info.get("flags", info.get("Features"))
    facts.add("cpu_flags", None if flags is None else " ".join(sorted(flags.split())), "/proc/cpuinfo")
    facts.add("virtualised", None if "flags" not in info else "hypervisor" in info["flags"].split(), "/proc/cpuinfo")
    facts.add("cpus_online", count(tree.text(f"{CPU}/online")), f"{CPU}/online")
    facts.add("cpus_isolated", tree.text(f"{CPU}/isolated"), f"{CPU}/isolated")
    facts.add("cpus_allowed", table(tree.text(f"{own}/status")).get("Cpus_allowed_list"), "/proc/<pid>/status")
    facts.add("smt", tree.text(f"{CPU}/smt/control"), f"{CPU}/smt/control")
    for key, name in (
        ("governors", "scaling_governor"),
        ("frequency_drivers", "scaling_driver"),
        ("energy_preferences", "energy_performance_preference"),
    ):
        facts.add(key, _distinct(tree, name), f"{CPU}/cpu*/cpufreq/{name}")
    for key, name in (("frequency_max_khz", "scaling_max_freq"), ("frequency_min_khz", "scaling_min_freq")):
        facts.add(key, _distinct(tree, name), f"{CPU}/cpu*/cpufreq/{name}")
    turbo = (("intel_pstate/no_turbo", "1"), ("cpufreq/boost", "0"))
    shown = next(((name, tree.text(f"{CPU}/{name}"), off) for name, off in turbo if tree.text(f"{CPU}/{name}")), None)
    facts.add(
        "boost", None if shown is None else shown[1] != shown[2], f"{CPU}/{shown[0] if shown else 'cpufreq/boost'}"
    )
    facts.add("numa_nodes", count(tree.text("/sys/devices/system/node/online")), "/sys/devices/system/node/online")
    facts.add("numa_balancing", tree.text("/proc/sys/kernel/numa_balancing"), "/proc/sys/kernel/numa_balancing")
    facts.add("memory_nodes_allowed", table(tree.text(f"{own}/status")).get("Mems_allowed_list"), "/proc/<pid>/status")
    for name in tree.names(f"{CPU}/vulnerabilities"):
        facts.add(f"mitigation.{name}", tree.text(f"{CPU}/vulnerabilities/{name}"), f"{CPU}/vulnerabilities/{name}")


def _memory(facts: Facts, tree: Tree) -> None:
    memory = table(tree.text("/proc/meminfo"))
    # Some virtual machines grow and shrink: the same machine is then not the same to the kilobyte.
    facts.add("memory_total_kb", kilobytes(memory.get("MemTotal")), "/proc/meminfo", "tolerance", 0.01)
    facts.add("memory_available_kb", kilobytes(memory.get("MemAvailable")), "/proc/meminfo", "informative")
    facts.add("swap_total_kb", kilobytes(memory.get("SwapTotal")), "/proc/meminfo")
    facts.add("swap_free_kb", kilobytes(memory.get("SwapFree")), "/proc/meminfo", "informative")
    facts.add("huge_pages", whole(memory.get("HugePages_Total")), "/proc/meminfo")
    for key, name in (("transparent_huge_pages", "enabled"), ("transparent_huge_pages_defrag", "defrag")):
        source = f"/sys/kernel/mm/transparent_hugepage/{name}"
        facts.add(key, chosen(tree.text(source)), source)
    facts.add("swappiness", tree.text("/proc/sys/vm/swappiness"), "/proc/sys/vm/swappiness")
    facts.add("overcommit", tree.text("/proc/sys/vm/overcommit_memory"), "/proc/sys/vm/overcommit_memory")


def _kernel(facts: Facts, tree: Tree) -> None:
    parts = (tree.text(f"/proc/sys/kernel/{name}") for name in ("osrelease", "version"))
    facts.add("kernel", " ".join(part for part in parts if part) or None, "/proc/sys/kernel/{osrelease,version}")
    facts.add("kernel_parameters", _parameters(tree.text("/proc/cmdline")), "/proc/cmdline")
    facts.add("boot_id", tree.text("/proc/sys/kernel/random/boot_id"), "/proc/sys/kernel/random/boot_id", "informative")
    load = (tree.text("/proc/loadavg") or "").split()
    facts.add("load", load[:3] if len(load) >= 3 else None, "/proc/loadavg", "informative")
    for name in ("product_name", "board_name", "bios_version"):
        facts.add(name, tree.text(f"/sys/class/dmi/id/{name}"), f"/sys/class/dmi/id/{name}")


def _parameters(text: str | None) -> str | None:
    """Kernel parameters that bear on speed. The others may name disks and addresses of this machine."""
    if text is None:
        return None
    known = re.compile(r"(mitigations|isolcpus|nohz_full|rcu_nocbs|intel_pstate|amd_pstate|intel_idle\.\S+|processor\.\S+|idle|hugepages\w*"
                       r"|default_hugepagesz|transparent_hugepage|numa_balancing|nosmt|iommu|intel_iommu|amd_iommu|pcie_aspm|i915\.\S+|xe\.\S+"
                       r"|amdgpu\.\S+|nvidia\S*|cgroup\S*|systemd\.unified_cgroup_hierarchy)(=\S*)?")  # fmt: skip
    return " ".join(word for word in text.split() if known.fullmatch(word))


def _limits(facts: Facts, tree: Tree, own: str) -> None:
    for line in (tree.text(f"{own}/limits") or "").splitlines():
        for name, key in LIMITS.items():
            if line.startswith(name):
                facts.add(f"limit.{key}", " ".join(line[len(name) :].split()[:2]), "/proc/<pid>/limits")
    found = cgroups(tree, own)
    for key, names in CGROUP.items():
        shown = next(
            (
                (f"{folder}/{name}", text)
                for folder, name in found_files(found, names)
                if (text := tree.text(f"{folder}/{name}"))
            ),
            None,
        )
        facts.add(
            f"cgroup.{key}",
            " ".join(shown[1].split()) if shown else None,
            shown[0].rpartition("/")[2] if shown else names[0][1],
        )


# What limits a control group: (controller of version 1, "" for version 2; file).
CGROUP = {
    "memory_max": (("", "memory.max"), ("memory", "memory.limit_in_bytes")),
    "swap_max": (("", "memory.swap.max"), ("memory", "memory.memsw.limit_in_bytes")),
    "cpu_max": (("", "cpu.max"), ("cpu", "cpu.cfs_quota_us")),
    "cpus": (("", "cpuset.cpus.effective"), ("cpuset", "cpuset.effective_cpus")),
    "pids_max": (("", "pids.max"), ("pids", "pids.max")),
}  # fmt: skip


def cgroups(tree: Tree, own: str) -> dict[str, str]:
    """Folder of the control group of a process, by controller; "" for version 2. A group whose folder is elsewhere is left out."""
    made = {}
    for line in (tree.text(f"{own}/cgroup") or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3 or ".." in parts[2]:
            continue
        for controller in parts[1].split(",") if parts[1] else [""]:
            mounts = (
                [f"/sys/fs/cgroup/{controller}", f"/sys/fs/cgroup/{parts[1]}"]
                if controller
                else ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
            )
            folders = [mount + parts[2].rstrip("/") for mount in mounts]
            # In a container the group's own folder is often mounted as the root.
            if there := next((f for f in (*folders, *mounts) if tree.names(f)), None):
                made[controller] = there
    return made


def found_files(groups: dict[str, str], names: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    """(folder, file) of each name whose controller has a folder."""
    return [(groups[controller], name) for controller, name in names if controller in groups]


def count(ranges: str | None) -> int | None:
    """How many numbers a kernel list such as "0-3,8" names."""
    total = 0
    for part in filter(None, (ranges or "").strip().split(",")):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            return None
        total += int(last or first) - int(first) + 1
    return total or None


def kilobytes(text: str | None) -> int | None:
    """The number of a line such as "MemTotal: 16384 kB"."""
    number = (text or "").partition(" ")[0]
    return int(number) if number.isdecimal() else None


def chosen(text: str | None) -> str | None:
    """The word in brackets: "always [madvise] never"."""
    match = re.search(r"\[(\w+)\]", text or "")
    return match[1] if match else None


def _distinct(tree: Tree, name: str) -> list[str] | None:
    cpus = (cpu for cpu in tree.names(CPU) if re.fullmatch(r"cpu\d+", cpu))
    found = {text for cpu in cpus if (text := tree.text(f"{CPU}/{cpu}/cpufreq/{name}"))}
    return sorted(found) or None
