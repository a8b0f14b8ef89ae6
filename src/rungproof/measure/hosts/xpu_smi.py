"""Intel cards by Intel's own tool `xpu-smi`, where it is installed: what the kernel does not show, and a second reader of what it does.

`xpu-smi discovery -d <PCI address> -j` and `xpu-smi stats -d <PCI address> -j` (XPU Manager's user guide). A call takes about a second and
talks to the card, so the tool is asked before and after a session, never by the sampler.

Class and unit of what is kept, under <key>.xpu_smi.:
  equal        name, stepping, driver, firmware, firmware_data, ecc, memory_total_bytes [bytes], execution_units
  informative  temperature_c [degrees], power_w [W], clock_mhz [MHz], memory_used_bytes [bytes; the tool says MiB], uuid_sha256,
               disagrees: name -> [kernel's value, tool's value] of what both show and show differently; {}: they agree; None: nothing to compare
"""

import hashlib
import json
import math
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rungproof.measure.hosts.tree import Facts, whole
from rungproof.records.environment import Fact

READER = "xpu-smi"
TIMEOUT_S = 20.0
LONGEST = 1024 * 1024  # bytes of an answer
MIB = 1024 * 1024
UNKNOWN = ("", "unknown", "n/a", "-1")
Ask = Callable[[Sequence[str]], str | None]  # words after `xpu-smi` -> its answer, None where there is none

ABOUT = (
    ("name", "device_name"), ("stepping", "device_stepping"), ("driver", "driver_version"), ("firmware", "gfx_firmware_version"),
    ("firmware_data", "gfx_data_firmware_version"), ("ecc", "memory_ecc_state"),
)  # fmt: skip
SHOWN = (
    ("temperature_c", "XPUM_STATS_GPU_CORE_TEMPERATURE", 1.0), ("power_w", "XPUM_STATS_POWER", 1.0), ("clock_mhz", "XPUM_STATS_GPU_FREQUENCY", 1.0),
    ("memory_used_bytes", "XPUM_STATS_MEMORY_USED", float(MIB)),
)  # fmt: skip


def asker() -> Ask | None:
    """The tool of this machine; None where it is not installed."""
    program = shutil.which("xpu-smi")
    return None if program is None else lambda words: _run(program, words)


def _run(program: str, words: Sequence[str]) -> str | None:
    try:
        done = subprocess.run(
            [program, *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout[:LONGEST].decode("utf-8", "replace") if done.returncode == 0 else None


def read(ask: Ask, pci: str, key: str, kernel: Mapping[str, Fact]) -> dict[str, Fact]:
    """Facts of one card under `key`; `kernel`: what sysfs shows of it, to be held against it."""
    about, now = _object(ask, "discovery", pci), stats(ask, pci)
    facts = Facts.by(READER)
    for name, field in ABOUT:
        facts.add(f"{key}.xpu_smi.{name}", _text(about.get(field)), f"discovery: {field}")
    total = whole(_text(about.get("memory_physical_size_byte")))
    facts.add(f"{key}.xpu_smi.memory_total_bytes", total, "discovery: memory_physical_size_byte")
    facts.add(f"{key}.xpu_smi.execution_units", whole(_text(about.get("number_of_eus"))), "discovery: number_of_eus")
    uuid = _text(about.get("uuid"))
    known = hashlib.sha256(uuid.encode()).hexdigest()[:16] if uuid else None
    facts.add(f"{key}.xpu_smi.uuid_sha256", known, "discovery: uuid", "informative")
    for name, metric, scale in SHOWN:
        value = now.get(metric)
        facts.add(f"{key}.xpu_smi.{name}", None if value is None else value * scale, f"stats: {metric}", "informative")
    differ = _differ(about, key, kernel)
    facts.add(f"{key}.xpu_smi.disagrees", differ, "discovery against sysfs", "informative")
    return facts.made


def memory_used(ask: Ask, pci: str) -> int | None:
    """Memory of a card that is in use [bytes], which the drivers xe and i915 do not show."""
    value = stats(ask, pci).get("XPUM_STATS_MEMORY_USED")
    return None if value is None else round(value * MIB)


def stats(ask: Ask, pci: str) -> dict[str, float]:
    """Metric -> value of the whole card. Where the tool gives tiles alone: their sum for power and memory, else the greatest."""
    found = _object(ask, "stats", pci)
    whole_card = _metrics(found.get("device_level"))
    tiles = found.get("tile_level")
    each = (
        [_metrics(tile.get("data_list")) for tile in tiles if isinstance(tile, dict)] if isinstance(tiles, list) else []
    )
    for metric in sorted({name for tile in each for name in tile} - set(whole_card)):
        values = [tile[metric] for tile in each if metric in tile]
        summed = metric in ("XPUM_STATS_POWER", "XPUM_STATS_MEMORY_USED")
        if len(values) == len(each):
            whole_card[metric] = math.fsum(values) if summed else max(values)
    return whole_card


def _differ(about: Mapping[str, Any], key: str, kernel: Mapping[str, Fact]) -> dict[str, list[Any]] | None:
    """What the tool and the kernel both show and show differently."""
    tool = {
        "pci": (_text(about.get("pci_bdf_address")) or "").lower() or None,
        "device": whole(_text(about.get("pci_device_id"))),
        "memory_total_bytes": whole(_text(about.get("memory_physical_size_byte"))),
    }
    sysfs = {name: kernel[f"{key}.{name}"].value if f"{key}.{name}" in kernel else None for name in tool}
    sysfs["device"] = whole(sysfs["device"]) if isinstance(sysfs["device"], str) else None
    both = [name for name in tool if tool[name] is not None and sysfs[name] is not None]
    return {name: [sysfs[name], tool[name]] for name in both if sysfs[name] != tool[name]} if both else None


def _object(ask: Ask, command: str, pci: str) -> dict[str, Any]:
    """The JSON object of an answer; {} where there is none, or it says that something failed."""
    words = (command, "-d", pci, "-j")
    text = ask(words) or ask(
        words
    )  # a fact that is missing once makes a session unsound, so the tool is given a second chance
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and "error" not in found else {}


def _metrics(listed: Any) -> dict[str, float]:
    made: dict[str, float] = {}
    for one in listed if isinstance(listed, list) else ():
        name, value = (one.get("metrics_type"), one.get("value")) if isinstance(one, dict) else (None, None)
        number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
        if isinstance(name, str) and 0 <= number < math.inf:
            made[name] = float(number)
    return made


def _text(value: Any) -> str | None:
    """A value as text; None where the tool does not know it."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    text = str(value).strip()[:200]
    return None if text.lower() in UNKNOWN else text
