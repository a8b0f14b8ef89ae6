"""Which servers a call needs for the files it asks for."""

from pathlib import Path

import pytest

from rungproof.config.load import load
from rungproof.plan.missing import plan_run
from rungproof.plan.resolve import resolve
from rungproof.plan.targets import sessions_needed

ROOT = Path(__file__).resolve().parents[2]
PLAN = resolve(load(ROOT, "campaign_v2", "simulated"), frozenset())
ALL = tuple(f"r001.{seat}" for seat in PLAN.seats)
NEEDED = {
    "an item of a base arm: its server alone": (["accepted/tiny-32k.b/grid/2048.json"], ("r001.tiny-32k.b",)),
    "two items of one server": (
        ["accepted/bf16.a/ladder/c2.json", "accepted/bf16.a/ladder/c4.json"],
        ("r001.bf16.a",),
    ),
    "an item of an arm with an oracle: the base repeat comes before it": (
        ["accepted/w4a16-draft3.b/strict/suite.json"],
        ("r001.w4a16.a", "r001.w4a16.b", "r001.w4a16-draft3.b"),
    ),
    "a page: all of them": (["accepted/bf16.a/ladder/c2.json", "page/index.html"], ALL),
    "nothing named": ([], ()),
}


@pytest.mark.parametrize(("files", "sessions"), NEEDED.values(), ids=NEEDED)
def test_only_the_servers_of_what_is_asked_for(tmp_path: Path, files: list[str], sessions: tuple[str, ...]) -> None:
    """A file asked for starts the servers it needs and no others, in the order of the campaign."""
    assert sessions_needed(PLAN, plan_run(PLAN, tmp_path, "r001", (), "judge"), files) == sessions
