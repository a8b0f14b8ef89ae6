"""The page in a real browser, where one is installed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from publish.parsed import Page
from publish.sample import sample
from rungproof.publish.pages import render

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--virtual-time-budget=2000", "--dump-dom", "--allow-file-access-from-files",
)  # fmt: skip
PROBE = """<!DOCTYPE html><title>wait</title><iframe src="index.html" style="border:0;width:320px;height:600px"></iframe><script>
onload = () => { const d = document.querySelector("iframe").contentDocument
const wide = d.documentElement.scrollWidth - d.documentElement.clientWidth
const shown = [...d.querySelectorAll(".plot")].filter(e => e.getClientRects().length).length
document.title = `done ${wide} ${shown}` }</script>"""


@pytest.mark.skipif(BROWSER is None, reason="no chromium is installed, so the page was not opened in a browser")
def test_a_narrow_screen_needs_no_sideways_scrolling(tmp_path: Path) -> None:
    """In 320 px the page itself does not scroll sideways (tables and charts do, inside), and one picture of each figure is shown."""
    assert BROWSER is not None
    render(sample(), tmp_path / "page")
    probe = tmp_path / "page" / "probe.html"
    probe.write_text(PROBE)
    command = [BROWSER, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", probe.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert Page(done.stdout).all("title")[0].text == "done 0 3"
