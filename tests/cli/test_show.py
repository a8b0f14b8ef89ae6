"""`rungproof show`: one record with every request, how each stands against its oracle, the gates and the files."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cli.kit import HOSTILE
from judge.plan_kit import arm, ids_of, ladder, plan, record, request, rung_record, session, strict, verdicts_of, wrong
from rungproof.cli import main
from rungproof.records.codec import canonical
from rungproof.records.formats import Judged, Reason

CLASSES = {"s0": "x", "s1": "y"}
ITEMS = [strict("base.a", CLASSES), ladder("base.a", 4), strict("base.b", CLASSES), ladder("base.b", 4)]
PLAN = plan([arm("base")], ITEMS)


def records() -> list[Judged]:
    """A strict suite on two servers, the second of which left the first on one prompt; a rung with one output off; one not measured."""
    first = record(ITEMS[0], [request(f"strict-{k}", k, ids_of(k)) for k in CLASSES])
    outputs = {"s0": ids_of("s0"), "s1": wrong(ids_of("s1"))}
    second = record(ITEMS[2], [request(f"strict-{k}", k, ids) for k, ids in outputs.items()])
    return [first, rung_record(ITEMS[1], [(4, 200.0), (3, 190.0)]), second]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A results folder with a plan, judged records and verdicts, and no summary yet."""
    (tmp_path / "plan.json").write_bytes(canonical(PLAN))
    for j in records():
        keep(tmp_path, j)
    (tmp_path / "verdicts").mkdir()
    sessions = [session(name) for name in ("r001.base.a", "r001.base.b")]
    for verdict in verdicts_of(PLAN, records(), sessions):
        (tmp_path / f"verdicts/{verdict.gate}.json").write_bytes(canonical(verdict))
    return tmp_path


def keep(study: Path, j: Judged) -> None:
    """Write a judged record where it belongs."""
    path = study / f"sessions/{j.session}/judged/{j.workload}.{j.item}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(canonical(j))


def row(out: str, *words: str) -> list[str]:
    """The cells of the only table row that begins with these words."""
    found = [line.split() for line in out.splitlines() if line.split()[: len(words)] == list(words)]
    assert len(found) == 1, (words, found)
    return found[0]


def test_every_request_stands_against_its_oracle(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A rung: its own oracle is named, an output that left it says where, the gate that stops it is told; one server has no record, so 1."""
    assert main(["show", str(study), "base/ladder/c4"]) == 1
    out = capsys.readouterr().out
    assert "is the oracle" in " ".join(row(out, "oracle-00", "p00"))
    assert "identical" in row(out, "pass-1", "p03")
    assert "left it at token 41 of 128" in " ".join(row(out, "pass-2", "p03"))
    assert row(out, "rung.base.a.ladder.c4")[1:6] == ["withheld", "7", "of", "8", "yes"]
    assert "base.b/ladder/c4: no judged record yet" in out
    assert "190.00 tok/s" in out
    assert "ladder.c4.raw.jsonl.gz  IS NOT THERE" in out


def test_one_server_is_asked_for_by_its_seat(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second server's suite is held against the first's; the first has no oracle."""
    assert main(["show", str(study), "base.b/strict/suite"]) == 0
    out = capsys.readouterr().out
    assert "left it at token 41 of 128" in " ".join(row(out, "strict-s1"))
    assert "identical" in row(out, "strict-s0")
    assert "r001.base.a" not in out
    assert main(["show", str(study), "base.a/strict/suite"]) == 0
    assert "no oracle" in " ".join(row(capsys.readouterr().out, "strict-s1"))


def test_an_attempt_that_is_not_in_use_is_shown_on_demand(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A newer attempt that was invalid is not in use; --all shows both, and its reason."""
    why = Reason("cache hit", found="3", expected="0")
    newer = replace(rung_record(ITEMS[1], [(4, 9.0), (4, 9.0)]), session="r002.base.a", state="invalid", reasons=(why,))
    keep(study, newer)
    main(["show", str(study), "base.a/ladder/c4"])
    assert "r002" not in capsys.readouterr().out
    main(["show", str(study), "base.a/ladder/c4", "--all"])
    out = capsys.readouterr().out
    assert "r002.base.a: invalid (not in use)" in out and "why: cache hit (found 3; expected 0)" in out
    main(["show", str(study), "base.a/ladder/c4", "--all", "--json"])
    assert [one["session"] for one in json.loads(capsys.readouterr().out)] == ["r002.base.a", "r001.base.a"]


def test_hostile_text_is_harmless(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Escape codes and marks that turn writing around in answers, keys and reasons never reach the terminal."""
    bad = record(
        ITEMS[0], [replace(request("strict-s0", f"s0{HOSTILE}", ids_of("s0")), text=HOSTILE, finish_reason=HOSTILE)]
    )
    keep(study, replace(bad, reasons=(Reason(HOSTILE, found=HOSTILE),)))
    assert main(["show", str(study), "base.a/strict/suite", "--text"]) == 0
    out = capsys.readouterr().out
    assert "red" in out
    assert not set("\x1b\x07\x9b\u202e") & set(out)


def test_a_name_that_is_no_item_is_told(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 with the items there are; a folder without a plan is damaged evidence, 4."""
    assert main(["show", str(study), "base/ladder/c9"]) == 2
    assert "base/ladder/c4" in capsys.readouterr().err
    (study / "plan.json").unlink()
    assert main(["show", str(study), "base/ladder/c4"]) == 4
