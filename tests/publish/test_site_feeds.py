"""What machines read of a site: the list as CSV, and the feed."""

import csv
import io
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

from publish.parsed import Page
from publish.site_kit import happened, published, summary
from rungproof.publish.site import build_site

ATOM = "{http://www.w3.org/2005/Atom}"
FORMULA = '=1+1,"x"'


def test_the_list_as_a_table_is_the_list(tmp_path: Path) -> None:
    """index.csv has the rows of the index in its order: the rate in full where it is qualified, none where it is not; nothing in it is
    run by a spreadsheet, and the same packs give the same bytes."""
    odd = summary(2)
    odd = replace(odd, arms=tuple(replace(arm, title=FORMULA) for arm in odd.arms))
    low = summary(3)
    low = replace(low, headlines=tuple(replace(one, state="withheld") for one in low.headlines))
    published(tmp_path, [("a", summary(1)), ("b", odd), ("c", low)])
    build_site(tmp_path)
    data = (tmp_path / "index.csv").read_bytes()
    held = list(csv.DictReader(io.StringIO(data.decode("utf-8"), newline=""), strict=True))
    page = Page((tmp_path / "index.html").read_text(encoding="utf-8"))
    shown = [row for row in page.all("tr") if row.inside("tbody")]
    assert len(held) == len(shown) == 6
    for row, of in zip(held, shown, strict=True):
        center = [
            e.attributes["value"] for e in page.within(of, "data") if e.attributes["data-claim"].endswith("/center")
        ]
        assert center == ([row["value_in_unit"]] if row["state"] == "qualified" else []) and row["unit"] == "tok/s"
        assert any(e.attributes["href"] == row["page"] for e in page.within(of, "a"))
    assert [row["state"] for row in held] == ["qualified"] * 4 + ["withheld"] * 2
    assert {row["value_in_unit"] for row in held[4:]} == {""} and {
        row["title"] for row in held if row["study"] == "b"
    } == {f"'{FORMULA}"}
    assert any(e.attributes["href"] == "index.csv" for e in page.all("a"))
    build_site(tmp_path)
    assert (tmp_path / "index.csv").read_bytes() == data


def test_the_feed_is_atom(tmp_path: Path) -> None:
    """RFC 4287: title, id and updated of feed and entries, an author each, ids that differ, newest first; nothing else moves it."""
    ids = published(tmp_path, [("a", summary(1)), ("a", summary(2))])
    happened(tmp_path, ("withdraw", "a", ids[1], "a wrong clock"))
    build_site(tmp_path)
    root = ET.parse(tmp_path / "feed.xml").getroot()
    entries = root.findall(f"{ATOM}entry")
    assert [e.findtext(f"{ATOM}title") for e in entries] == [
        "Withdrawn: Campaign 2",
        "Published again: Campaign 2",
        "Published: Campaign 1",
    ]
    for one in (root, *entries):
        assert one.findtext(f"{ATOM}title") and one.findtext(f"{ATOM}id", "").startswith("tag:rungproof.dev,2026:")
        assert one.findtext(f"{ATOM}updated", "").endswith("Z")
    assert len({e.findtext(f"{ATOM}id") for e in entries}) == 3
    assert all(e.findtext(f"{ATOM}author/{ATOM}name") for e in entries)
    assert "a wrong clock" in entries[0].findtext(f"{ATOM}summary", "")
