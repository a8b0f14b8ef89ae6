"""Intel's tool as a second reader: answers in the form of its guide and its source, and broken ones."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from measure.host_trees import AMD_CARD, XE_CARD, card
from rungproof.measure.hosts import xpu_smi
from rungproof.measure.hosts.devices import devices

PCI = "0000:03:00.0"
# `xpu-smi discovery -d 0000:03:00.0 -j`, its fields shortened to those of use; the tool writes numbers as text.
DISCOVERY: dict[str, Any] = {
    "core_clock_rate_mhz": "2800", "device_id": 0, "device_name": "Intel(R) Graphics [0xe211]", "device_stepping": "B0", "device_type": "GPU",
    "driver_version": "unknown", "gfx_data_firmware_version": "0x102", "gfx_firmware_name": "GFX", "gfx_firmware_version": "BMG__21.1144",
    "memory_ecc_state": "", "memory_physical_size_byte": "25669140480", "number_of_eus": "160", "number_of_tiles": "1",
    "pci_bdf_address": "0000:03:00.0", "pci_device_id": "0xe211", "serial_number": "unknown",
    "uuid": "00000000-0000-0003-0000-0000e2118086", "vendor_name": "Intel(R) Corporation",
}  # fmt: skip
# `xpu-smi stats -d 0000:03:00.0 -j`: of the whole card and of its tiles.
STATS: dict[str, Any] = {
    "begin": "2026-01-01T00:00:00.000Z", "device_id": 0,
    "device_level": [
        {"metrics_type": "XPUM_STATS_POWER", "value": 41.25},
        {"metrics_type": "XPUM_STATS_GPU_FREQUENCY", "value": 400},
        {"metrics_type": "XPUM_STATS_MEMORY_USED", "value": 28.5},
    ],
    "tile_level": [{"tile_id": 0, "data_list": [{"metrics_type": "XPUM_STATS_GPU_CORE_TEMPERATURE", "value": 46.0}]}],
}  # fmt: skip


def tool(discovery: Any = DISCOVERY, stats: Any = STATS) -> tuple[xpu_smi.Ask, list[Sequence[str]]]:
    """A tool that answers so (text as it is, None: it fails), and what it was asked."""
    asked: list[Sequence[str]] = []

    def ask(words: Sequence[str]) -> str | None:
        asked.append(words)
        found = {"discovery": discovery, "stats": stats}[words[0]]
        return found if found is None or isinstance(found, str) else json.dumps(found)

    return ask, asked


def values(root: Path, ask: xpu_smi.Ask) -> dict[str, Any]:
    """What is read of the one card, as far as it is the tool's."""
    (device,) = devices(root, None, ask)
    return {key: fact.value for key, fact in device.facts().items() if ".xpu_smi." in key}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with one xe card."""
    card(tmp_path, "card1", "xe", PCI, XE_CARD)
    return tmp_path


def test_what_the_kernel_does_not_show_is_asked_of_the_tool(root: Path) -> None:
    """Names, firmware and live figures in our units; what the tool calls unknown is None; the card is asked for by its address."""
    ask, asked = tool()
    found = values(root, ask)
    assert {key.removeprefix("gpu0.xpu_smi."): value for key, value in found.items() if not key.endswith("uuid_sha256")} == {
        "name": "Intel(R) Graphics [0xe211]", "stepping": "B0", "driver": None, "firmware": "BMG__21.1144", "firmware_data": "0x102", "ecc": None,
        "memory_total_bytes": 25669140480, "execution_units": 160, "temperature_c": 46.0, "power_w": 41.25, "clock_mhz": 400.0,
        "memory_used_bytes": 28.5 * 1024 * 1024, "disagrees": {},
    }  # fmt: skip
    assert set(asked) == {("discovery", "-d", PCI, "-j"), ("stats", "-d", PCI, "-j")}
    (device,) = devices(root, None, ask)
    assert device.memory() == (29884416, 25669140480)
    kinds = {key: fact.kind for key, fact in device.facts().items()}
    assert (kinds["gpu0.xpu_smi.firmware"], kinds["gpu0.xpu_smi.power_w"]) == ("equal", "informative")
    assert "00000000-0000-0003" not in str(found), "a card's own number is kept as a digest"


def test_where_kernel_and_tool_differ_both_are_told(root: Path) -> None:
    """Another card behind the address, or another size: neither reader is believed alone."""
    ask, _ = tool({**DISCOVERY, "pci_device_id": "0x56a0", "memory_physical_size_byte": "17179869184"})
    assert values(root, ask)["gpu0.xpu_smi.disagrees"] == {
        "device": [0xE211, 0x56A0],
        "memory_total_bytes": [25669140480, 17179869184],
    }


def test_tiles_are_put_together(root: Path) -> None:
    """Power and memory are summed, a temperature is that of the hottest; a tile that does not say leaves the whole unknown."""
    tiles = [
        {"tile_id": n, "data_list": [{"metrics_type": "XPUM_STATS_POWER", "value": power}, {"metrics_type": "XPUM_STATS_GPU_CORE_TEMPERATURE", "value": 40 + n}]}
        for n, power in enumerate((20.0, 22.0))
    ]  # fmt: skip
    ask, _ = tool(stats={"tile_level": tiles})
    assert xpu_smi.stats(ask, PCI) == {"XPUM_STATS_POWER": 42.0, "XPUM_STATS_GPU_CORE_TEMPERATURE": 41.0}
    del tiles[1]["data_list"][0]
    assert xpu_smi.stats(ask, PCI) == {"XPUM_STATS_GPU_CORE_TEMPERATURE": 41.0}


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "",
        "Error: Failed to initialize",
        '{"error": "Level Zero Initialization Error", "errno": 1}',
        "[]",
        "{" * 9000,
        {"device_level": 5, "tile_level": [5, {"data_list": {}}], "memory_physical_size_byte": [1], "uuid": {"a": 1}},
        {
            "device_level": [
                {"metrics_type": "XPUM_STATS_POWER", "value": value} for value in ("41", None, True, -1, {})
            ]
        },
        '{"device_level": [{"metrics_type": "XPUM_STATS_POWER", "value": NaN}]}',
    ],
)
def test_a_tool_that_fails_or_writes_nonsense_gives_no_figures(root: Path, answer: Any) -> None:
    """Every fact is there and None; nothing is 0, and the card's memory is not known."""
    ask, _ = tool(answer, answer)
    found = values(root, ask)
    assert len(found) == 14
    assert set(found.values()) == {None}
    (device,) = devices(root, None, ask)
    assert device.memory() is None


def test_a_tool_that_fails_once_is_asked_again(root: Path) -> None:
    """A fact that is missing once would make a whole session unsound."""
    ask, asked = tool()

    def moody(words: Sequence[str]) -> str | None:
        found = ask(words)
        return None if len(asked) % 2 else found

    assert values(root, moody)["gpu0.xpu_smi.name"] == "Intel(R) Graphics [0xe211]"


def test_the_tool_is_for_intel_cards_alone(tmp_path: Path) -> None:
    """It is not asked about others, and without it nothing is missing."""
    card(tmp_path, "card0", "amdgpu", "0000:05:00.0", AMD_CARD)
    ask, asked = tool()
    assert values(tmp_path, ask) == {}
    assert asked == []


def test_the_program_is_run_bounded_and_its_failure_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real process: its words, its exit code, its silence."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert xpu_smi.asker() is None
    program = tmp_path / "xpu-smi"
    program.write_text(
        '#!/bin/sh\n[ "$1" = fail ] && exit 1\n[ "$1" = hang ] && exec /bin/sleep 60\necho "{\\"words\\": \\"$*\\"}"\n'
    )
    program.chmod(0o755)
    ask = xpu_smi.asker()
    assert ask is not None
    assert json.loads(ask(("stats", "-d", PCI, "-j")) or "") == {"words": f"stats -d {PCI} -j"}
    assert ask(("fail",)) is None
    monkeypatch.setattr(xpu_smi, "TIMEOUT_S", 0.2)
    assert ask(("hang",)) is None
