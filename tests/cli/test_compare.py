"""`rungproof compare`: in the terminal, as JSON, and as a page with its twins; from packs and results folders."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cli.kit import HOSTILE
from judge.test_comparing import campaign, other_cap
from publish.parsed import Page
from rungproof.cli import main
from rungproof.records.codec import canonical, plain, sha256
from rungproof.records.summary import Summary


def folder(at: Path, made: Summary, pack: bool = False) -> str:
    """A results folder, or a pack with its manifest, that holds this summary."""
    at.mkdir(parents=True)
    data = canonical(plain(made))
    (at / "summary.json").write_bytes(data)
    (at / "page").mkdir()
    (at / "page/index.html").write_text("<p>page</p>")
    if pack:
        (at / "MANIFEST.sha256").write_text(f"{sha256(data)}  summary.json\n")
    return str(at)


def test_the_terminal_tells_what_differs_and_then_the_ratios(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Conditions stand before the rows; withheld values in brackets, with the reason and no ratio."""
    a = folder(tmp_path / "one", campaign([100.0, 101.0]))
    b = folder(
        tmp_path / "two", replace(other_cap(campaign([110.0, 112.0], rung=220.0)), host="Another name"), pack=True
    )
    c = folder(tmp_path / "three", campaign([90.0, 91.0], off="s1"))
    assert main(["compare", a, b, c]) == 0
    out = capsys.readouterr().out
    assert (
        out.index("differs: host: host: A host | Another name")
        < out.index("differs: rule: strict.cap: 128 | 512")
        < out.index("base/ladder/c2")
    )
    assert "other rules: cap" in out and "1.100" in out and "nothing is claimed (one server a side)" in out
    assert "(90.50)" in out and "withheld in the second" in out
    assert out.count("1 of 2 points compared") == 2


def test_nothing_compared_is_no_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Simulated against measured: refused, and exit code 1."""
    a = folder(tmp_path / "one", campaign([100.0, 101.0]))
    b = folder(tmp_path / "two", replace(campaign([100.0, 101.0]), simulated=True))
    assert main(["compare", a, b]) == 1
    out = capsys.readouterr().out
    assert "not compared: one of them was simulated" in out and "0 of 2 points compared" in out


def test_page_and_twins_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each row of the page is a row of CSV and JSON; every number carries pack and claim; conditions come before rates; twice the same bytes."""
    a = folder(tmp_path / "s/one", campaign([100.0, 101.0]), pack=True)
    b = folder(tmp_path / "s/two", campaign([110.0, 112.0]), pack=True)
    out = tmp_path / "compared"
    assert main(["compare", a, b, "--out", str(out)]) == 0
    first = {p.name: p.read_bytes() for p in out.iterdir()}
    assert main(["compare", a, b, "--out", str(out), "--json"]) == 0
    assert {p.name: p.read_bytes() for p in out.iterdir()} == first
    made = Page(first["index.html"].decode())
    assert not made.faults and [e.text for e in made.all("h3")] == ["Conditions that differ", "Rates"]
    twin = json.loads(first["compare.json"])["pairs"][0]["rows"]
    rows = list(csv.DictReader(first["compare.csv"].decode().splitlines()))
    assert [float(r["ratio"]) for r in rows] == [r["ratio"] for r in twin] and len(rows) == 2
    table = pq.read_table(out / "compare.parquet")
    assert table.to_pylist() == twin and table.schema.metadata[b"column.ratio"].startswith(b"rate of other")
    values = {
        (e.attributes.get("data-pack"), e.attributes["data-claim"]): float(e.attributes["value"])
        for e in made.all("data")
    }
    assert values[(None, "compare.json#/pairs/0/rows/0/ratio")] == twin[0]["ratio"]
    held = {p.id: p.value for p in campaign([110.0, 112.0]).points}
    assert values[("s/two", "base/strict/suite/decode_rate")] == held["base/strict/suite/decode_rate"]
    for element in made.all("a"):
        href = element.attributes["href"]
        assert href.startswith("#") or (out / href).resolve().exists()


def test_an_arm_is_named_on_either_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--pair takes an arm of each; one that is not there is told with those there are; a word without = is refused."""
    a, b = (folder(tmp_path / name, campaign([100.0, 101.0])) for name in ("one", "two"))
    assert main(["compare", a, b, "--pair", "base=base"]) == 0
    assert main(["compare", a, b, "--pair", "base=draft"]) == 2
    assert "has no arm draft; it has base" in capsys.readouterr().err
    assert main(["compare", a, b, "--pair", "base"]) == 2
    assert main(["compare", a]) == 2


def test_a_changed_pack_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A summary that is not the one of the manifest: damaged evidence, 4; a folder that is none, 4."""
    a = folder(tmp_path / "one", campaign([100.0, 101.0]))
    b = folder(tmp_path / "two", campaign([100.0, 101.0]), pack=True)
    path = Path(b) / "summary.json"
    path.write_bytes(path.read_bytes().replace(b"101.0", b"909.0"))
    assert main(["compare", a, b]) == 4
    assert "MANIFEST.sha256" in capsys.readouterr().err
    assert main(["compare", a, str(tmp_path)]) == 4


def test_hostile_names_are_shown_and_not_obeyed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Titles, hosts and launches of strangers reach neither the terminal nor the page as codes."""
    evil = f'"><script>alert(1)</script>{HOSTILE}=1+1'
    one = campaign([100.0, 101.0])
    bad = replace(one, title=evil, host=evil, arms=tuple(replace(x, title=evil, launch={evil: evil}) for x in one.arms))
    a, b = folder(tmp_path / "one", one), folder(tmp_path / "two", bad)
    assert main(["compare", a, b, "--out", str(tmp_path / "out")]) == 0
    assert not set("\x1b\x07\x9b\u202e") & set(capsys.readouterr().out)
    made = Page((tmp_path / "out/index.html").read_text())
    assert not made.faults and not made.all("script") and not set("\x1b\x07\u202e") & set(made.html)
