"""`rungproof gates` and `explain`: every gate with its state and figures, and why a point is what it is."""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pytest

from judge.plan_kit import (
    arm,
    ids_of,
    ladder,
    plan,
    record,
    request,
    rung_record,
    session,
    strict,
    summary_of,
    verdicts_of,
)
from rungproof.cli import gates as gate_words
from rungproof.cli.power import describe
from rungproof.config.sections import Costs
from rungproof.publish.explain import explain
from rungproof.records.codec import canonical
from rungproof.records.errors import ConfigError
from rungproof.records.formats import Judged, Reason
from rungproof.records.plan import Plan
from rungproof.records.summary import Summary

CLASSES = {"s0": "x", "s1": "y"}
ITEMS = [strict("base.a", CLASSES), ladder("base.a", 2), ladder("base.a", 4), strict("base.b", CLASSES)]
PLAN: Plan = plan([arm("base")], ITEMS)


def records() -> list[Judged]:
    """A strict suite on two servers, an exact rung of two, and a rung of four with one prompt off in the second pass."""
    made = []
    for number, item in enumerate(ITEMS):
        if item.spec["kind"] == "strict":
            made.append(record(item, [request(f"strict-{k}", k, ids_of(k), 100.0 + number) for k in CLASSES]))
        else:
            c = int(item.spec["concurrency"])
            made.append(rung_record(item, [(c, 200.0), (c if c == 2 else 3, 190.0)]))
    return made


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A results folder with judged records, verdicts and a summary."""
    for j in records():
        path = tmp_path / f"sessions/{j.session}/judged/{j.workload}.{j.item}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(canonical(j))
    sessions = [session(name) for name in ("r001.base.a", "r001.base.b")]
    (tmp_path / "verdicts").mkdir()
    for verdict in verdicts_of(PLAN, records(), sessions):
        (tmp_path / f"verdicts/{verdict.gate}.json").write_bytes(canonical(verdict))
    (tmp_path / "summary.json").write_bytes(canonical(summary()))
    return tmp_path


def summary() -> Summary:
    """The summary of those records."""
    return summary_of(PLAN, records())


def options(**more: object) -> argparse.Namespace:
    """What the command line gives."""
    return argparse.Namespace(**{"bound": 95.0, "json": False, "campaign": "made", **more})


def lines_of(out: str) -> dict[str, str]:
    """Lines of the table by their first word."""
    return {line.split()[0]: line for line in out.splitlines() if line.split()}


def test_every_gate_is_listed_with_state_and_figures(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Passed and not passed gates with sites, bound, outputs, what they stop and why; exit code 1 since one is withheld."""
    assert gate_words.gates(options(), PLAN, study) == 1
    out = capsys.readouterr().out
    rows = lines_of(out)
    assert {gate.id for gate in PLAN.gates} <= set(rows)
    assert "qualified" in rows["base-repeat.base.b.strict"] and "2/2" in rows["base-repeat.base.b.strict"]
    off = rows["rung.base.a.ladder.c4"]
    assert all(text in off for text in ("withheld", "3/4", "7/8", "1/1", "every-pass"))
    assert f"{len(PLAN.gates) - 1} of {len(PLAN.gates)} gates passed" in out
    assert "59 sites would support at least 95.0" in out


def test_a_gate_whose_files_changed_has_not_passed(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A record edited after the verdict makes it outdated; a verdict that is gone is missing; one that is damaged says so. All stop what they guard."""
    path = study / "sessions/r001.base.a/judged/ladder.c2.json"
    path.write_bytes(path.read_bytes() + b" ")
    (study / "verdicts/base-repeat.base.b.strict.json").unlink()
    (study / "verdicts/canaries.json").write_text("{}")
    assert gate_words.gates(options(json=True), PLAN, study) == 1
    states = {row["gate"]: row["state"] for row in json.loads(capsys.readouterr().out)}
    assert (states["rung.base.a.ladder.c2"], states["base-repeat.base.b.strict"], states["canaries"]) == (
        "outdated",
        "missing",
        "damaged",
    )


def test_nothing_passes_over_an_empty_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without any verdict every gate is missing and the exit code is 1."""
    assert gate_words.gates(options(), PLAN, tmp_path) == 1
    assert f"0 of {len(PLAN.gates)} gates passed" in capsys.readouterr().out


@pytest.mark.parametrize("bound", [0.0, 100.0, -3.0])
def test_a_bound_is_a_per_cent(study: Path, bound: float) -> None:
    """A bound that no sample can support is refused."""
    with pytest.raises(ConfigError, match="between 0 and 100"):
        gate_words.gates(options(bound=bound), PLAN, study)


def test_a_withheld_point_is_explained() -> None:
    """Where it broke, with tokens of both sides; how the outputs go on; every pass; what is like it elsewhere; what to try."""
    text = "\n".join(explain(summary(), "base/ladder/c4"))
    for words in (
        "base/ladder/c4 is withheld: 190.0 tok/s, 3 of 4 identical",
        "pass 1: 200.0 tok/s, 4 of 4 identical",
        "pass 2: 190.0 tok/s, 3 of 4 identical (shown)",
        "sites: 3 of 4 supports at least 24.8",
        "a bound of 95.0\u00a0% would take 59 prompts without a failure; of outputs, 15 passes of 4",
        "p03 in pass-2 at token 41 of 128",
        "the outputs go different ways",
        "by prompt: p03 1 times",
        "1 of 4 prompts gave two different outputs: p03",
        "this arm at ladder c2: qualified, 2 of 2 identical",
        "try: ",
    ):
        assert words in text, words


def test_an_invalid_point_is_explained_with_its_remedy() -> None:
    """The reason of the judge and what to do about it; nothing is said of outputs that were not compared."""
    made = records()
    made[1] = replace(made[1], state="invalid", reasons=(Reason("cache hit", "5", "0"),))
    text = "\n".join(explain(summary_of(PLAN, made), "base/ladder/c2"))
    assert "is invalid" in text
    assert "cache hit (found 5; expected 0)" in text
    assert "try: Turn prefix caching off by name" in text
    assert "broke:" not in text


def test_a_qualified_point_needs_no_remedy() -> None:
    """It says that nothing speaks against it, and nothing to try."""
    text = "\n".join(explain(summary(), "base/ladder/c2"))
    assert "nothing speaks against it" in text
    assert "try:" not in text


def test_a_point_that_is_none_names_those_there_are() -> None:
    """A wrong name is told with the right ones."""
    with pytest.raises(ConfigError, match="base/ladder/c4"):
        explain(summary(), "base/ladder/c5")


COSTS = Costs(server_s=30, token_s=0.02, prefill_1k_s=1, setup_s=1, setup_gb=1)


def test_power_tells_servers_and_minutes(study: Path) -> None:
    """By the servers' own spread, called a rough guess, or by a spread that is told; more servers for a smaller half-width."""
    (_, own) = describe(PLAN, study, 2.0, None, COSTS, frozenset())
    assert "as 2 servers did, which is a rough guess" in own
    (_, told) = describe(PLAN, study, 0.5, 1.0, COSTS, frozenset())
    assert "18 fresh servers, about" in told
    assert "as told" in told
    (_, many) = describe(PLAN, study, 0.001, 1.0, COSTS, frozenset())
    assert "more than 10000 servers" in many


def test_power_without_any_spread_is_refused(tmp_path: Path) -> None:
    """Nothing measured and nothing told: no number is made up."""
    with pytest.raises(ConfigError, match="--spread PERCENT"):
        describe(PLAN, tmp_path, 1.0, None, COSTS, frozenset())
    with pytest.raises(ConfigError, match="above 0"):
        describe(PLAN, tmp_path, 0.0, 1.0, COSTS, frozenset())
