"""What a machine lacks for a campaign, found before an accelerator is used: each check with what was found and what to do.

Nothing is changed, started or downloaded; the one thing that is run besides questions to engines is a look-up at the
package index. What a check needs of the machine comes in through `Machine`, so that tests can make a broken one.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rungproof.measure.hosts import machine as facts_of
from rungproof.measure.hosts.devices import Device
from rungproof.measure.hosts.tree import Tree, table
from rungproof.measure.serving import lock, occupied, procfs
from rungproof.measure.serving.surroundings import unmet
from rungproof.records.environment import Fact
from rungproof.records.errors import HostError

State = Literal["ok", "warn", "fail"]
NOFILE, NOFILE_GOOD = 1024, 65536
BUSY_SHARE = 0.25  # of the processors may be busy with other things


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. warn: it can be measured, but not well; fail: it cannot. `fix` is empty where all is well."""

    name: str
    state: State
    found: str
    needed: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Room:
    """Room that a campaign needs in a folder [bytes]."""

    folder: Path
    size: int
    what: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a campaign needs of a machine. index: a package that the index must know, "" where nothing is downloaded; engines:
    container engine -> images (by digest) that must be there; programs: those that lanes start by their own name."""

    lock: Path
    rooms: tuple[Room, ...] = ()
    memory_bytes: int | None = None
    index: str = ""
    devices: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    expect: dict[str, Any] = field(default_factory=dict)
    kernel_log: bool = False
    engines: Mapping[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    programs: tuple[str, ...] = ()
    real: bool = True


def _run(argv: Sequence[str], seconds: float) -> tuple[int, str]:
    """Exit status and last lines of a command that asks something; 127 if it is not there, 124 if it does not answer."""
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError:
        return 127, f"{argv[0]}: no such program"
    except subprocess.TimeoutExpired:
        return 124, f"no answer within {seconds:g} s"
    except OSError as error:
        return 126, str(error)
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    return done.returncode, " ".join(lines[-2:])[:300]


def _place(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    return next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())


def _free(folder: Path) -> int:
    """Free bytes where a folder is or will be."""
    return shutil.disk_usage(_place(folder)).free


def disk_of(folder: Path) -> int:
    """Number of the file system in which a folder is or will be."""
    return _place(folder).stat().st_dev


def together(rooms: Sequence[Room], disk: Callable[[Path], int] = disk_of) -> tuple[Room, ...]:
    """Rooms on one disk as one, so that two of them do not each find the same space enough."""
    by_disk: dict[int, Room] = {}
    for room in rooms:
        other = by_disk.get(disk(room.folder))
        by_disk[disk(room.folder)] = (
            Room(room.folder, room.size + other.size, f"{other.what}, {room.what}") if other else room
        )
    return tuple(by_disk.values())


def _port() -> str:
    """Empty if a port of the loopback can be listened on; else why not."""
    try:
        procfs.free_port(0)
    except (HostError, OSError) as error:
        return str(error)
    return ""


@dataclass(frozen=True, slots=True)
class Machine:
    """How this machine is asked."""

    tree: Tree = field(default_factory=lambda: Tree(Path("/")))
    devices: tuple[Device, ...] = ()
    free: Callable[[Path], int] = _free
    run: Callable[[Sequence[str], float], tuple[int, str]] = _run
    port: Callable[[], str] = _port
    readable: Callable[[str], bool] = lambda path: os.access(path, os.R_OK)
    python: str = "python3"
    which: Callable[[str], str | None] = shutil.which


def examine(wanted: Wanted, machine: Machine) -> list[Check]:
    """Every check, those of the machine first."""
    facts = facts_of.read(machine.tree)
    for device in machine.devices:
        facts |= device.facts()
    made = [
        *_system(machine),
        *_limits(facts),
        *(_processor(facts, machine) if wanted.real else ()),
        *_memory(wanted, facts, machine),
        *(_disk(room, machine) for room in wanted.rooms),
        *_lock(wanted.lock),
        *_devices(wanted, machine, facts),
        *(_index(wanted.index, machine) if wanted.index else ()),
    ]
    for program in wanted.programs:
        place = machine.which(program)
        made.append(
            _check(
                f"program {program}",
                place is not None,
                place or "not on the path",
                program,
                "Install it, or name its path as the lane's `program`.",
            )
        )
    for engine, images in wanted.engines.items():
        made += _engine(engine, images, machine)
    if wanted.kernel_log:
        made.append(_kernel_log(machine))
    return made


def _system(machine: Machine) -> Iterator[Check]:
    proc = machine.tree.text("/proc/self/stat") is not None
    yield _check(
        "process table", proc, "/proc is readable" if proc else "/proc is not readable", "/proc",
        "Mount /proc: servers are proven to be ours by means of it.",
    )  # fmt: skip
    mounts = machine.tree.text("/proc/self/mounts") or ""
    hidden = re.search(r"^\S+ /proc \S+ \S*hidepid=([12]|invisible|noaccess)", mounts, re.MULTILINE)
    if hidden:
        yield Check(
            "processes of others", "warn", f"/proc is mounted with hidepid={hidden[1]}", "visible",
            "Holders of devices and ports cannot be named; mount /proc without hidepid, or join its group.",
        )  # fmt: skip
    trouble = machine.port()
    yield _check(
        "ports",
        not trouble,
        trouble or "a port of the loopback can be listened on",
        "127.0.0.1",
        "Bring up the loopback device: ip link set lo up",
    )


def _limits(facts: Mapping[str, Fact]) -> Iterator[Check]:
    text = str(facts["limit.nofile"].value) if "limit.nofile" in facts else ""
    soft, _, hard = text.partition(" ")
    number = int(soft) if soft.isdecimal() else None
    if soft == "unlimited" or (number is not None and number >= NOFILE_GOOD):
        yield Check("open files", "ok", text)
    elif number is not None and number >= NOFILE:
        yield Check(
            "open files",
            "warn",
            text,
            f"{NOFILE_GOOD} or more",
            f"High concurrency may fail: ulimit -n {NOFILE_GOOD} (at most {hard or 'unknown'} without root)",
        )
    else:
        yield Check(
            "open files",
            "fail",
            text or "not known",
            f"at least {NOFILE}",
            f"ulimit -n {NOFILE_GOOD}; or raise nofile in /etc/security/limits.conf",
        )


def _processor(facts: Mapping[str, Fact], machine: Machine) -> Iterator[Check]:
    governors = facts["governors"].value
    if governors is None:
        yield Check("governor", "ok", "not shown (a virtual machine, or a fixed clock)")
    else:
        yield _check(
            "governor", governors == ["performance"], ", ".join(governors), "performance",
            "Clocks will move while it is measured: cpupower frequency-set -g performance", "warn",
        )  # fmt: skip
    cpus = facts["cpus_online"].value
    load = facts["load"].value
    if cpus is None or load is None:
        yield Check("other load", "warn", "not known", "an idle machine", "Look yourself that nothing else runs.")
    else:
        busy = float(load[0]) / cpus
        names = f": {_busiest(machine.tree)}" if busy > BUSY_SHARE else ""
        yield _check(
            "other load", busy <= BUSY_SHARE, f"{load[0]} processes run on {cpus} processors{names}",
            f"at most {BUSY_SHARE:.0%} busy", "End or stop what else runs; its share of the processors would be in every number.", "warn",
        )  # fmt: skip
    if (stolen := facts.get("virtualised")) is not None and stolen.value:
        yield Check(
            "virtual machine", "ok", "this is one: what its host does beside it is not seen; stolen time is sampled"
        )


def _busiest(tree: Tree) -> str:
    """The processes that have used most processor time, by name: a hint, no proof."""
    found = []
    for pid in tree.names("/proc"):
        if pid.isdecimal() and (text := tree.text(f"/proc/{pid}/stat")):
            head, _, tail = text.rpartition(")")
            fields = tail.split()
            if len(fields) > 12 and fields[0] == "R" and int(pid) != os.getpid():
                found.append((int(fields[11]) + int(fields[12]), f"{head.partition('(')[2]} ({pid})"))
    return ", ".join(name for _, name in sorted(found, reverse=True)[:3]) or "none of them runs at this moment"


def _memory(wanted: Wanted, facts: Mapping[str, Fact], machine: Machine) -> Iterator[Check]:
    available = table(machine.tree.text("/proc/meminfo")).get("MemAvailable", "").partition(" ")[0]
    free = int(available) * 1024 if available.isdecimal() else None
    limit = facts.get("cgroup.memory_max")
    if limit is not None and str(limit.value).isdecimal() and free is not None:
        free = min(free, int(limit.value))
    if wanted.memory_bytes is not None:
        words = "not known" if free is None else _size(free)
        yield _check(
            "memory", free is not None and free >= wanted.memory_bytes, f"{words} available", _size(wanted.memory_bytes),
            "End what else uses memory, raise the control group's limit, or take another machine.",
        )  # fmt: skip
    swap = facts["swap_total_kb"].value
    used = (swap or 0) - (facts["swap_free_kb"].value or 0)
    if swap and used > 0.1 * swap:
        yield Check(
            "swap",
            "warn",
            f"{_size(used * 1024)} in use",
            "none",
            "A server that swaps is not measured: end what else uses memory, then swapoff -a",
        )


def _disk(room: Room, machine: Machine) -> Check:
    free = machine.free(room.folder)
    return _check(
        f"disk for {room.what}", free >= room.size, f"{_size(free)} free where {room.folder} lies", _size(room.size),
        "Free some space, or put the folder elsewhere (config/config.yaml: results, build).",
    )  # fmt: skip


def _lock(path: Path) -> Iterator[Check]:
    held = lock.holder(path)
    yield _check(
        "host lock", held is None, f"held by {held}" if held else "free", "free", "Wait until that session has ended."
    )
    latched = lock.read_latch(path)
    if latched is not None:
        yield Check(
            "host latch",
            "fail",
            lock.latch_words(path, latched),
            "no latch",
            "Look at the device and its processes, then: rungproof host clear",
        )


def _devices(wanted: Wanted, machine: Machine, facts: dict[str, Fact]) -> Iterator[Check]:
    for key in wanted.devices:
        device = next((one for one in machine.devices if one.key == key), None)
        if device is None:
            there = ", ".join(one.key for one in machine.devices) or "none"
            yield Check(
                f"device {key}", "fail", f"devices found: {there}", key,
                "Is its driver loaded, and may this user see it? NVIDIA: nvidia-smi; Intel and AMD: ls -l /dev/dri, and the groups video and render.",
            )  # fmt: skip
            continue
        reasons = occupied.before([device], wanted.holders, 0.0)
        yield _check(
            f"device {key}", not reasons, "; ".join(map(str, reasons)) or f"free ({device.pci})", "free",
            "End what holds it; a display server that may stay goes into the host profile's holders.",
        )  # fmt: skip
    for reason in unmet(wanted.expect, facts):
        yield Check(
            f"host fact {reason.where}",
            "fail",
            reason.found,
            reason.expected,
            "Set it so and look again: what is written is not always in force.",
        )


def _index(package: str, machine: Machine) -> Iterator[Check]:
    status, said = machine.run(
        [machine.python, "-m", "pip", "index", "versions", "--disable-pip-version-check", package], 30.0
    )
    if status == 127:
        yield Check("package index", "fail", said, "pip", "Install Python's pip and venv modules.")
    else:
        yield _check(
            "package index", status == 0, f"knows {package}" if status == 0 else said or f"exit code {status}", "reachable",
            "Set your index (pip config set global.index-url ...) or proxy, or bring the environment made on another machine.",
        )  # fmt: skip


def _engine(engine: tuple[str, ...], images: Sequence[str], machine: Machine) -> Iterator[Check]:
    name = engine[0]
    status, said = machine.run([*engine, "info"], 30.0)
    yield _check(
        f"container engine {name}", status == 0, "answers" if status == 0 else said, "an engine that can start containers",
        f"Install {name}, start its service, and let this user use it (docker: the group docker).",
    )  # fmt: skip
    for image in images if status == 0 else ():
        status, said = machine.run([*engine, "image", "inspect", "--format", "{{.Id}}", image], 30.0)
        yield _check(
            f"image {image[:60]}",
            status == 0,
            "there" if status == 0 else said,
            "pulled or built",
            f"{name} pull {image}"
            if "@" in image
            else f"Build it here, and name the id in the lane that {name} shows for it now.",
        )


def _kernel_log(machine: Machine) -> Check:
    return _check(
        "kernel log", machine.readable("/dev/kmsg"), "readable" if machine.readable("/dev/kmsg") else "not readable", "readable",
        "The host profile watches it: run as root or with CAP_SYSLOG, or sysctl kernel.dmesg_restrict=0; or drop kernel_fault_lines.",
    )  # fmt: skip


def _check(name: str, ok: bool, found: str, needed: str, fix: str, otherwise: State = "fail") -> Check:
    return Check(name, "ok" if ok else otherwise, found, needed, "" if ok else fix)


def _size(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.0f} MB"
