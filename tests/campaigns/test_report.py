"""Snakemake's own report: the page, its twins and the tables with their captions, in one file that needs no network."""

import re
import zipfile
from pathlib import Path

from campaigns.checkout import Checkout


def runs(checkout: Checkout) -> set[str]:
    """Runs that the results folder knows."""
    return {path.name for path in (checkout.study("mini") / "runs").iterdir()}


def test_the_report_holds_page_and_tables_with_captions(measured: Checkout, tmp_path: Path) -> None:
    """As one file and as a zip; looking makes no run and no server; the page in it is the page, byte for byte."""
    before, single, packed = runs(measured), tmp_path / "report.html", tmp_path / "report.zip"
    for to in (single, packed):
        call = measured.run("mini", "--report", str(to))
        assert call.returncode == 0, call.stdout[-3000:]
    assert runs(measured) == before
    text = single.read_text(encoding="utf-8")
    for words in (
        "rungproof launches real servers",
        "what is claimed, what is withheld and why",
        "Only points whose state is",
        "A Parquet table of",
    ):
        assert words in text, words
    assert re.findall(r"""<(?:script|link|img|iframe)[^>]*(?:src|href)=["']?(?:https?:)?//""", text) == []
    with zipfile.ZipFile(packed) as held:
        files = {Path(name).name: held.read(name) for name in held.namelist()}
    page = measured.study("mini") / "page"
    assert {name: files[name] for name in ("index.html", "points.csv", "points.json")} == {
        name: (page / name).read_bytes() for name in ("index.html", "points.csv", "points.json")
    }
    assert {
        f"{name}.parquet" for name in ("campaigns", "sessions", "requests", "tokens", "rungs", "passes", "verdicts")
    } <= set(files)
