"""Accelerators, from made trees and an NVML that answers as it is told; nothing here needs a card."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from measure.host_trees import AMD_CARD, I915_CARD, XE_CARD, card, made
from rungproof.measure.hosts import drm, nvidia
from rungproof.measure.hosts.devices import devices, holding
from rungproof.measure.hosts.tree import Tree


def found(root: Path, nvml: Any = None) -> dict[str, Any]:
    return {key: fact.value for device in devices(root, nvml) for key, fact in device.facts().items()}


def test_an_xe_card_is_read_from_sysfs(tmp_path: Path) -> None:
    """Identity, link, memory, clocks and limits as the driver shows them; a limit of 0 is a limit that is off."""
    card(tmp_path, "card1", "xe", "0000:03:00.0", XE_CARD)
    values = found(tmp_path)
    assert {key: values[f"gpu0.{key}"] for key in (
        "vendor", "device", "driver", "pci", "pcie_current_link_width", "pcie_max_link_speed", "memory_total_bytes", "tile0.gt0.max_freq_mhz",
        "power_limit_w.card", "power_limit_w.pkg", "power_limit_critical_w.card",
    )} == {
        "vendor": "0x8086", "device": "0xe211", "driver": "xe", "pci": "0000:03:00.0", "pcie_current_link_width": "8",
        "pcie_max_link_speed": "32.0 GT/s PCIe", "memory_total_bytes": 25669140480, "tile0.gt0.max_freq_mhz": 2800,
        "power_limit_w.card": 190.0, "power_limit_w.pkg": "off", "power_limit_critical_w.card": 300.0,
    }  # fmt: skip
    (device,) = devices(tmp_path)
    assert device.sample() == {
        "gpu0.energy_uj": 5e9, "gpu0.energy_pkg_uj": 4e9, "gpu0.temperature_pkg_c": 59.0, "gpu0.clock_mhz": 2400.0, "gpu0.throttled": 1.0,
        "gpu0.throttled_pl1": 1.0, "gpu0.throttled_thermal": 0.0,
    }  # fmt: skip
    assert device.memory() is None


def test_an_i915_card_is_read_from_sysfs(tmp_path: Path) -> None:
    """The older driver of the same cards shows them elsewhere."""
    card(tmp_path, "card0", "i915", "0000:04:00.0", I915_CARD)
    (device,) = devices(tmp_path)
    assert found(tmp_path)["gpu0.rps_max_freq_mhz"] == 2400
    assert found(tmp_path)["gpu0.memory_total_bytes"] == 17079205888
    assert device.sample() == {
        "gpu0.energy_uj": 77e6, "gpu0.clock_mhz": 600.0, "gpu0.throttled": 1.0, "gpu0.throttled_pl1": 0.0, "gpu0.throttled_thermal": 1.0,
    }  # fmt: skip


def test_an_amd_card_is_read_from_sysfs(tmp_path: Path) -> None:
    """Firmware, memory, clock in use, power; its serial number is kept as a digest alone."""
    card(tmp_path, "card2", "amdgpu", "0000:05:00.0", AMD_CARD)
    (device,) = devices(tmp_path)
    values = found(tmp_path)
    assert (values["gpu0.firmware"], values["gpu0.firmware_units"]) == ("113-M3000100-102", {"smc": "0x00557300"})
    assert (values["gpu0.power_limit_w.1"], values["gpu0.power_limit_default_w.1"]) == (750.0, 750.0)
    assert "abcdef0123456789" not in str(values)
    assert device.memory() == (296747008, 206141652992)
    assert device.sample() == {
        "gpu0.power_w": 140.0, "gpu0.temperature_edge_c": 41.0, "gpu0.clock_mhz": 2100.0, "gpu0.busy_percent": 7.0, "gpu0.memory_used_bytes": 296747008.0,
    }  # fmt: skip


@pytest.mark.parametrize("files", [XE_CARD, I915_CARD, AMD_CARD], ids=["xe", "i915", "amdgpu"])
@pytest.mark.parametrize("text", ["", "N/A\n", "-\n", "\0\0"], ids=["empty", "not available", "a dash", "binary"])
def test_a_card_that_shows_nonsense_gives_no_figures(tmp_path: Path, files: dict[str, str], text: str) -> None:
    """A driver that refuses or garbles every value leaves facts unknown and samples empty: never a zero."""
    driver = "xe" if files is XE_CARD else "i915" if files is I915_CARD else "amdgpu"
    card(tmp_path, "card0", driver, "0000:03:00.0", dict.fromkeys(files, text))
    (device,) = devices(tmp_path)
    assert device.sample() == {}
    assert device.memory() is None
    assert not [key for key, value in found(tmp_path).items() if isinstance(value, (int, float))]


def test_cards_are_numbered_by_address_and_others_left_out(tmp_path: Path) -> None:
    """gpu0 is the card with the lowest address, whoever made it; connectors and cards of other drivers are no accelerators."""
    card(tmp_path, "card0", "amdgpu", "0000:05:00.0", AMD_CARD)
    card(tmp_path, "card1", "xe", "0000:03:00.0", XE_CARD)
    card(tmp_path, "card2", "ast", "0000:01:00.0", {"device/vendor": "0x1a03\n"})
    made(tmp_path, {"sys/class/drm/card0-DP-1/status": "connected\n"})
    assert [(device.key, device.pci) for device in devices(tmp_path, Nvml())] == [
        ("gpu0", "0000:03:00.0"), ("gpu1", "0000:04:00.0"), ("gpu2", "0000:05:00.0"),
    ]  # fmt: skip


def test_who_holds_a_card_is_seen_by_its_open_files(tmp_path: Path) -> None:
    """A process that has the card's device file open holds it; other files do not count."""
    card(tmp_path, "card1", "xe", "0000:03:00.0", XE_CARD)
    for pid, target in (("7", "/dev/dri/renderD129"), ("8", "/dev/dri/renderD128"), ("9", "/dev/null")):
        (tmp_path / "proc" / pid / "fd").mkdir(parents=True)
        (tmp_path / "proc" / pid / "fd/3").symlink_to(target)
    (device,) = devices(tmp_path)
    assert device.holders() == [7]
    assert holding(Tree(tmp_path), frozenset()) == []


class Missing(Exception):
    """What NVML raises for a call that the card does not support."""


class Nvml:
    """NVML with one card. `lacks`: calls that it refuses."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, *lacks: str) -> None:
        self.lacks = lacks
        self.answers: dict[str, Any] = {
            "GetCount": 1, "GetHandleByIndex": "handle", "GetName": b"Some Card", "GetPciInfo": SimpleNamespace(busId=b"00000000:04:00.0"),
            "GetMemoryInfo": SimpleNamespace(used=1 << 20, total=1 << 30), "GetPowerManagementLimit": 700_000, "GetEnforcedPowerLimit": 650_000,
            "GetPowerUsage": 120_500, "GetTotalEnergyConsumption": 9_000, "GetClockInfo": 1500, "GetMigMode": [0, 1], "GetUUID": "GPU-1234",
            "GetCurrentClocksThrottleReasons": 4, "GetTemperature": 30, "GetUtilizationRates": SimpleNamespace(gpu=3, memory=1),
            "GetComputeRunningProcesses": [SimpleNamespace(pid=9), SimpleNamespace(pid=8)], "GetGraphicsRunningProcesses": [SimpleNamespace(pid=9)],
        }  # fmt: skip

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.1"

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return 13000

    def __getattr__(self, name: str) -> Any:
        call = name.removeprefix("nvmlDevice")
        if not name.startswith("nvmlDevice"):
            raise AttributeError(name)

        def answer(*_: Any) -> Any:
            if call in self.lacks or call not in self.answers:
                raise Missing(call)
            return self.answers[call]

        return answer


def test_an_nvidia_card_is_read_through_nvml(tmp_path: Path) -> None:
    """Limits asked and enforced are both kept; the card's unique number as a digest alone."""
    values = found(tmp_path, Nvml())
    assert {key: values[f"gpu0.{key}"] for key in ("name", "power_limit_w", "power_limit_enforced_w", "driver", "cuda_driver", "mig", "pci")} == {
        "name": "Some Card", "power_limit_w": 700.0, "power_limit_enforced_w": 650.0, "driver": "580.1", "cuda_driver": "13.0", "mig": 0, "pci": "0000:04:00.0",
    }  # fmt: skip
    assert values["gpu0.ecc"] is None
    assert "GPU-1234" not in str(values)
    (device,) = devices(tmp_path, Nvml())
    assert device.holders() == [8, 9]
    assert device.sample() == {
        "gpu0.clock_mhz": 1500.0, "gpu0.memory_clock_mhz": 1500.0, "gpu0.throttle_bits": 4.0, "gpu0.power_w": 120.5, "gpu0.energy_mj": 9000.0,
        "gpu0.memory_used_bytes": float(1 << 20), "gpu0.temperature_c": 30.0, "gpu0.busy_percent": 3.0,
    }  # fmt: skip


def test_what_a_card_refuses_is_unknown(tmp_path: Path) -> None:
    """A call that is not supported gives no figure; a driver that is lost gives no card, and never an error."""
    lacking = Nvml("GetTotalEnergyConsumption", "GetMemoryInfo", "GetPowerManagementLimit", "GetClockInfo")
    (device,) = devices(tmp_path, lacking)
    assert set(device.sample()) == {"gpu0.throttle_bits", "gpu0.power_w", "gpu0.temperature_c", "gpu0.busy_percent"}
    assert device.memory() is None
    assert found(tmp_path, lacking)["gpu0.power_limit_w"] is None
    assert devices(tmp_path, Nvml("GetCount")) == []
    assert devices(tmp_path, SimpleNamespace()) == []
    assert nvidia.cards(Nvml("GetHandleByIndex")) == []


def test_throttling_is_told_by_its_reasons(tmp_path: Path) -> None:
    """Each reason that the driver names, and not its summary twice."""
    card(tmp_path, "card1", "xe", "0000:03:00.0", XE_CARD)
    tree = Tree(tmp_path)
    assert drm.throttled(tree, drm.cards(tree)[0]) == {"pl1": 1, "thermal": 0}


def test_the_answers_of_a_real_card_are_understood(tmp_path: Path) -> None:
    """What NVML 13.610 answered on an NVIDIA H200, recorded: every fact and figure is there, in its unit."""
    recorded = Nvml()
    recorded.answers = {
        "GetCount": 1, "GetHandleByIndex": "handle", "GetName": "NVIDIA H200", "GetVbiosVersion": "96.00.A5.00.1A",
        "GetMemoryInfo": SimpleNamespace(total=150754820096, free=150109880320, used=644939776), "GetPowerManagementLimit": 700000,
        "GetEnforcedPowerLimit": 700000, "GetPowerManagementDefaultLimit": 700000, "GetPersistenceMode": 1, "GetComputeMode": 0, "GetMigMode": [0, 0],
        "GetEccMode": [1, 1], "GetMaxPcieLinkGeneration": 5, "GetMaxPcieLinkWidth": 16, "GetCurrPcieLinkWidth": 16, "GetCurrPcieLinkGeneration": 5,
        "GetPciInfo": SimpleNamespace(busId="00000000:00:06.0"), "GetCurrentClocksEventReasons": 1, "GetCurrentClocksThrottleReasons": 1,
        "GetPowerUsage": 114226, "GetTotalEnergyConsumption": 2195326, "GetUtilizationRates": SimpleNamespace(gpu=0, memory=0),
        "GetComputeRunningProcesses": [], "GetGraphicsRunningProcesses": [], "GetMaxClockInfo": 1980, "GetClockInfo": 375, "GetApplicationsClock": 1980,
        "GetTemperature": 32, "GetUUID": "GPU-0",
    }  # fmt: skip
    (device,) = devices(tmp_path, recorded)
    assert None not in found(tmp_path, recorded).values()
    assert device.sample() == {
        "gpu0.clock_mhz": 375.0, "gpu0.memory_clock_mhz": 375.0, "gpu0.throttle_bits": 1.0, "gpu0.power_w": 114.226, "gpu0.energy_mj": 2195326.0,
        "gpu0.memory_used_bytes": 644939776.0, "gpu0.temperature_c": 32.0, "gpu0.busy_percent": 0.0,
    }  # fmt: skip
    assert (device.memory(), device.holders(), device.pci) == ((644939776, 150754820096), [], "0000:00:06.0")
    assert found(tmp_path, recorded)["gpu0.cuda_driver"] == "13.0"
