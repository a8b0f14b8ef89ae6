"""Every number on every page stands where it can be checked, and is what stands there: the walk that a verifier takes, too."""

import csv
import json
import re
from dataclasses import replace
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from publish.parsed import Element, Page
from publish.sample import calm, large, sample
from publish.test_page_hosts import with_env
from rungproof.publish.pages import render
from rungproof.publish.pages.claimed import Claims, pointer
from rungproof.publish.pages.glossary import TERMS, linked
from rungproof.publish.pages.render import pages
from rungproof.records.codec import canonical, load_json
from rungproof.records.shown import shown
from rungproof.records.standing import Standing
from rungproof.records.summary import Summary

SUMMARIES = {"sample": sample(), "large": large(), "env": with_env()}


def stands_at(summary: Any, points: dict[str, Any], claim: str) -> Any:
    """What a claim points to, by RFC 6901 or by the id of a point, in the bytes of summary.json read back."""
    if not claim.startswith("/"):
        return points[claim]["value"]
    found = summary
    for part in claim[1:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        found = found[int(name)] if isinstance(found, list) else found[name]
    return found


@pytest.mark.parametrize("name", SUMMARIES)
def test_every_number_equals_the_recomputed_one(name: str) -> None:
    """In each page: every claim leads to a number of the summary, the full value is its repr, and the text is its rounding in the form named."""
    summary = load_json(canonical(SUMMARIES[name]), "summary")
    points = {p["id"]: p for p in summary["points"]}
    counted = {}
    for file, text in pages(SUMMARIES[name], Standing()).items():
        claimed = [e for e in Page(text).elements if "data-claim" in e.attributes]
        for e in claimed:
            value = stands_at(summary, points, e.attributes["data-claim"])
            assert isinstance(value, (int, float)) and not isinstance(value, bool), e.attributes
            if e.tag == "data":
                assert e.attributes["value"] == repr(value)
                assert e.text == shown(value, e.attributes.get("data-form", ""))
            else:
                assert e.attributes["data-value"] == repr(value)
        counted[file] = len(claimed)
    assert min(counted.values()) > (0 if name == "env" else -1)
    assert counted["index"] > 200


@pytest.mark.parametrize("name", SUMMARIES)
def test_no_cell_for_numbers_holds_a_digit_without_a_claim(name: str) -> None:
    """What is left of a numeric cell when its claims are taken out has no digit: only words, units, and numbers of passes or servers."""
    cells = 0
    for text in pages(SUMMARIES[name], Standing()).values():
        page = Page(text)
        for cell in (e for e in page.all("td") if e.attributes.get("class", "").split()[:1] == ["n"]):
            rest = unclaimed_text(page, cell)
            assert not re.search(r"\d", re.sub(r"\b\d+: ", "", rest)), rest
            cells += 1
    assert cells > 100


def unclaimed_text(page: Page, cell: Element) -> str:
    """The cell's text without that of its data elements and names."""
    rest = cell.text
    for inner in page.within(cell, "data") + page.within(cell, "bdi"):
        rest = rest.replace(inner.text, "", 1)
    return rest


def test_the_walk_finds_a_number_that_was_changed() -> None:
    """A page in which one digit was changed does not agree with the summary: the walk above would fail on it."""
    text = pages(sample(), Standing())["index"]
    point = next(p for p in sample().points if p.state == "qualified")
    forged = text.replace(f'value="{point.value!r}"', f'value="{(point.value or 0) + 1!r}"')
    assert forged != text
    claims = [e for e in Page(forged).elements if e.attributes.get("data-claim") == point.id and e.tag == "data"]
    assert [e for e in claims if e.attributes["value"] != repr(point.value)]


def test_a_claim_that_leads_nowhere_is_never_written() -> None:
    """Asking for a place that the summary does not have fails while the page is made; a value that is none is the word none."""
    claims = Claims(sample())
    with pytest.raises(KeyError):
        claims.at("points", 0, "detail", "nothing of the kind")
    assert claims.at("headlines", 2, "servers", 1, 1).striptags() == "none"
    assert pointer(("a/b", 1, "c~d")) == "/a~1b/1/c~0d"


def test_every_twin_row_is_what_the_chart_draws(tmp_path: Path) -> None:
    """In all three formats the rows of a chart are the same, and each value is what its claim leads to."""
    summary = load_json(canonical(sample()), "summary")
    points = {p["id"]: p for p in summary["points"]}
    names = sorted({path.stem for path in render(sample(), tmp_path) if path.name.startswith("chart-")})
    assert names == [
        "chart-depth-decode_rate",
        "chart-depth-ttft",
        "chart-ladder-aggregate",
        "chart-ladder-per_user",
        "chart-ladder-ttft",
    ]
    for name in names:
        rows = json.loads((tmp_path / f"{name}.json").read_bytes())["rows"]
        table = pq.read_table(BytesIO((tmp_path / f"{name}.parquet").read_bytes()))
        cells = list(csv.DictReader(StringIO((tmp_path / f"{name}.csv").read_text(encoding="utf-8"))))
        assert len(rows) == table.num_rows == len(cells) > 0
        assert table.column("value_in_unit").to_pylist() == [row["value_in_unit"] for row in rows]
        for row, cell in zip(rows, cells, strict=True):
            assert row["value_in_unit"] == stands_at(summary, points, row["claim"])
            assert cell["value_in_unit"] == ("" if row["value_in_unit"] is None else repr(row["value_in_unit"]))


def test_a_chart_of_an_earlier_plan_does_not_stay(tmp_path: Path) -> None:
    """Making the page again over a folder removes twins of charts that it has no more, and nothing that is not its own."""
    (tmp_path / "chart-gone-ttft.csv").write_text("old")
    (tmp_path / "standing.json").write_text("kept")
    render(sample(), tmp_path)
    assert not (tmp_path / "chart-gone-ttft.csv").exists()
    assert (tmp_path / "standing.json").read_text() == "kept"


def test_twins_name_units_and_keep_missing_apart(tmp_path: Path) -> None:
    """Each column of a Parquet twin has its meaning in the metadata; a rate that is not there is null, never 0."""
    render(sample(), tmp_path)
    table = pq.read_table(tmp_path / "strict.parquet")
    assert table.schema.metadata[b"column.decode_rate_tok_s"].startswith(b"tokens a second")
    lacking = [row for row in table.to_pylist() if row["prompt"] == "doc-1" and row["arm"] == "bf16"]
    assert [row["decode_rate_tok_s"] for row in lacking] == [None, None]
    assert pq.read_table(tmp_path / "points.parquet").num_rows == len(sample().points)


def test_each_term_is_explained_where_it_is_first_used() -> None:
    """A term that running text of the page uses is linked once, at its first use, to the glossary, which holds all terms."""
    text = pages(calm(sample()), Standing())["index"]
    page = Page(text)
    links = [e.attributes["href"] for e in page.all("a", **{"class": "g"})]
    assert len(links) == len(set(links)) > 20
    ids = {e.attributes["id"] for e in page.within(page.section("glossary"), "div")}
    assert ids == {f"g-{term.key}" for term in TERMS}
    assert not [link for link in links if link[1:] not in ids]


def test_only_running_text_is_linked() -> None:
    """A term inside a link, a name, a heading or an attribute stays as it is; the second use is not linked again."""
    made = linked(
        '<p>oracle</p><main><h2>oracle</h2><bdi>oracle</bdi><a href="oracle">an oracle</a><p title="oracle">no oracle, oracle</p></main>'
    )
    assert made == (
        '<p>oracle</p><main><h2>oracle</h2><bdi>oracle</bdi><a href="oracle">an oracle</a>'
        '<p title="oracle">no <a class="g" href="#g-oracle">oracle</a>, oracle</p></main>'
    )


def test_the_standing_is_what_was_passed_in() -> None:
    """The ladder marks the one state that the page has; without one it says that nothing is published; limits and checks follow it."""
    bare = Page(pages(sample(), Standing())["index"])
    assert "not published" in bare.section("standing").text
    assert not [e for e in bare.all("li") if "aria-current" in e.attributes]
    replicated = Page(
        pages(sample(), Standing("Replicated", "ab" * 32, "ed25519:cd", True, published="2026-02-01"))["index"]
    )
    (here,) = [e for e in replicated.all("li") if "aria-current" in e.attributes]
    assert here.text.startswith("Replicated")
    assert "verify.py" in replicated.section("check").text
    assert "Nobody else has signed" not in replicated.section("limits").text


def test_a_summary_before_these_figures_still_has_a_page() -> None:
    """Old summaries lack what the judge computes now: their pages leave it out."""
    old: Summary = replace(sample(), tally={}, medians=(), profiles=(), client_wait_share=None, gates_off=0)
    page = Page(pages(old, Standing())["index"])
    assert page.faults == []
    assert "no batch says how long" in page.section("method").text
