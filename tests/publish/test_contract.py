"""What the campaign's page must have, in which order, and what its charts must say of themselves; the same in any process and place."""

import hashlib
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from publish.parsed import Element, Page
from publish.sample import calm, sample
from rungproof.publish.pages.render import PAGES, html, pages
from rungproof.records.formats import Point
from rungproof.records.standing import Standing

ROOT = Path(__file__).resolve().parents[2]
ORDER = (
    "headline", "standing", "curves", "strict", "steps", "unclaimed", "canaries", "configuration", "environment", "plan",
    "projection", "check", "limits", "missing", "changes", "citation", "glossary",
)  # fmt: skip


def test_the_sections_stand_in_the_order_of_the_contract() -> None:
    """None is left out, none is empty, and the list of sections at the top is the same one."""
    page = Page(html(calm(sample())))
    made = [e for e in page.all("section") if e.attributes.get("aria-labelledby", "").endswith("-h")]
    ids = [e.attributes["id"] for e in made]
    assert [one for one in ids if one in ORDER] == list(ORDER)
    assert [e.attributes["href"] for e in page.all("a") if e.inside("nav")] == [f"#{one}" for one in ids]
    for section in made:
        heading = page.within(section, "h2")[0].text
        assert len(section.text.replace(heading, "", 1).split()) > 5, section.attributes["id"]


def test_what_is_projected_stands_apart_from_what_was_measured() -> None:
    """The section holds words alone: no number, no chart, no point; and no chart calls anything projected."""
    page = Page(html(sample()))
    section = page.section("projection")
    assert "projected, not measured" in section.text
    assert not re.search(r"\d", section.text)
    assert not [e for e in page.elements if e.tag in ("svg", "data") and section in e.parents]
    assert not [e for e in page.all("svg") if "project" in e.text.lower()]


def test_a_citation_holds_what_a_number_must_not_be_without() -> None:
    """Title, campaign, host, date, digest of the plan, state, and the pack's digest where there is one; a simulation is no measurement."""
    summary = calm(sample())
    bare = Page(html(summary)).section("citation").text
    day = max(session.at for session in summary.sessions)[:10]
    for words in (
        summary.title,
        summary.campaign,
        summary.host,
        summary.lock_sha256,
        f"measured {day}",
        "Not published",
    ):
        assert words in bare, words
    standing = Standing("Replicated", "ab" * 32, "ed25519:cd", True, published="2026-02-01")
    told = Page(pages(summary, standing)["index"]).section("citation").text
    assert "Replicated" in told and "ab" * 32 in told and "pack sha256" not in bare
    assert "simulated, not measured" in Page(html(replace(summary, simulated=True))).section("citation").text


def drawn(page: Page, figure: Element) -> list[Point]:
    """The points whose marks a figure has, by the claims that stand on them."""
    points = {point.id: point for point in sample().points}
    claims = [e.attributes["data-claim"] for e in page.within(figure, "a") if "data-value" in e.attributes]
    return [points[c] if c in points else sample().points[int(c.split("/")[2])] for c in claims]


def test_a_legend_says_how_many_outputs_stand_behind_the_marks_of_each_arm() -> None:
    """n, or the fewest and the most, counted from the marks that are drawn; an arm without a mark says so."""
    page = Page(html(sample()))
    figures = [
        e for e in page.all("figure") if page.within(e, "input")
    ]  # without the small multiples, whose key is above them
    counted = 0
    for figure in figures:
        marks = drawn(page, figure)
        for key in (
            e
            for e in page.within(figure, "li")
            if e.inside("ul") and "keys" in (e.inside("ul") or e).attributes["class"]
        ):
            arm, _, said = key.text.strip().partition(" ")
            behind = [p.n for p in marks if p.arm == arm.strip()]
            ends = sorted({min(behind), max(behind)}) if behind else []
            assert said.strip() == (f"n = {' to '.join(map(str, ends))}" if ends else "none drawn"), (arm, said)
            counted += bool(ends)
    assert counted >= 6


def test_whiskers_are_drawn_with_their_kind_or_said_to_be_none() -> None:
    """A figure with whiskers names what they are, in the words of its points; one without says that it has none."""
    page = Page(html(calm(sample())))
    kinds = 0
    for figure in (e for e in page.all("figure") if page.within(e, "svg")):
        caption = page.within(figure, "figcaption")[0].text
        whiskers = [e for e in page.within(figure, "path") if e.attributes.get("class") == "wh"]
        assert ("Whiskers: " in caption) == bool(whiskers), caption
        assert ("No whiskers" in caption) == (not whiskers), caption
        kinds += bool(whiskers and len(caption.partition("Whiskers: ")[2].split()) > 2)
    assert kinds


def test_every_rule_of_the_style_sheet_is_about_an_element_that_pages_have() -> None:
    """A selector that names no element of ours styles nothing: it was mistyped, or its element is gone."""
    made = {name: Page(text) for name, text in pages(sample(), Standing()).items()}
    tags = {e.tag for page in made.values() for e in page.elements}
    for page in made.values():
        style = re.sub(r'"[^"]*"|@media[^{]*', "", page.all("style")[0].text)
        selectors = [part for found in re.findall(r"([^{};]+)\{", style) for part in found.split(",")]
        named = {word for part in selectors for word in re.findall(r"(?:^|[\s>+~(])([a-z][a-z0-9]*)", part)}
        assert len(named) > 20 and named <= tags | {"page"}, named - tags


@pytest.mark.parametrize(
    "where",
    [
        {"PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo", "LC_ALL": "C"},
        {"PYTHONHASHSEED": "2", "TZ": "America/New_York", "LC_ALL": "C.UTF-8"},
    ],
)
def test_another_process_elsewhere_gives_the_same_bytes(where: dict[str, str]) -> None:
    """Neither the order of sets, nor the time zone, nor the locale is in a page."""
    script = (
        "import hashlib, sys; from publish.sample import sample; from rungproof.publish.pages.render import PAGES, pages; "
        "from rungproof.records.standing import Standing; made = pages(sample(), Standing()); "
        "print(*(hashlib.sha256(made[name].encode()).hexdigest() for name in PAGES))"
    )
    path = os.pathsep.join(str(ROOT / name) for name in ("src", "tests"))
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **where, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    made = pages(sample(), Standing())
    assert done.stdout.split() == [hashlib.sha256(made[name].encode()).hexdigest() for name in PAGES]
