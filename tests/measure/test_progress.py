"""What a person at the terminal is told of a call: how far it is, and lines that nothing from a server can bend."""

import io
import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from rungproof.config.load import load
from rungproof.measure import progress as progress_room
from rungproof.measure import terminal
from rungproof.measure.jobs import write_lock
from rungproof.measure.progress import PRIOR_S, Progress, progress
from rungproof.measure.serving.ready import PhaseWatch
from rungproof.measure.store import Folder
from rungproof.plan.resolve import resolve

ROOT = Path(__file__).resolve().parents[2]
PLAN = replace(resolve(load(ROOT, "campaign_v2", "simulated"), frozenset()), simulated=False)
NOW = 1_800_000_000.0
FIRST = "r001.w4a16.a"
ITEMS = [i for i in PLAN.items if i.seat == "w4a16.a"][:3]
EXPECTED = {
    FIRST: {"server": 40.0} | {i.id: 20.0 for i in ITEMS},
    "r001.w4a16.b": {"server": 40.0, ITEMS[0].id.replace(".a/", ".b/"): 60.0},
}


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A results folder in which a call has just been planned; the clock stands still."""
    monkeypatch.setattr(progress_room, "time", SimpleNamespace(time=lambda: NOW))
    write_lock(PLAN, EXPECTED, tmp_path / "runs/r001")
    return tmp_path


def begin(study: Path, ago_s: float) -> None:
    order = study / "sessions" / FIRST / "control/order.json"
    order.parent.mkdir(parents=True)
    order.write_text("{}")
    os.utime(order, (NOW - ago_s,) * 2)


def test_time_left_is_the_estimate_where_the_host_is_as_fast_as_its_estimate(study: Path) -> None:
    """Two thirds of the expected time are left when a third of it is done and has taken as long as expected."""
    begin(study, 60.0)
    (study / "sessions" / FIRST / "server.json").write_text("{}")
    Folder(study).attempt(FIRST, ITEMS[0]).parent.mkdir()
    Folder(study).attempt(FIRST, ITEMS[0]).write_text("{}")
    told = progress(study, PLAN, FIRST)
    assert told is not None
    assert (told.done, told.items) == (1, 4)
    assert told.share == pytest.approx(60 / 200)
    assert told.left_s == pytest.approx(140)


def test_a_slow_host_makes_the_rest_longer(study: Path) -> None:
    """What is left grows by how much longer the call has taken than expected, tempered by the host's estimate at the start."""
    begin(study, 600.0)
    (study / "sessions" / FIRST / "server.json").write_text("{}")
    told = progress(study, PLAN, FIRST)
    assert told is not None
    assert told.left_s == pytest.approx(160 * (600 + PRIOR_S) / (40 + PRIOR_S))
    assert str(told).startswith("[0/4, about ")


def test_time_on_the_simulated_server_is_not_told(study: Path) -> None:
    """Nothing is measured there, so no minutes are promised."""
    begin(study, 1.0)
    told = progress(study, replace(PLAN, simulated=True), FIRST)
    assert told is not None
    assert str(told) == "[0/4]"


BROKEN = {
    "no record of the run": lambda study: (study / "runs/r001/run.json").unlink(),
    "a damaged one": lambda study: (study / "runs/r001/run.json").write_text("{"),
    "one of an older version": lambda study: (study / "runs/r001/run.json").write_text('{"sessions":{}}'),
}


@pytest.mark.parametrize("spoil", BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_told_fails_no_job(study: Path, spoil: object) -> None:
    """Progress decorates a line; without its records there is none."""
    assert callable(spoil)
    spoil(study)
    assert progress(study, PLAN, FIRST) is None


def test_phases_of_a_start_are_told_once_and_in_order(tmp_path: Path) -> None:
    """Each phase is told when the log first reaches it; a later phase's line never brings an earlier one back."""
    log = tmp_path / "server.log"
    watch = PhaseWatch(log, (("load", "loading"), ("compil", "compiling"), ("serving", "answering")))
    assert watch.reached() is None
    log.write_text("\x1b[32mstart\x1b[0m\nload weights\nload more")
    assert watch.reached() == "loading"
    with log.open("a") as more:
        more.write(" of it\nserving at port 1\nload again\n")
    assert watch.reached() == "answering"
    assert watch.reached() is None


def test_a_line_reaches_the_display_or_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a display the line is handed to it; without one, or with one that is gone, it is printed; never both, never none."""
    channel = tmp_path / "terminal.jsonl"
    channel.touch()
    monkeypatch.setenv(terminal.CHANNEL, str(channel))
    monkeypatch.setattr("sys.__stderr__", io.StringIO())
    terminal.aloud("first\x1b[2J\nsecond")
    terminal.standing("r001.base.a", "ladder/c4", done=1, rate=12.5)
    records = [json.loads(line) for line in channel.read_text().splitlines()]
    assert records == [
        {"line": "first[2J\nsecond"},
        {"session": "r001.base.a", "step": "ladder/c4", "done": 1, "rate": 12.5},
    ]
    channel.unlink()
    terminal.aloud("third")
    terminal.standing("r001.base.a", "ladder/c8")
    assert not channel.exists()
    assert capsys.readouterr().err.splitlines()[-1] == "third"


def test_progress_is_words() -> None:
    """Done of all, and minutes where they are known."""
    assert str(Progress(3, 12, 0.25, 610.0)) == "[3/12, about 10 min left]"
    assert str(Progress(12, 12, 1.0, 0.0)) == "[12/12]"
