"""What a server runs on, as typed facts: read from the kernel, the drivers and its own process. Nothing is guessed.

`root` is the root of the tree that is read: a made one in tests. A fact that this host does not show has the value None.
"""

import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rungproof.measure.hosts import machine, software
from rungproof.measure.hosts.devices import Device
from rungproof.measure.hosts.tree import Tree
from rungproof.records.environment import Fact


def host(root: Path = Path("/"), pid: int | None = None, devices: Sequence[Device] = ()) -> dict[str, Fact]:
    """Facts that can be read again at any time: the machine, its accelerators, the limits of process `pid` (None: this one)."""
    found = machine.read(Tree(root), pid)
    found["client_python"] = Fact(platform.python_version(), "informative", "sys.version", "python")
    for device in devices:
        found |= device.facts()
    return found


def server(
    pid: int,
    variables: dict[str, str] | None,
    packages: Iterable[Path],
    root: Path = Path("/"),
    tree: Iterable[int] = (),
) -> dict[str, Fact]:
    """Facts of the server's own software. variables: as first seen, since a process may overwrite what it shows; `tree`: pids of
    its children, whose libraries count too. Where its files are those of a container they are read through /proc."""
    inside = root / "proc" / str(pid) / "root"
    own = Tree(inside if (inside / "etc").is_dir() else root)
    maps = [text for one in (pid, *tree) if (text := Tree(root).text(f"/proc/{one}/maps"))]
    return software.read(own, variables, packages, "\n".join(maps) or None)


def values(facts: dict[str, Fact]) -> dict[str, Any]:
    """The bare values, for server.json; the list of packages stands in its identity."""
    return {key: fact.value for key, fact in facts.items() if key != "python_packages"}
