"""Intel (xe, i915) and AMD cards as the kernel shows them under /sys/class/drm; no tool is run here.

Paths after the kernel's own description (Documentation/ABI/testing, sysfs-driver-intel-xe-hwmon and others).
"""

import hashlib
import re
from dataclasses import dataclass

from rungproof.measure.hosts.tree import Facts, Tree, scaled, whole
from rungproof.records.environment import Fact

DRM = "/sys/class/drm"
INTEL = ("xe", "i915")
DRIVERS = (*INTEL, "amdgpu")


@dataclass(frozen=True, slots=True)
class Card:
    """One card: `folder` under /sys/class/drm, its driver, its PCI address, and the folder of its sensors ("" if none)."""

    folder: str
    driver: str
    pci: str
    sensors: str

    @property
    def device(self) -> str:
        """The folder of its PCI device."""
        return f"{self.folder}/device"


def cards(tree: Tree) -> list[Card]:
    """Cards of the drivers that are known here, by PCI address."""
    made = []
    for name in tree.names(DRM):
        device = f"{DRM}/{name}/device"
        driver = tree.link(f"{device}/driver")
        if re.fullmatch(r"card\d+", name) and driver in DRIVERS:
            sensors = next((f"{device}/hwmon/{one}" for one in tree.names(f"{device}/hwmon")), "")
            made.append(Card(f"{DRM}/{name}", driver, tree.link(device) or "", sensors))
    return sorted(made, key=lambda card: card.pci)


def read(tree: Tree, card: Card, key: str) -> dict[str, Fact]:
    """Facts of one card under `key`."""
    facts = Facts.by(card.driver)

    def add(name: str, file: str, kind: str = "equal") -> None:
        facts.add(f"{key}.{name}", tree.text(file), file, kind)  # type: ignore[arg-type]

    for name in ("vendor", "device", "subsystem_vendor", "subsystem_device", "revision"):
        add(name, f"{card.device}/{name}")
    facts.add(f"{key}.driver", card.driver, f"{card.device}/driver")
    add("driver_version", f"/sys/module/{card.driver}/version")
    for name in ("max_link_speed", "max_link_width", "current_link_width", "numa_node"):
        add(f"pcie_{name}" if "link" in name else name, f"{card.device}/{name}")
    add("pcie_current_link_speed", f"{card.device}/current_link_speed", "informative")  # an idle link sleeps
    facts.add(f"{key}.pci", card.pci or None, f"{card.folder}/device", "informative")
    _sensor_limits(facts, tree, card, key)
    {"xe": _xe, "i915": _i915, "amdgpu": _amd}[card.driver](facts, tree, card, key)
    return facts.made


def sample(tree: Tree, card: Card, key: str) -> dict[str, float]:
    """What a card shows at this moment; figures that it does not give are left out."""
    found = {
        **_sensors(tree, card),
        **_clocks(tree, card),
        "memory_used_bytes": tree.number(f"{card.device}/mem_info_vram_used"),
    }
    return {f"{key}.{name}": float(value) for name, value in found.items() if value is not None}


def memory(tree: Tree, card: Card) -> tuple[int, int] | None:
    """(used, total) memory of a card [bytes], where its driver shows both (amdgpu does; for xe and i915 see xpu_smi)."""
    used, total = (tree.number(f"{card.device}/mem_info_vram_{name}") for name in ("used", "total"))
    return None if used is None or total is None else (used, total)


def throttled(tree: Tree, card: Card) -> dict[str, int]:
    """Reason of throttling -> 0 or 1, as the driver names them; {} where it shows none."""
    places = [f"{gt}/freq0/throttle" for gt in _tiles(tree, card)] if card.driver == "xe" else [f"{card.folder}/gt/gt0"]
    made: dict[str, int] = {}
    for place in places:
        for name in tree.names(place):
            if match := re.fullmatch(r"(?:throttle_)?reason_(?!status)(\w+)", name):
                value = tree.number(f"{place}/{name}")
                if value is not None:
                    made[match[1]] = max(made.get(match[1], 0), int(value != 0))
    return made


def _tiles(tree: Tree, card: Card) -> list[str]:
    """Folders of the graphics units of an xe card."""
    tiles = [f"{card.device}/{name}" for name in tree.names(card.device) if re.fullmatch(r"tile\d+", name)]
    return [f"{tile}/{name}" for tile in tiles for name in tree.names(tile) if re.fullmatch(r"gt\d+", name)]


def _labels(tree: Tree, card: Card, kind: str) -> list[tuple[str, str]]:
    """(label, stem) of the sensors of a kind: ("pkg", ".../temp2"). Without a label the number is the label."""
    made = []
    for name in tree.names(card.sensors) if card.sensors else ():
        if match := re.fullmatch(rf"({kind}(\d+))_(?:input|average|max|cap)", name):
            stem = f"{card.sensors}/{match[1]}"
            label = tree.text(f"{stem}_label") or match[2]
            if (label, stem) not in made:
                made.append((re.sub(r"\W+", "_", label), stem))
    return list(dict.fromkeys(made))


def _sensor_limits(facts: Facts, tree: Tree, card: Card, key: str) -> None:
    """Power limits as they are read back: what was written there, and taken without an error, may still not hold."""
    for label, stem in _labels(tree, card, "power"):
        for name, file in (
            ("limit", "max"),
            ("limit", "cap"),
            ("limit_rated", "rated_max"),
            ("limit_default", "cap_default"),
            ("limit_critical", "crit"),
        ):
            number = tree.number(f"{stem}_{file}")
            if number is not None:
                # The kernel reads 0 where the limit is switched off.
                value: float | str = "off" if number == 0 and name == "limit" else number * 1e-6
                facts.add(f"{key}.power_{name}_w.{label}", value, f"{stem}_{file}")


def _sensors(tree: Tree, card: Card) -> dict[str, float | None]:
    made: dict[str, float | None] = {}
    energies = _labels(tree, card, "energy")
    for label, stem in energies:
        made["energy_uj" if (label, stem) == energies[0] else f"energy_{label}_uj"] = tree.number(f"{stem}_input")
    for _, stem in _labels(tree, card, "power")[:1]:
        number = (
            tree.number(f"{stem}_average")
            if tree.number(f"{stem}_average") is not None
            else tree.number(f"{stem}_input")
        )
        made["power_w"] = scaled(number, 1e-6)
    for label, stem in _labels(tree, card, "temp"):
        made[f"temperature_{label}_c"] = scaled(tree.number(f"{stem}_input"), 1e-3)
    return made


def _clocks(tree: Tree, card: Card) -> dict[str, float | None]:
    made: dict[str, float | None] = {}
    if card.driver == "xe":
        found = [tree.number(f"{gt}/freq0/act_freq") for gt in _tiles(tree, card)]
        known = [value for value in found if value is not None]
        made["clock_mhz"] = max(known) if known else None  # an idle unit shows 0
    elif card.driver == "i915":
        shown = (tree.number(f"{card.folder}/{name}") for name in ("gt/gt0/rps_act_freq_mhz", "gt_act_freq_mhz"))
        made["clock_mhz"] = next((value for value in shown if value is not None), None)
    else:
        made["clock_mhz"] = _starred(tree.text(f"{card.device}/pp_dpm_sclk"))
        made["memory_clock_mhz"] = _starred(tree.text(f"{card.device}/pp_dpm_mclk"))
        made["busy_percent"] = tree.number(f"{card.device}/gpu_busy_percent")
    reasons = throttled(tree, card)
    if reasons:
        made["throttled"] = float(max(reasons.values()))
        made |= {f"throttled_{name}": float(value) for name, value in reasons.items()}
    return made


def _xe(facts: Facts, tree: Tree, card: Card, key: str) -> None:
    sizes = [
        tree.number(f"{card.device}/{name}/physical_vram_size_bytes")
        for name in tree.names(card.device)
        if re.fullmatch(r"tile\d+", name)
    ]
    whole_card = sum(size for size in sizes if size is not None) if sizes and None not in sizes else None
    facts.add(f"{key}.memory_total_bytes", whole_card, f"{card.device}/tile*/physical_vram_size_bytes")
    for gt in _tiles(tree, card):
        name = ".".join(gt.split("/")[-2:])
        for file in ("min_freq", "max_freq", "rp0_freq", "rpe_freq", "rpn_freq"):
            kind = "informative" if file == "rpe_freq" else "equal"  # the efficient clock moves with the temperature
            facts.add(f"{key}.{name}.{file}_mhz", tree.number(f"{gt}/freq0/{file}"), f"{gt}/freq0/{file}", kind)  # type: ignore[arg-type]
    debug = f"/sys/kernel/debug/dri/{card.pci}"
    for unit in ("gt0", "gt1"):
        text = tree.text(f"{debug}/{unit}/uc/guc_info")
        if text and (match := re.search(r"found version ([\d.]+)", text) or re.search(r"version: \w+ ([\d.]+)", text)):
            facts.add(f"{key}.firmware_guc_{unit}", match[1], f"{debug}/{unit}/uc/guc_info")


def _i915(facts: Facts, tree: Tree, card: Card, key: str) -> None:
    for file in ("rps_min_freq_mhz", "rps_max_freq_mhz", "rps_boost_freq_mhz", "rps_RP0_freq_mhz"):
        facts.add(f"{key}.{file}", tree.number(f"{card.folder}/gt/gt0/{file}"), f"{card.folder}/gt/gt0/{file}")
    facts.add(
        f"{key}.memory_total_bytes", tree.number(f"{card.folder}/lmem_total_bytes"), f"{card.folder}/lmem_total_bytes"
    )


def _amd(facts: Facts, tree: Tree, card: Card, key: str) -> None:
    for name, file in (
        ("firmware", "vbios_version"), ("name", "product_name"), ("performance_level", "power_dpm_force_performance_level"),
        ("compute_partition", "current_compute_partition"), ("memory_partition", "current_memory_partition"),
    ):  # fmt: skip
        facts.add(f"{key}.{name}", tree.text(f"{card.device}/{file}"), f"{card.device}/{file}")
    facts.add(
        f"{key}.memory_total_bytes",
        tree.number(f"{card.device}/mem_info_vram_total"),
        f"{card.device}/mem_info_vram_total",
    )
    versions = {
        name.removesuffix("_fw_version"): tree.text(f"{card.device}/fw_version/{name}")
        for name in tree.names(f"{card.device}/fw_version")
    }
    facts.add(f"{key}.firmware_units", versions or None, f"{card.device}/fw_version/")
    serial = tree.text(f"{card.device}/unique_id")
    facts.add(
        f"{key}.uuid_sha256",
        hashlib.sha256(serial.encode()).hexdigest()[:16] if serial else None,
        f"{card.device}/unique_id",
        "informative",
    )


def _starred(text: str | None) -> int | None:
    """The level in use of a list such as "1: 800Mhz *"."""
    match = re.search(r"^\d+: (\d+)\s*Mhz \*", text or "", re.MULTILINE | re.IGNORECASE)
    return whole(match[1]) if match else None
