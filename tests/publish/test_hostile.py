"""Text from models, prompts, configurations and hosts can do nothing to a page or to a spreadsheet."""

import csv
import json
import xml.etree.ElementTree as ET
from dataclasses import fields, is_dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from publish.parsed import Page
from publish.sample import HOSTILE, sample
from rungproof.publish.pages import render
from rungproof.publish.pages.badge import badge
from rungproof.publish.pages.render import html, pages
from rungproof.publish.pages.text import csv_cell, evidence_link, visible
from rungproof.records.formats import Point
from rungproof.records.standing import Standing, StandingLine
from rungproof.records.summary import Summary

ALLOWED = {
    "html", "head", "meta", "title", "link", "style", "body", "a", "div", "nav", "ol", "ul", "li", "main", "section",
    "header", "footer", "h1", "h2", "h3", "p", "strong", "b", "span", "small", "bdi", "sub", "br", "code", "table",
    "caption", "thead", "tbody", "tfoot", "tr", "th", "td", "dl", "dt", "dd", "data", "figure", "figcaption", "input",
    "label", "svg", "desc", "g", "path", "text",
}  # fmt: skip
STANDING = Standing(
    "Replicated",
    HOSTILE,
    HOSTILE,
    True,
    (StandingLine("replay", HOSTILE, True, HOSTILE * 20, HOSTILE),),
    HOSTILE,
    HOSTILE,
    HOSTILE,
    "withdrawn",
    HOSTILE,
    HOSTILE * 20,
    HOSTILE,
)
KEPT = ("state", "metric", "unit", "workload", "gates", "evidence", "id")


def poisoned(value: Any, name: str = "") -> Any:
    """The record with every free text in it, keys too, followed by hostile text."""
    if is_dataclass(value) and not isinstance(value, type):
        changed = {
            f.name: poisoned(getattr(value, f.name), f.name)
            for f in fields(value)
            if not (isinstance(value, Point) and f.name in KEPT)
        }
        return replace(value, **{k: v for k, v in changed.items() if k not in ("state", "format", "lock_sha256")})
    if isinstance(value, tuple):
        return tuple(poisoned(item) for item in value)
    if isinstance(value, list):
        return [poisoned(item) for item in value]
    if isinstance(value, dict):
        return {f"{key}{HOSTILE}": poisoned(item) for key, item in value.items()}
    return f"{value}{HOSTILE}" if isinstance(value, str) else value


@pytest.fixture(scope="module")
def summary() -> Summary:
    made = poisoned(sample())
    assert isinstance(made, Summary)
    assert HOSTILE in made.title
    assert HOSTILE in made.arms[0].name
    assert HOSTILE in made.points[0].arm
    return made


@pytest.mark.parametrize("poison", [False, True])
def test_no_text_becomes_markup(summary: Summary, poison: bool) -> None:
    """With hostile text in every field there is no script, no handler, no unknown element, no comment and no broken nesting."""
    made = {
        name: Page(text)
        for name, text in pages(summary if poison else sample(), STANDING if poison else Standing()).items()
    }
    assert len(made) == 4
    for page in made.values():
        assert page.faults == []
        assert page.comments == []
        assert {e.tag for e in page.elements} <= ALLOWED
        for element in page.elements:
            assert not [name for name in element.attributes if name.startswith("on") or name == "style"]
            assert (
                not element.attributes.get("href", "").lower().strip().startswith(("javascript", "data:", "http", "//"))
            )
    assert 'alert("x")' in made["evidence"].section("asked").text
    assert 'alert("x")' in made["index"].section("canaries").text


def test_the_badge_is_plain_text_in_two_boxes() -> None:
    """Whatever a record says of its date, the badge is well-formed and holds nothing but text and rectangles."""
    made = badge(replace(sample(), sessions=tuple(replace(s, at=HOSTILE) for s in sample().sessions)), Standing())
    assert {e.tag.rpartition("}")[2] for e in ET.fromstring(made).iter()} <= {"svg", "title", "rect", "g", "text"}


@pytest.mark.parametrize("poison", [False, True])
def test_every_picture_is_well_formed_xml(summary: Summary, poison: bool) -> None:
    """Each SVG of the page parses as XML by itself, and holds no script, style, image or foreign object."""
    made = "".join(pages(summary if poison else sample(), Standing()).values())
    pictures = [f"<svg{part.partition('</svg>')[0]}</svg>" for part in made.split("<svg")[1:]]
    assert len(pictures) >= 10
    for picture in pictures:
        tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(picture).iter()}
        assert tags <= {"svg", "title", "desc", "g", "path", "text", "a"}


def test_invisible_characters_are_shown(summary: Summary) -> None:
    """Controls, direction overrides and zero-width characters never reach the page as themselves; Hebrew letters do."""
    made = "".join(pages(summary, STANDING).values())
    assert not [char for char in "\u202e\u2066\u200b\x00\x1b\x7f\u2028" if char in made]
    assert "[U+202E]" in made
    assert "שלום" in made
    assert visible("a\ud800b\u200bc\ufffe\n\t") == "a[U+D800]b[U+200B]c[U+FFFE]\n\t"


def test_the_page_needs_nothing_and_runs_nothing() -> None:
    """There is no script, no resource from elsewhere, and a policy that forbids both."""
    page = Page(html(sample()))
    policy = next(
        e.attributes["content"] for e in page.all("meta") if e.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'")
    assert not [e for e in page.elements if "src" in e.attributes]
    style = page.all("style")[0].text
    assert "url(" not in style
    assert "@import" not in style


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", " =1", "\uff1d1", "\n=1"])
def test_a_spreadsheet_runs_no_cell(text: str) -> None:
    """A text cell that could begin a formula is prefixed by a quote; numbers and plain words are left alone."""
    assert csv_cell(text).startswith("'")
    assert csv_cell(-1.5) == "-1.5"
    assert csv_cell("a-b=c") == "a-b=c"


def test_the_csv_twin_has_no_formula_and_every_point(tmp_path: Path) -> None:
    """Read back by a CSV reader, each point has its row, its full value, and no text cell that begins a formula."""
    base = sample()
    made = replace(
        base,
        points=tuple(replace(p, arm=f"={p.arm}", session="@SUM(A1)", reasons=("-2+3", HOSTILE)) for p in base.points),
    )
    render(made, tmp_path)
    rows = list(csv.DictReader(StringIO((tmp_path / "points.csv").read_text(encoding="utf-8"))))
    assert [row["point"] for row in rows] == [point.id for point in made.points]
    for row, point in zip(rows, made.points, strict=True):
        assert row["value_in_unit"] == ("" if point.value is None else repr(point.value))
        assert row["arm"] == f"'={point.arm[1:]}"
        assert not [cell for cell in row.values() if cell[:1] in ("=", "+", "-", "@")]


def test_the_json_twin_holds_the_points_as_they_are(tmp_path: Path) -> None:
    """The JSON twin is valid, explains each column, and carries states, values, reasons and evidence unchanged."""
    summary = sample()
    render(summary, tmp_path)
    data = json.loads((tmp_path / "points.json").read_bytes())
    assert data["simulated"] is False
    assert data["missing"] == list(summary.missing)
    assert len(data["points"]) == len(summary.points) > 0
    for row, point in zip(data["points"], summary.points, strict=True):
        assert set(row) == set(data["columns"])
        assert (row["point"], row["state"], row["value_in_unit"], row["unit"]) == (
            point.id,
            point.state,
            point.value,
            point.unit,
        )
        assert (tuple(row["reasons"]), tuple(row["evidence"])) == (point.reasons, point.evidence)


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../b", "a//b", "a\\b", "./a"])
def test_a_link_never_leaves_the_campaign(path: str) -> None:
    """A path that is absolute, climbs, or is not plain is not linked at all."""
    assert evidence_link(path) is None


def test_a_link_is_quoted_whole() -> None:
    """Any other name becomes a relative link in which nothing has a meaning of its own."""
    assert evidence_link('javascript:a/"?#<%\u202e.json') == "../javascript%3Aa/%22%3F%23%3C%25%E2%80%AE.json"
