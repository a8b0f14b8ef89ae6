"""What a page tells of the machines behind its numbers: environment with kinds and sources, samples, energy, regimes."""

from dataclasses import replace

from publish.parsed import Page
from publish.sample import HOSTILE, filled, sample
from rungproof.judge import host_facts
from rungproof.publish.pages import hosts, regimes
from rungproof.publish.pages.claimed import Claims
from rungproof.publish.pages.render import html, pages
from rungproof.publish.pages.text import visible
from rungproof.records.environment import Energy, Environment, Fact, Sampled
from rungproof.records.standing import Standing
from rungproof.records.summary import SessionInfo, Summary


def env(session: SessionInfo, governor: str) -> Environment:
    before = {
        "governors": Fact(governor, "equal", "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor", "proc"),
        "gpu0.name": Fact(HOSTILE, "equal", HOSTILE, "nvml"),
        "boot_id": Fact(session.session, "informative", "/proc/x", "proc"),
        "python_packages": Fact(
            {f"p{n}": "1 sha256:ab" for n in range(150)}, "equal", "*.dist-info/RECORD", "software"
        ),
    }
    samples = {"gpu0.power_w": Sampled(60, 100.0, 150.0, 200.0, "W")}
    energy = {
        "gpu0": Energy(9000.0, 60.0, 9100.0, "x", ""),
        "gpu1": Energy(None, 60.0, None, "x", f"the counter went back {HOSTILE}"),
    }
    return Environment(
        session.session, session.arm, session.boot, "2026-01-01T00:00:00Z", before, None, None, samples, energy
    )


def with_env() -> Summary:
    """The sample campaign whose servers have an env.json; one of them has another governor."""
    made = []
    for number, session in enumerate(sample().sessions):
        found = env(session, "powersave" if number == 1 else "performance")
        values = {key: fact.value for key, fact in found.before.items() if key != "python_packages"}
        identity = {**session.identity, "max_captured": "16" if session.arm != "bf16" else "0"}
        made.append(replace(session, env=found, environment=values, identity=identity))
    return filled(replace(sample(), sessions=tuple(made)))


def test_each_fact_says_how_it_may_differ_and_where_it_comes_from() -> None:
    """Key, value, kind and source stand in the environment section; what differs between servers names them."""
    summary = with_env()
    page = Page(pages(summary, Standing())["environment"])
    section = page.section("facts")
    assert not page.faults
    for words in ("must be equal", "told only", "scaling_governor", visible(HOSTILE)[:20], "150 entries, sha256 "):
        assert words in section.text
    same, differ, more = host_facts.environment(summary.sessions)
    assert more == 0
    assert [row.key for row in same if row.key.startswith("gpu0")] == ["gpu0.name"]
    odd = [row for row in differ if row.key == "governors" and row.value == "powersave"]
    assert [row.sessions for row in odd] == [(summary.sessions[1].session,)]
    assert odd[0].kind == "must be equal"


def test_only_what_differs_within_an_arm_is_told_as_unequal() -> None:
    """A governor that differs between two servers of one arm stands on the campaign's page; what differs between arms, or may differ, does not."""
    summary = with_env()
    _, differ, _ = host_facts.environment(summary.sessions)
    assert {row.key for row in hosts.unequal(summary.sessions, differ)} == {"governors"}
    assert "differs between servers of one arm" in Page(html(summary)).section("environment").text
    alike = tuple(s for i, s in enumerate(summary.sessions) if i != 1)
    same = html(replace(summary, sessions=alike))
    assert "What must be equal is equal on all servers of each arm." in same


def test_samples_and_energy_claim_no_more_than_they_are() -> None:
    """A range with its number of samples; energy only where the counter was sound, and called the device's own."""
    section = Page(pages(with_env(), Standing())["environment"]).section("samples")
    assert "150.0 (100.0 to 200.0; 60)" in section.text
    assert "this is not the power of the system" in section.text
    rows = hosts.energies(with_env().sessions, Claims(with_env()))
    assert [one.striptags() for one in (rows[0].joules, rows[0].watts)] == ["9000.0", "150.0"]
    assert [one.striptags() for one in (rows[1].joules, rows[1].watts)] == ["none", "none"]


def test_the_regime_of_each_rung_is_shown() -> None:
    """Rungs are captured where users times (1 + draft depth) fit in the largest captured batch; not stated is not known."""
    summary = with_env()
    rows = {row.arm: row for row in regimes.regimes(summary)}
    assert (rows["base"].largest_rung, rows["base"].captured, rows["base"].not_captured) == (
        "c16",
        "c1, c2, c4, c8, c16",
        "none",
    )
    assert (rows["draft3"].largest_rung, rows["draft3"].captured, rows["draft3"].not_captured) == (
        "c4",
        "c1, c2, c4",
        "c8, c16",
    )
    assert (rows["bf16"].largest_rung, rows["bf16"].captured) == ("none", "none")
    assert "Largest captured rung" in Page(html(summary)).section("configuration").text
    unknown = regimes.regimes(sample())
    assert {(row.max_captured, row.captured, row.not_captured) for row in unknown} == {("not stated", "none", "none")}
