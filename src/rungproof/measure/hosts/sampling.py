"""One sample a second while a session lives: clocks, load, memory, pressure, energy; each line is on the disk as it is made."""

import json
import re
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rungproof.measure.hosts.devices import Device
from rungproof.measure.hosts.machine import CPU, kilobytes
from rungproof.measure.hosts.tree import Tree, table, whole
from rungproof.records.codec import build, canonical
from rungproof.records.environment import Sample
from rungproof.records.errors import EvidenceError

EVERY_S = 1.0
MOST_CPUS = 16
POWERCAP = "/sys/class/powercap"


class Processor:
    """The machine's own figures; holds what is needed to follow energy counters that run over."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        every = [name for name in tree.names(CPU) if re.fullmatch(r"cpu\d+", name)]
        # Asking a processor for its clock may wake it: of many, some are asked, spread over the machine.
        self._cpus = every[:: -(-len(every) // MOST_CPUS)] if every else []
        self._packages = [name for name in tree.names(POWERCAP) if re.fullmatch(r"intel-rapl:\d+", name)]
        self._seen: dict[str, tuple[int, int]] = {}

    def sample(self) -> dict[str, float]:
        """What is shown now; figures that are not shown are left out."""
        tree = self._tree
        memory = table(tree.text("/proc/meminfo"))
        load = (tree.text("/proc/loadavg") or "").split()
        found: dict[str, float | None] = {
            "cpu.load_processes": float(load[0]) if load and re.fullmatch(r"\d+(\.\d+)?", load[0]) else None,
            "memory.available_kb": kilobytes(memory.get("MemAvailable")),
            "cpu.throttle_count": self._total("thermal_throttle/package_throttle_count"),
            **self._frequency(), **self._times(), **self._pressure(), **self._energy(), **self._temperature(),
        }  # fmt: skip
        return {key: float(value) for key, value in found.items() if value is not None}

    def _frequency(self) -> dict[str, float | None]:
        found = [self._tree.number(f"{CPU}/{cpu}/cpufreq/scaling_cur_freq") for cpu in self._cpus]
        known = [value / 1000 for value in found if value is not None]
        return {"cpu.lowest_mhz": min(known), "cpu.highest_mhz": max(known)} if known else {}

    def _times(self) -> dict[str, float | None]:
        first = (self._tree.text("/proc/stat") or "").partition("\n")[0].split()
        if len(first) < 9 or first[0] != "cpu" or not all(word.isdecimal() for word in first[1:9]):
            return {}
        user, nice, system, idle, wait, irq, soft, steal = map(int, first[1:9])
        return {
            "cpu.busy_ticks": user + nice + system + irq + soft, "cpu.idle_ticks": idle + wait,
            "cpu.stolen_ticks": steal,
        }  # fmt: skip

    def _pressure(self) -> dict[str, float | None]:
        made: dict[str, float | None] = {}
        for name in ("cpu", "memory", "io"):
            match = re.search(r"^some avg10=([\d.]+)", self._tree.text(f"/proc/pressure/{name}") or "", re.MULTILINE)
            made[f"pressure.{name}_percent"] = float(match[1]) if match else None
        return made

    def _energy(self) -> dict[str, float | None]:
        """Energy of the processor's packages. The register runs over at a range that the kernel tells, some minutes apart."""
        made: dict[str, float | None] = {}
        for index, name in enumerate(self._packages):
            now = self._tree.number(f"{POWERCAP}/{name}/energy_uj")
            reach = self._tree.number(f"{POWERCAP}/{name}/max_energy_range_uj")
            if now is None:
                continue
            before, added = self._seen.get(name, (now, 0))
            if now < before and reach and before > 0.5 * reach and now < 0.5 * reach:
                added += reach
            self._seen[name] = (now, added)
            made[f"package{index}.energy_uj"] = now + added
        return made

    def _temperature(self) -> dict[str, float | None]:
        for zone in self._tree.names("/sys/class/thermal"):
            if self._tree.text(f"/sys/class/thermal/{zone}/type") == "x86_pkg_temp":
                value = self._tree.number(f"/sys/class/thermal/{zone}/temp")
                return {"cpu.temperature_c": None if value is None else value / 1000}
        return {}

    def _total(self, name: str) -> float | None:
        found = [whole(self._tree.text(f"{CPU}/{cpu}/{name}")) for cpu in self._cpus]
        known = [value for value in found if value is not None]
        return float(sum(known)) if known else None


class Sampler:
    """Writes a line each second until it is stopped. A full disk or a reader that fails ends the line, never the session."""

    def __init__(self, to: Path, readers: Sequence[Callable[[], dict[str, float]]], every_s: float = EVERY_S) -> None:
        self._to, self._readers, self._every_s = to, readers, every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self) -> None:
        """Start it."""
        self._thread.start()

    def end(self) -> None:
        """Stop it; one last sample has been made when this returns."""
        self._ended.set()
        if self._thread.ident:
            self._thread.join(5.0)

    def _run(self) -> None:
        due = time.monotonic()
        while True:
            last = self._ended.is_set()
            self._write()
            if last:
                return
            due = max(due + self._every_s, time.monotonic())
            self._ended.wait(max(0.0, due - time.monotonic()))

    def _write(self) -> None:
        at, values = time.monotonic_ns(), {}
        for reader in self._readers:
            try:
                values.update(reader())
            except Exception:  # whatever a driver does, a sampler is no reason to lose a measurement
                continue
        try:
            with self._to.open("ab") as file:
                file.write(canonical(Sample(at, values)))
        except OSError:
            return


def samplers(root: Path, chosen: Sequence[Device]) -> list[Callable[[], dict[str, float]]]:
    """Readers of the machine and of the devices that a lane uses."""
    return [Processor(Tree(root)).sample, *(device.sample for device in chosen)]


def read_samples(path: Path) -> tuple[Sample, ...]:
    """All whole lines of a file of samples; () if there is none. A line cut by a crash is left out."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return ()
    made = []
    for line in lines[:-1]:
        try:
            made.append(build(Sample, json.loads(line), str(path)))
        except (ValueError, EvidenceError):
            continue
    return tuple(made)
