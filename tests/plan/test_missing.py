"""What is missing: names of runs, items asked for by name, the estimate."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from rungproof.config.load import load
from rungproof.plan.builds import build_folder, source_digest
from rungproof.plan.estimate import describe, item_seconds
from rungproof.plan.machine import processor_flags
from rungproof.plan.missing import next_run, parse_remeasure, plan_run
from rungproof.plan.resolve import resolve
from rungproof.records.errors import ConfigError
from rungproof.records.plan import Plan, split_session

ROOT = Path(__file__).resolve().parents[2]
PLAN = resolve(load(ROOT, "campaign_v2", "simulated"), frozenset())


def test_run_names_go_on_over_all_campaigns(tmp_path: Path) -> None:
    """The next run is one more than any run or session of any results folder; strange folders do not matter."""
    assert next_run([tmp_path]) == "r001"
    (tmp_path / "a/runs/r007").mkdir(parents=True)
    (tmp_path / "b/sessions/r011.base.a").mkdir(parents=True)
    (tmp_path / "b/sessions/lost+found").mkdir(parents=True)
    assert next_run(tmp_path.iterdir()) == "r012"


def test_an_empty_folder_needs_everything_in_planned_order(tmp_path: Path) -> None:
    """Every seat gets one new session, in the order of the campaign, with its items in order."""
    todo = plan_run(PLAN, tmp_path, "r001", (), "judge")
    assert [name for name, _ in todo.new] == [f"r001.{seat}" for seat in PLAN.seats]
    assert [i.id for _, items in todo.new for i in items] == [i.id for i in PLAN.items]
    assert all(a.new and not a.left_out for a in todo.assignments)


def test_remeasure_names_one_item_or_all_servers_of_it() -> None:
    """ARM/WORKLOAD/ITEM means every server that measures it, ARM.REPLICATE/... one of them; anything else is refused with an example."""
    assert parse_remeasure("w4a16/depth/512", PLAN) == ("w4a16.a/depth/512", "w4a16.b/depth/512")
    assert parse_remeasure("w4a16.b/depth/512, bf16/ladder/c4", PLAN) == ("w4a16.b/depth/512", "bf16.a/ladder/c4")
    assert parse_remeasure("", PLAN) == ()
    with pytest.raises(ConfigError, match="for example"):
        parse_remeasure("w4a16/ladder/c3", PLAN)


def test_session_names_are_read_strictly() -> None:
    """A name that is not ours is an error, not a guess."""
    assert split_session("r001.w4a16-draft3.b") == ("r001", "w4a16-draft3", "b")
    for wrong in ("r1.base.a", "r001.base", "r001.base.ab", "../r001.base.a", ""):
        with pytest.raises(ValueError, match="not a session"):
            split_session(wrong)


def test_the_estimate_names_servers_and_time(tmp_path: Path) -> None:
    """The lines a call prints first name every server, say that nothing is measured on the simulated one, and give minutes."""
    loaded = load(ROOT, "campaign_v2", "simulated")
    text = describe(PLAN, plan_run(PLAN, tmp_path, "r001", (), "j"), loaded.host.costs, frozenset(), tmp_path)
    assert all(f"r001.{seat}" in text for seat in PLAN.seats)
    assert "nothing is measured" in text
    assert "min in all" in text
    rungs = [i for i in PLAN.items if i.workload == "ladder"]
    assert item_seconds(rungs[4], loaded.host.costs) > item_seconds(rungs[0], loaded.host.costs) > 0


def test_processor_flags_come_from_the_first_processor(tmp_path: Path) -> None:
    """x86 and Arm spellings are read; no file gives no flags."""
    assert processor_flags(tmp_path) == frozenset()
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(
        "processor\t: 0\nflags\t\t: fpu avx2\n\nprocessor\t: 1\nflags\t\t: fpu avx512f\n"
    )
    assert processor_flags(tmp_path) == {"fpu", "avx2"}


def test_digests_follow_the_files(tmp_path: Path) -> None:
    """A room's digest changes with any of its files, and folders carry twelve digits of theirs."""
    (tmp_path / "room").mkdir()
    (tmp_path / "room/a.py").write_text("1")
    first = source_digest(tmp_path / "room")
    (tmp_path / "room/a.py").write_text("2")
    second = source_digest(tmp_path / "room")
    assert second != first
    (tmp_path / "room/page.html.j2").write_text("a template makes pages, as code does")
    third = source_digest(tmp_path / "room")
    assert third != second
    (tmp_path / "room/a.pyc").write_text("what Python keeps for itself is no source")
    assert source_digest(tmp_path / "room") == third
    assert build_folder("build", "envs", "x", "abcdef0123456789") == "build/envs/x-abcdef012345"


def test_a_small_lane_is_not_estimated_as_a_large_one(tmp_path: Path) -> None:
    """A lane's relative cost scales the estimate of its items and of no others."""
    loaded = load(ROOT, "campaign_v2")
    plan = resolve(loaded, frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"}))
    dear = replace(plan, arms=tuple(replace(arm, relative_cost=1.0) for arm in plan.arms))
    none = replace(plan, arms=tuple(replace(a, relative_cost=1e-9 if "tiny" in a.name else 1.0) for a in plan.arms))

    def minutes(of: Plan) -> int:
        text = describe(
            of, plan_run(of, tmp_path, "r001", (), "j"), loaded.host.costs, frozenset({"avx512f"}), tmp_path
        )
        return int(re.findall(r"about (\d+) min in all", text)[0])

    assert minutes(none) < minutes(plan) < minutes(dear) / 2
