"""Index, lists, history, comparison, replay and live page in a real browser: narrow screens, filters without script, nothing loaded, nobody shut out."""

import contextlib
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from cli.kit import HOSTILE
from cli.test_compare import folder
from judge.test_comparing import campaign, other_cap
from publish.browser import CHROMIUM, Browser, tools, validate
from publish.site_kit import happened, pack, published, summary
from publish.test_browser import AXE, NPM, OVERFLOW
from rungproof.cli import main
from rungproof.publish.pages.live import ItemNow, Now, live_html
from rungproof.publish.replay import report
from rungproof.publish.site import build_site
from rungproof.publish.site.listing import page_of
from rungproof.records.formats import Divergence
from rungproof.records.replay import HostRow, ItemTokens, RateRow, RateState, Replay
from rungproof.records.summary import Summary

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed, so no page was opened in a browser")
SEEN = "[...document.querySelectorAll('.rows tbody tr')].filter(e => e.getClientRects().length).map(e => e.className)"
EVIL = f'"><script>document.title = "run"</script><img src=x onerror=alert(1)>{HOSTILE}'


def evil() -> Summary:
    """A campaign with hostile text in each place that the site shows."""
    one = summary(1)
    arms = tuple(
        replace(a, title=EVIL, model=EVIL, lane=EVIL, engine=EVIL, launch={"host": EVIL, EVIL: [EVIL]})
        for a in one.arms
    )
    return replace(one, title=EVIL * 9, host=EVIL, claim=EVIL, arms=arms, suites=({"id": EVIL, "sha256": EVIL},))


def replayed() -> Replay:
    """A replay of a stranger's pack with every state that its page can tell, and hostile text wherever it has any."""
    parted = Divergence(EVIL, EVIL, 7, 1, 2, 9, 8, got_ids=(1,), oracle_ids=(2,))
    items = tuple(
        ItemTokens(f"base.a/ladder/c{n} {EVIL}", n != 2, state, k, 8, parted if k == 7 else None, "r001.base.a", "r001.base.a", EVIL)
        for n, (state, k) in enumerate((("identical", 8), ("different", 7), ("not compared", 0)), start=1)
    )  # fmt: skip
    rates = tuple(
        RateRow(f"{state} {EVIL}", "tok/s", state, (10.0, 10.1), (10.2,), *((1.0, 0.9, 1.1) if state != "not compared" else (None,) * 3), EVIL, EVIL)
        for state in get_args(RateState)
    )  # fmt: skip
    facts = tuple(
        HostRow(f"{state} {EVIL}", state == "equal", state, EVIL, None) for state in ("equal", "differs", "missing")
    )
    return Replay(
        kind="replay", pack="a" * 64, study=EVIL, title=EVIL * 9, simulated=True, plan_sha256="b" * 64, levels={"L0": "ok", "L4": EVIL},
        tokens="different", items=items, comparable=True, host_words=EVIL, host=facts, rates="beyond", limit=0.02, points=rates,
        results_sha256="c" * 64, results_files=9, at="2026-01-01T00:00:00Z",
    )  # fmt: skip


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One page of each kind by name, over packs of which one is hostile, one withdrawn, one superseded and one damaged."""
    home = tmp_path_factory.mktemp("site")
    reports = home / "reports"
    made = [(f"s{i}", summary(i)) for i in range(12)]
    ids = published(reports, [*made, ("s1", summary(13)), ("evil", evil())])
    happened(reports, ("withdraw", "s2", ids[2], "a wrong clock"))
    bad = pack(reports, "bad", summary(99))
    (reports / "bad" / bad / "summary.json").write_text("{}")
    build_site(reports)
    site = reports / "_site"
    (suite,) = list(site.glob("suite-strict*.html"))[:1] or [site / "about.html"]
    a = folder(home / "one", campaign([100.0, 101.0]))
    b = folder(home / "two", replace(other_cap(campaign([110.0, 112.0], rung=220.0)), host=EVIL))
    with contextlib.redirect_stdout(io.StringIO()):
        main(["compare", a, b, "--out", str(home / "out")])
    items = tuple(
        ItemNow(f"base.a/ladder/c{n}", "withheld", 1.5, "tok/s", "3 of 4", "r001.base.a", EVIL) for n in range(9)
    )
    now = Now("made", EVIL, True, items, (("withheld", 9),), "r001.base.a", "base.a/ladder/c1", 1, 9, 0.1, 60.0)
    (home / "live.html").write_text(live_html(now, "now", 600), encoding="utf-8")
    report.write(replayed(), home / "replay")
    return {
        "index": reports / "index.html", "aside": site / "aside.html", "about": site / "about.html", "suite": suite,
        "study": site / page_of("study", "s1"), "evil": site / page_of("study", "evil"), "lane": site / page_of("lane", "lane-1-base"),
        "rule": site / page_of("rule", "ladder_rung"), "facet": site / "every-model.html", "compare": home / "out/index.html", "live": home / "live.html",
        "replay": home / "replay/index.html",
    }  # fmt: skip


NAMES = ("index", "aside", "about", "suite", "study", "evil", "lane", "rule", "facet", "compare", "live", "replay")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of this module."""
    made = Browser(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_page_loads_nothing_runs_nothing_and_fits(browser: Browser, pages: dict[str, Path], name: str) -> None:
    """It asks for itself alone, has one heading of the first rank, and in 320 px nothing scrolls sideways but tables, inside."""
    browser.requests.clear()
    browser.faults.clear()
    browser.open(pages[name], width=320, height=600)
    assert set(browser.requests) == {pages[name].as_uri()}
    assert browser.faults == []
    assert browser.value("document.querySelectorAll('h1').length") == 1
    assert browser.value("document.scripts.length") == 0 and browser.value("document.title") != "run"
    assert browser.value(OVERFLOW) == 0


def test_the_index_is_filtered_without_script(browser: Browser, pages: dict[str, Path]) -> None:
    """Two facets chosen at once leave the rows that have both; all of them again bring every row back."""
    browser.open(pages["index"])
    every = browser.value(SEEN)
    ids = browser.value("[...document.querySelectorAll('.filters label')].map(e => [e.textContent, e.htmlFor])")
    chosen = [next(at for text, at in ids if text == wanted) for wanted in ("vllm", "Host 3")]
    for at in chosen:
        browser.value(f"document.getElementById('{at}').click()")
    left = browser.value(SEEN)
    assert left == [row for row in every if set(chosen) <= set(row.split())] and 0 < len(left) < len(every)
    for at in chosen:
        browser.value(f"document.getElementById('{at.split('-')[0]}-all').click()")
    assert browser.value(SEEN) == every


@NPM
@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_nothing(browser: Browser, pages: dict[str, Path], name: str) -> None:
    """No violation of the accessibility rules of axe-core, light and dark."""
    source = (tools() / "axe-core/axe.min.js").read_text(encoding="utf-8")
    for dark in (False, True):
        browser.open(pages[name], dark=dark)
        browser.value(source + ";0")
        assert browser.value(AXE) == [], (name, dark)


@NPM
def test_the_html_is_valid(pages: dict[str, Path]) -> None:
    """html-validate finds no fault in any page."""
    assert validate(list(pages.values())) == ""
