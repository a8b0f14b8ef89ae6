"""Samples while a server runs: written line by line, read without trust, and made into figures that claim no more than they show."""

import time
from pathlib import Path

import pytest

from measure.host_trees import MACHINE, made
from rungproof.judge.environment import energy, sampled
from rungproof.measure.hosts.sampling import Processor, Sampler, read_samples
from rungproof.measure.hosts.tree import Tree
from rungproof.records.codec import canonical
from rungproof.records.environment import Sample


def test_the_machine_s_own_figures(tmp_path: Path) -> None:
    """Clocks, load, memory and pressure in the units of their names; what is not there is left out."""
    assert Processor(Tree(made(tmp_path / "a", MACHINE))).sample() == {
        "cpu.load_processes": 0.5, "memory.available_kb": 9000.0, "cpu.throttle_count": 3.0, "cpu.lowest_mhz": 1200.0, "cpu.highest_mhz": 2400.0,
        "cpu.busy_ticks": 150.0, "cpu.idle_ticks": 850.0, "cpu.stolen_ticks": 0.0, "pressure.cpu_percent": 1.5,
    }  # fmt: skip
    assert Processor(Tree(tmp_path / "b")).sample() == {}


def test_of_many_processors_some_are_asked(tmp_path: Path) -> None:
    """A sample costs no more on a machine with hundreds of processors: sixteen at most are asked for their clock."""
    for number in range(200):
        made(tmp_path, {f"sys/devices/system/cpu/cpu{number}/cpufreq/scaling_cur_freq": f"{1000 + number}000"})
    reader = Processor(Tree(tmp_path))
    assert len(reader._cpus) <= 16
    assert reader.sample()["cpu.lowest_mhz"] == 1000.0
    assert reader.sample()["cpu.highest_mhz"] > 1150.0


def test_an_energy_register_that_runs_over_is_followed(tmp_path: Path) -> None:
    """The processor's register runs over every few minutes at a range that the kernel tells; a jump elsewhere is no overrun."""
    zone = "sys/class/powercap/intel-rapl:0"
    made(tmp_path, {f"{zone}/energy_uj": "900", f"{zone}/max_energy_range_uj": "1000"})
    reader = Processor(Tree(tmp_path))
    seen = [reader.sample()["package0.energy_uj"]]
    for now in ("990", "30", "400", "10"):
        made(tmp_path, {f"{zone}/energy_uj": now})
        seen.append(reader.sample()["package0.energy_uj"])
    assert seen == [900.0, 990.0, 1030.0, 1400.0, 1010.0]


def test_a_sampler_writes_until_it_is_ended(tmp_path: Path) -> None:
    """Each sample is on the disk when the next one is made; a reader that fails loses its own figures alone; the last one is at the end."""

    def broken() -> dict[str, float]:
        raise RuntimeError("the card fell off the bus")

    sampler = Sampler(tmp_path / "s", [broken, lambda: {"x_w": 2.0}], every_s=0.02)
    sampler.begin()
    end = time.monotonic() + 60
    while len(read_samples(tmp_path / "s")) < 3 and time.monotonic() < end:
        time.sleep(0.01)
    sampler.end()
    found = read_samples(tmp_path / "s")
    assert len(found) >= 4
    assert all(sample.values == {"x_w": 2.0} for sample in found)
    assert [s.at_ns for s in found] == sorted(s.at_ns for s in found)
    time.sleep(0.1)
    assert len(read_samples(tmp_path / "s")) == len(found)


def test_a_damaged_line_is_left_out(tmp_path: Path) -> None:
    """A crash in the middle of a line loses that line and no other."""
    good = canonical(Sample(1, {"a_w": 1.0}))
    (tmp_path / "s").write_bytes(good + b'{"at_ns":2}\n' + b"\xff\n" + good + good[:9])
    assert len(read_samples(tmp_path / "s")) == 2
    assert read_samples(tmp_path / "none") == ()


def at(second: float, **values: float) -> Sample:
    return Sample(int(second * 1e9), {key.replace("__", "."): value for key, value in values.items()})


def test_figures_have_range_and_number(tmp_path: Path) -> None:
    """Least, middle and greatest value with the number of samples that had it; counters by what they grew."""
    found = sampled(
        [
            at(0, cpu__lowest_mhz=1, cpu__throttle_count=3),
            at(1, cpu__throttle_count=3),
            at(2, cpu__lowest_mhz=5, cpu__throttle_count=9),
        ]
    )
    one = found["cpu.lowest_mhz"]
    assert (one.n, one.low, one.median, one.high, one.unit) == (2, 1, 3, 5, "MHz")
    assert (found["cpu.throttle_events"].n, found["cpu.throttle_events"].high) == (2, 6)
    assert "cpu.throttle_count" not in found
    assert sampled([]) == {}


def test_processor_time_is_told_as_a_share() -> None:
    """Busy and stolen time between two samples, of all there was."""
    ticks = [
        at(0, cpu__busy_ticks=100, cpu__idle_ticks=100, cpu__stolen_ticks=0),
        at(1, cpu__busy_ticks=160, cpu__idle_ticks=130, cpu__stolen_ticks=10),
    ]
    found = sampled(ticks)
    assert (found["cpu.busy_percent"].median, found["cpu.stolen_percent"].median) == (60.0, 10.0)
    assert sampled([ticks[0], ticks[0]]) == {}


ENERGY = {
    "a sound counter": ([at(0, gpu0__energy_uj=1e6), at(2, gpu0__energy_uj=5e6)], 4.0, "no second reader"),
    "thousandths": ([at(0, gpu0__energy_mj=1e3), at(2, gpu0__energy_mj=5e3)], 4.0, "no second reader"),
    "agrees with its power": ([at(0, gpu0__energy_uj=0, gpu0__power_w=2), at(2, gpu0__energy_uj=4e6, gpu0__power_w=2)], 4.0, ""),
    "another than its power": ([at(0, gpu0__energy_uj=0, gpu0__power_w=20), at(2, gpu0__energy_uj=4e6, gpu0__power_w=20)], 4.0, "samples of power give 40.0 J"),
    "jumps back to a small value": ([at(0, gpu0__energy_uj=9e6), at(1, gpu0__energy_uj=1e3), at(2, gpu0__energy_uj=12e6)], None, "went back"),
    "stands still": ([at(0, gpu0__energy_uj=9e6), at(1, gpu0__energy_uj=9e6)], None, "stood still"),
    "is there once": ([at(0, gpu0__energy_uj=9e6), at(1, gpu0__power_w=3)], None, "fewer than two"),
}  # fmt: skip


@pytest.mark.parametrize(("samples", "joules", "doubt"), ENERGY.values(), ids=ENERGY)
def test_energy_is_a_sound_counter_s_or_none(samples: list[Sample], joules: float | None, doubt: str) -> None:
    """A counter that jumps back gives no figure, although its ends would give a plausible one; missing is never 0."""
    (found,) = energy(samples).values()
    assert found.joules == (pytest.approx(joules) if joules is not None else None)
    assert doubt in found.doubt
    assert bool(doubt) == bool(found.doubt)


def test_parts_of_a_device_have_their_own_energy() -> None:
    """A card and its package are two counters and never added up."""
    found = energy(
        [at(0, gpu0__energy_uj=0, gpu0__energy_pkg_uj=0), at(1, gpu0__energy_uj=5e6, gpu0__energy_pkg_uj=3e6)]
    )
    assert {key: one.joules for key, one in found.items()} == {"gpu0": 5.0, "gpu0.pkg": 3.0}
    assert energy([at(0, x_w=1)]) == {}
