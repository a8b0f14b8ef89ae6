"""The pages in a real browser that reaches no network: they render, can be used by keyboard and without script, and nobody is shut out."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from publish.browser import CHROMIUM, Browser, tools, validate
from publish.sample import sample
from publish.test_hostile import poisoned
from publish.test_page_hosts import with_env
from rungproof.publish.pages import render
from rungproof.publish.pages.render import PAGES

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed, so no page was opened in a browser")
NPM = pytest.mark.skipif(shutil.which("npm") is None, reason="no npm is installed, which fetches the checkers")
NAMES = [f"{name}.html" for name in PAGES]
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
STOPS = """(() => { const seen = new Set(); return [...document.querySelectorAll("a[href], input, [tabindex]")].filter(e => {
  if (e.id === "main" || !e.getClientRects().length) return false
  if (e.type !== "radio") return true
  if (seen.has(e.name) || !e.checked) return false
  seen.add(e.name); return true }).map((e, i) => { e.dataset.stop = i; return i }).length })()"""
SHOWN = "[...document.querySelectorAll('#c1 .{}')].map(e => e.getClientRects().length > 0)"
AXE = "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map(v => v.id + ': ' + v.nodes.slice(0, 3).map(n => n.html).join(' | ')))"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of three campaigns: with hostile text here and there, with environments, and with hostile text in every field."""
    home = tmp_path_factory.mktemp("pages")
    simulated = replace(sample(), simulated=True, lossless_claim=False)
    asked = tuple(
        replace(row, name=f"known-{row.name}") if ".draft3." in row.session else row for row in sample().canaries
    )
    for name, summary in {
        "sample": sample(),
        "env": replace(with_env(), canaries=asked),
        "poisoned": poisoned(sample()),
        "simulated": simulated,
    }.items():
        render(summary, home / name / "page")
    return {name.name: name / "page" for name in home.iterdir()}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of this module."""
    made = Browser(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


@pytest.mark.parametrize("campaign", ["sample", "env", "poisoned", "simulated"])
def test_pages_load_nothing_and_run_nothing(browser: Browser, folders: dict[str, Path], campaign: str) -> None:
    """Each page asks for itself alone, reports no error, and hostile text in it has not run; badge and pages are all there is to load."""
    for name in NAMES:
        browser.requests.clear()
        browser.faults.clear()
        browser.open(folders[campaign] / name)
        assert browser.value("document.querySelectorAll('h1').length") == 1
        assert set(browser.requests) == {(folders[campaign] / name).as_uri()}
        assert browser.faults == []
        assert browser.value("document.scripts.length") == 0


@pytest.mark.parametrize("campaign", ["sample", "env", "poisoned"])
def test_320_pixels_need_no_sideways_scrolling(browser: Browser, folders: dict[str, Path], campaign: str) -> None:
    """On a narrow screen no page scrolls sideways (tables and charts do, inside), whatever the names; nothing is cut off."""
    for name in NAMES:
        browser.open(folders[campaign] / name, width=320, height=600)
        assert browser.value(OVERFLOW) == 0, name
        outside = "[...document.querySelectorAll('main p, main li, main h1, main h2, main h3, main dd')].filter(e => !e.closest('.scroll') && e.getBoundingClientRect().right > 321).length"
        assert browser.value(outside) == 0, name


def test_a_4k_screen_gets_larger_letters_and_no_endless_lines(browser: Browser, folders: dict[str, Path]) -> None:
    """At 3840 pixels letters grow by half, and a paragraph stays below 80 characters a line."""
    browser.open(folders["sample"] / "index.html", width=3840, height=2160)
    assert browser.value("parseFloat(getComputedStyle(document.documentElement).fontSize)") == 24
    assert browser.value(OVERFLOW) == 0
    assert (
        browser.value(
            "Math.max(...[...document.querySelectorAll('main p')].map(e => e.getBoundingClientRect().width)) / 24"
        )
        < 45
    )


def test_the_scale_is_switched_by_keyboard_with_script_turned_off(browser: Browser, folders: dict[str, Path]) -> None:
    """With scripts disabled the arrow key takes the log2 axis to the linear one: ticks and lines change, and every mark moves to its place."""
    browser.do("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(folders["sample"] / "index.html")
        places = "[...document.querySelectorAll('#c1 .mark a')].map(e => e.getBoundingClientRect().x)"
        before = browser.value(places)
        assert set(browser.value(SHOWN.format("q1"))) == {True}
        assert set(browser.value(SHOWN.format("q2"))) == {False}
        browser.value("document.querySelector('#ax1-1').focus()")
        browser.press("ArrowRight", 39)
        assert browser.value("document.activeElement.id") == "ax1-2"
        assert set(browser.value(SHOWN.format("q1"))) == {False}
        assert set(browser.value(SHOWN.format("q2"))) == {True}
        after = browser.value(places)
    finally:
        browser.do("Emulation.setScriptExecutionDisabled", value=False)
    moved = [abs(a - b) > 1 for a, b in zip(before, after, strict=True)]
    assert sum(moved) >= len(moved) / 2 > 3


def test_the_tab_key_reaches_every_mark_in_order(browser: Browser, folders: dict[str, Path]) -> None:
    """Tab goes once through all links, switches and scrolling parts in the order of the page, the link past the menu first; focus is visible."""
    browser.open(folders["sample"] / "index.html")
    count = browser.value(STOPS)
    marks = browser.value("document.querySelectorAll('svg .mark a').length")
    assert count > 150 and marks > 60
    browser.press("Tab", 9)
    assert browser.value("document.activeElement.className") == "skip"
    order, reached = [0], 0
    for _ in range(count - 1):
        browser.press("Tab", 9)
        order.append(int(browser.value("document.activeElement.dataset.stop ?? -1")))
        reached += bool(
            browser.value(
                "!!document.activeElement.closest('svg') && !!document.activeElement.getAttribute('aria-label')"
            )
        )
    assert order == list(range(count))
    assert reached == marks
    assert browser.value("getComputedStyle(document.activeElement).outlineStyle") != "none"


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_differ_in_colour_alone(browser: Browser, folders: dict[str, Path], dark: bool) -> None:
    """Paper and ink follow the reader's choice; marks keep their shape."""
    browser.open(folders["sample"] / "index.html", dark=dark)
    paper = browser.value("getComputedStyle(document.body).backgroundColor")
    light = sum(int(part) for part in paper[4:-1].split(",")) > 3 * 128
    assert light is not dark


def test_print_shows_everything_and_no_controls(browser: Browser, folders: dict[str, Path]) -> None:
    """On paper the menu and the switches are gone, nothing is cut off by scrolling, and a PDF of several pages comes out."""
    browser.open(folders["sample"] / "index.html", media="print")
    assert browser.value("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert browser.value("[...document.querySelectorAll('.switch > label')].every(e => !e.getClientRects().length)")
    assert browser.value(
        "[...document.querySelectorAll('.scroll')].every(e => getComputedStyle(e).overflowX === 'visible')"
    )
    browser.open(folders["sample"] / "index.html")
    made = browser.pdf()
    assert made.startswith(b"%PDF") and made.count(b"/Type /Page\n") >= 4


@NPM
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("campaign", ["sample", "env", "simulated"])
def test_axe_finds_no_violation(browser: Browser, folders: dict[str, Path], campaign: str, dark: bool) -> None:
    """axe-core, in light and dark and on a narrow screen, has nothing against any page."""
    script = (tools() / "axe-core/axe.min.js").read_text(encoding="utf-8")
    for name in NAMES:
        browser.open(folders[campaign] / name, width=1280 if dark else 400, dark=dark)
        browser.value(f"{script};0")
        assert browser.value(AXE) == [], name


@NPM
@pytest.mark.parametrize("campaign", ["sample", "env", "poisoned"])
def test_the_html_is_valid(folders: dict[str, Path], campaign: str) -> None:
    """html-validate, with its rules for accessibility, accepts every page."""
    assert validate([folders[campaign] / name for name in NAMES]) == ""
