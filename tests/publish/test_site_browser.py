"""Index, history, comparison and live page in a real browser, where one is installed: narrow screens, filters, the network denied."""

import subprocess
from pathlib import Path

import pytest

from cli.test_compare import folder
from judge.test_comparing import campaign, other_cap
from publish.parsed import Page
from publish.site_kit import published, summary
from publish.test_browser import BROWSER, FLAGS
from rungproof.cli import main
from rungproof.publish.pages.live import ItemNow, Now, live_html
from rungproof.publish.site import build_site
from rungproof.publish.site.listing import page_of

OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND"
PROBE = """<!DOCTYPE html><title>wait</title><iframe src="{page}" style="border:0;width:320px;height:600px"></iframe><script>
onload = () => {{ const d = document.querySelector("iframe").contentDocument
const wide = d.documentElement.scrollWidth - d.documentElement.clientWidth
const seen = () => [...d.querySelectorAll(".rows tbody tr")].filter(e => e.getClientRects().length)
const all = seen().length
for (const id of {checked}) d.getElementById(id).checked = true
const held = seen().filter(e => {checked}.every(id => e.classList.contains(id))).length
document.title = `done ${{wide}} ${{all}} ${{seen().length}} ${{held}}` }}</script>"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium is installed, so no page was opened in a browser")


def probed(page: Path, checked: list[str], profile: Path) -> list[int]:
    """(pixels that the page is too wide in 320 px, rows shown, rows shown after these radio buttons were chosen, those that have them all)."""
    probe = page.with_name(f"probe-{page.name}")
    probe.write_text(PROBE.format(page=page.name, checked=checked))
    command = [str(BROWSER), *FLAGS, OFFLINE, f"--user-data-dir={profile}", probe.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    probe.unlink()
    words = Page(done.stdout).all("title")[0].text.split()
    assert words[0] == "done", words
    return [int(word) for word in words[1:]]


def test_the_index_is_filtered_without_script(tmp_path: Path) -> None:
    """Two facets chosen at once leave the rows that have both, and the page does not scroll sideways in 320 px."""
    reports = tmp_path / "reports"
    published(reports, [(f"s{i}", summary(i)) for i in range(12)])
    build_site(reports)
    index = Page((reports / "index.html").read_text())
    by_label = {e.text: e.attributes["for"] for e in index.all("label")}
    wide, every, left, held = probed(
        reports / "index.html", [by_label["vllm"], by_label["Host 3"]], tmp_path / "profile"
    )
    wanted = 2 * sum(i % 3 == 0 and i % 7 == 3 for i in range(12))
    assert (wide, every, left, held) == (0, 24, wanted, wanted) and wanted > 0
    assert probed(reports / "_site" / page_of("study", "s1"), [], tmp_path / "profile")[0] == 0
    assert probed(reports / "_site" / page_of("lane", "lane-1-base"), [], tmp_path / "profile")[0] == 0


def test_comparison_and_live_page_fit_a_narrow_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither scrolls sideways in 320 px; their tables do, inside."""
    a = folder(tmp_path / "one", campaign([100.0, 101.0]))
    b = folder(tmp_path / "two", other_cap(campaign([110.0, 112.0], rung=220.0)))
    main(["compare", a, b, "--out", str(tmp_path / "out")])
    assert probed(tmp_path / "out/index.html", [], tmp_path / "profile")[0] == 0
    items = tuple(
        ItemNow(f"base.a/ladder/c{n}", "withheld", 1.5, "tok/s", "3 of 4", "r001.base.a", "a long reason " * 9)
        for n in range(9)
    )
    live = tmp_path / "live.html"
    live.write_text(
        live_html(
            Now(
                "made",
                "Made by hand " * 5,
                True,
                items,
                (("withheld", 9),),
                "r001.base.a",
                "base.a/ladder/c1",
                1,
                9,
                0.1,
                60.0,
            ),
            "now",
            600,
        )
    )
    assert probed(live, [], tmp_path / "profile")[0] == 0
