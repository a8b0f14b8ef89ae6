"""The accelerators of this machine, whoever made them, under one small interface: gpu0, gpu1 ... by PCI address."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rungproof.measure.hosts import drm, nvidia, xpu_smi
from rungproof.measure.hosts.tree import Tree
from rungproof.records.environment import Fact


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator. facts(), sample(): what it is and shows now, keys begin with `key`; memory(): (used, total) [bytes] or
    None where it does not say; holders(): pids that have it open, as far as this user may see."""

    key: str
    pci: str
    facts: Callable[[], dict[str, Fact]]
    sample: Callable[[], dict[str, float]]
    memory: Callable[[], tuple[int, int] | None]
    holders: Callable[[], list[int]]


def devices(root: Path = Path("/"), nvml: Any = None, xpu: xpu_smi.Ask | None = None) -> list[Device]:
    """All of them; `nvml` from `nvidia.library`, `xpu` from `xpu_smi.asker`."""
    tree = Tree(root)
    found: list[tuple[str, Any]] = [(card.pci, card) for card in drm.cards(tree)]
    found += [(card.pci, card) for card in (nvidia.cards(nvml) if nvml is not None else ())]
    made = []
    for index, (pci, card) in enumerate(sorted(found, key=lambda pair: pair[0])):
        key = f"gpu{index}"
        if isinstance(card, nvidia.Card):
            made.append(
                Device(
                    key,
                    pci,
                    partial(nvidia.read, nvml, card, key),
                    partial(nvidia.sample, card, key),
                    card.memory,
                    card.holders,
                )
            )
        else:
            made.append(
                Device(
                    key, pci, partial(_facts, tree, card, key, xpu), partial(drm.sample, tree, card, key), partial(_memory, tree, card, xpu),
                    partial(holding, tree, nodes(tree, card)),
                )
            )  # fmt: skip
    return made


def _facts(tree: Tree, card: drm.Card, key: str, xpu: xpu_smi.Ask | None) -> dict[str, Fact]:
    """What the kernel shows of a card, and beside it what Intel's tool says of an Intel one."""
    found = drm.read(tree, card, key)
    return found | xpu_smi.read(xpu, card.pci, key, found) if xpu and card.driver in drm.INTEL else found


def _memory(tree: Tree, card: drm.Card, xpu: xpu_smi.Ask | None) -> tuple[int, int] | None:
    shown = drm.memory(tree, card)
    if shown is not None or xpu is None or card.driver not in drm.INTEL:
        return shown
    used, total = xpu_smi.memory_used(xpu, card.pci), drm.read(tree, card, "gpu").get("gpu.memory_total_bytes")
    return (used, total.value) if used is not None and total is not None and isinstance(total.value, int) else None


def nodes(tree: Tree, card: drm.Card) -> frozenset[str]:
    """Device files by which a card is opened for computing or drawing."""
    return frozenset(
        f"/dev/dri/{name}" for name in tree.names(f"{card.device}/drm") if re.fullmatch(r"(card|renderD)\d+", name)
    )


def holding(tree: Tree, files: frozenset[str]) -> list[int]:
    """Pids that have one of these files open. Processes of other users are seen by root alone."""
    made = []
    for pid in tree.names("/proc"):
        folder = tree.path(f"/proc/{pid}/fd")
        if pid.isdecimal() and any(_target(folder / fd) in files for fd in tree.names(f"/proc/{pid}/fd")):
            made.append(int(pid))
    return made


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""
