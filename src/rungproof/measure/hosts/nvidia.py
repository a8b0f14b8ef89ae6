"""NVIDIA cards through NVML (nvidia-ml-py). `nvml` is that module, or in tests one that answers in its place.

A call that a card or driver does not know gives None for its fact, never 0: every one of them is optional in practice.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from rungproof.measure.hosts.tree import Facts
from rungproof.records.environment import Fact

READER = "nvml"


def library() -> Any:
    """NVML, ready to be asked; None where the package, the driver or a card is lacking."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # the package raises its own kinds, also for a library of another version
        return None
    return pynvml


class Card:
    """One card. Every figure is None where the card does not give it."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle

    def ask(self, call: str, *more: Any) -> Any:
        """The answer of nvmlDevice<call>; None if it fails or is not known."""
        return _ask(getattr(self._nvml, f"nvmlDevice{call}", None), self._handle, *more)

    def text(self, call: str) -> str | None:
        """The same for a text."""
        found = self.ask(call)
        return (
            found.decode("utf-8", "replace") if isinstance(found, bytes) else found if isinstance(found, str) else None
        )

    def constant(self, name: str) -> Any:
        """A constant of NVML; None if this version has none of that name."""
        return getattr(self._nvml, f"NVML_{name}", None)

    @property
    def pci(self) -> str:
        """Its PCI address, lower case, as the kernel writes it."""
        found = getattr(self.ask("GetPciInfo"), "busId", "")
        text = found.decode("ascii", "replace") if isinstance(found, bytes) else str(found)
        return text.lower()[-12:]

    def holders(self) -> list[int]:
        """Pids that hold the card, for computing or drawing."""
        calls = ("GetComputeRunningProcesses", "GetGraphicsRunningProcesses")
        found = {int(one.pid) for call in calls for one in self.ask(call) or ()}
        return sorted(found)

    def memory(self) -> tuple[int, int] | None:
        """(used, total) memory [bytes]."""
        found = self.ask("GetMemoryInfo")
        return None if found is None else (int(found.used), int(found.total))


def cards(nvml: Any) -> list[Card]:
    """All cards, in the order of NVML, which is that of their PCI addresses."""
    number = _ask(getattr(nvml, "nvmlDeviceGetCount", None)) or 0
    handles = (_ask(nvml.nvmlDeviceGetHandleByIndex, index) for index in range(int(number)))
    return [Card(nvml, handle) for handle in handles if handle is not None]


def read(nvml: Any, card: Card, key: str) -> dict[str, Fact]:
    """Facts of one card under `key`."""
    facts = Facts.by(READER)
    memory = card.memory()
    rows: Sequence[tuple[str, Any, str]] = (
        ("name", card.text("GetName"), "GetName"),
        ("firmware", card.text("GetVbiosVersion"), "GetVbiosVersion"),
        ("memory_total_bytes", memory[1] if memory else None, "GetMemoryInfo"),
        ("power_limit_w", _watts(card.ask("GetPowerManagementLimit")), "GetPowerManagementLimit"),
        ("power_limit_enforced_w", _watts(card.ask("GetEnforcedPowerLimit")), "GetEnforcedPowerLimit"),
        ("power_limit_default_w", _watts(card.ask("GetPowerManagementDefaultLimit")), "GetPowerManagementDefaultLimit"),
        ("clock_max_mhz", card.ask("GetMaxClockInfo", card.constant("CLOCK_SM")), "GetMaxClockInfo(SM)"),
        ("memory_clock_max_mhz", card.ask("GetMaxClockInfo", card.constant("CLOCK_MEM")), "GetMaxClockInfo(MEM)"),
        ("applications_clock_mhz", card.ask("GetApplicationsClock", card.constant("CLOCK_SM")), "GetApplicationsClock(SM)"),
        ("persistence", card.ask("GetPersistenceMode"), "GetPersistenceMode"),
        ("compute_mode", card.ask("GetComputeMode"), "GetComputeMode"),
        ("mig", _first(card.ask("GetMigMode")), "GetMigMode"),
        ("ecc", _first(card.ask("GetEccMode")), "GetEccMode"),
        ("pcie_generation_max", card.ask("GetMaxPcieLinkGeneration"), "GetMaxPcieLinkGeneration"),
        ("pcie_width_max", card.ask("GetMaxPcieLinkWidth"), "GetMaxPcieLinkWidth"),
        ("pcie_width", card.ask("GetCurrPcieLinkWidth"), "GetCurrPcieLinkWidth"),
        ("driver", _decoded(_ask(getattr(nvml, "nvmlSystemGetDriverVersion", None))), "nvmlSystemGetDriverVersion"),
        ("cuda_driver", _cuda(_ask(getattr(nvml, "nvmlSystemGetCudaDriverVersion", None))), "nvmlSystemGetCudaDriverVersion"),
    )  # fmt: skip
    for name, value, call in rows:
        facts.add(f"{key}.{name}", value, call if call.startswith("nvml") else f"nvmlDevice{call}")
    uuid = card.text("GetUUID")
    # An idle link goes to sleep, so its present generation says nothing of the one in use.
    facts.add(
        f"{key}.pcie_generation",
        card.ask("GetCurrPcieLinkGeneration"),
        "nvmlDeviceGetCurrPcieLinkGeneration",
        "informative",
    )
    facts.add(f"{key}.memory_used_bytes", memory[0] if memory else None, "nvmlDeviceGetMemoryInfo", "informative")
    facts.add(f"{key}.pci", card.pci or None, "nvmlDeviceGetPciInfo", "informative")
    facts.add(
        f"{key}.uuid_sha256",
        hashlib.sha256(uuid.encode()).hexdigest()[:16] if uuid else None,
        "nvmlDeviceGetUUID",
        "informative",
    )
    return facts.made


def sample(card: Card, key: str) -> dict[str, float]:
    """What a card shows at this moment; figures that it does not give are left out."""
    memory = card.memory()
    rows = {
        "clock_mhz": card.ask("GetClockInfo", card.constant("CLOCK_SM")),
        "memory_clock_mhz": card.ask("GetClockInfo", card.constant("CLOCK_MEM")),
        "throttle_bits": _first(card.ask("GetCurrentClocksEventReasons"), card.ask("GetCurrentClocksThrottleReasons")),
        "power_w": _watts(card.ask("GetPowerUsage")),
        "energy_mj": card.ask("GetTotalEnergyConsumption"),
        "memory_used_bytes": memory[0] if memory else None,
        "temperature_c": card.ask("GetTemperature", card.constant("TEMPERATURE_GPU")),
        "busy_percent": getattr(card.ask("GetUtilizationRates"), "gpu", None),
    }
    return {f"{key}.{name}": float(value) for name, value in rows.items() if isinstance(value, (int, float))}


def _ask(call: Callable[..., Any] | None, *arguments: Any) -> Any:
    if call is None or any(argument is None for argument in arguments):
        return None
    try:
        return call(*arguments)
    except Exception:  # not supported, no permission, a card that is lost: all mean that it does not say
        return None


def _first(*found: Any) -> Any:
    """The first that is there; of a pair (now, pending) the one that is now."""
    value = next((one for one in found if one is not None), None)
    return value[0] if isinstance(value, (list, tuple)) else value


def _watts(milliwatts: Any) -> float | None:
    return milliwatts / 1000 if isinstance(milliwatts, int) else None


def _decoded(text: Any) -> str | None:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text if isinstance(text, str) else None


def _cuda(number: Any) -> str | None:
    """12040 is 12.4."""
    return f"{number // 1000}.{number % 1000 // 10}" if isinstance(number, int) else None
