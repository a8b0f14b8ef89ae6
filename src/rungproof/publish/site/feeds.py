"""What machines read: `index.json`, `index.csv` and the Atom feed, the same bytes from the same packs and log."""

import csv
import io
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable

from rungproof.publish.site.found import Found, PackEntry
from rungproof.publish.site.listing import Row
from rungproof.records.codec import plain
from rungproof.records.text import csv_cell, visible

ATOM = "http://www.w3.org/2005/Atom"
ID = "tag:rungproof.dev,2026:"
NEWEST = 50
NEVER = "1970-01-01T00:00:00Z"  # of a feed in which nothing has happened
SAYS = {"publish": "Published", "supersede": "Published again", "withdraw": "Withdrawn", "replay": "Replayed"}
# Columns of the list, a row an arm of a pack that stands; `value`, `low` and `high` only where the headline is qualified.
COLUMNS: dict[str, Callable[[Row], object]] = {
    "study": lambda r: r.pack.study, "pack": lambda r: r.pack.id, "arm": lambda r: r.arm.name, "title": lambda r: r.arm.title,
    "lane": lambda r: r.arm.lane, "model": lambda r: r.arm.model, "quantisation": lambda r: r.arm.quantisation,
    "engine": lambda r: r.arm.engine, "draft_depth": lambda r: r.arm.draft_depth, "host": lambda r: r.pack.host,
    "value_in_unit": lambda r: r.arm.value, "low_in_unit": lambda r: r.arm.low, "high_in_unit": lambda r: r.arm.high,
    "interval": lambda r: r.arm.kind, "unit": lambda r: r.arm.unit, "state": lambda r: r.arm.state,
    "identical_outputs": lambda r: r.arm.k, "compared_outputs": lambda r: r.arm.n, "qualified_points": lambda r: r.arm.qualified,
    "points": lambda r: r.arm.points, "proof": lambda r: r.pack.standing.state, "signed": lambda r: r.pack.standing.signed,
    "measured": lambda r: r.pack.measured, "published": lambda r: r.pack.published,
    "page": lambda r: f"{r.pack.folder}/page/index.html",
}  # fmt: skip


def index_csv(rows: Iterable[Row]) -> bytes:
    """The list of the index as CSV in UTF-8, in its order; text that a spreadsheet would run begins with a quote."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([csv_cell(of(row)) for of in COLUMNS.values()] for row in rows)
    return out.getvalue().encode("utf-8")


def index_json(found: Found) -> bytes:
    """Every pack with its arms, and what is damaged. A value is there only where it is qualified."""
    made = {
        "format": "rungproof.index/1",
        "log_head": found.log.head,
        "log_fault": found.log_fault,
        "packs": [_pack(pack) for pack in found.packs],
        "damaged": [{"pack": one.folder, "why": one.why} for one in found.damaged],
    }
    return json.dumps(made, indent=1, sort_keys=True, ensure_ascii=True).encode() + b"\n"


def _pack(pack: PackEntry) -> dict[str, object]:
    return {
        "study": pack.study, "id": pack.id, "title": pack.title, "claim": pack.claim, "host": pack.host, "status": pack.status,
        "standing": pack.standing.state, "signer": pack.standing.signer, "signed": pack.standing.signed,
        "measured": pack.measured, "published": pack.published, "withdrawn_because": pack.reason, "superseded_by": pack.successor,
        "page": f"{pack.folder}/page/index.html", "zip": f"{pack.folder}.zip", "points": dict(pack.states),
        "suites": [{"id": name, "sha256": digest} for name, digest in pack.suites],
        "arms": [
            {key: value for key, value in plain(arm).items() if key not in ("launch", "place")} for arm in pack.arms
        ],
    }  # fmt: skip


def feed(found: Found) -> bytes:
    """The newest events of the log as Atom (RFC 4287). Ids and dates come from the log, so a reader sees each event once."""
    ET.register_namespace("", ATOM)
    root = ET.Element(f"{{{ATOM}}}feed")
    _text(root, "title", "rungproof: published measurements")
    _text(root, "id", f"{ID}feed")
    events = list(reversed(found.log.entries))[:NEWEST]
    _text(root, "updated", max((_time(e.at) for e in events), default=NEVER))
    ET.SubElement(root, f"{{{ATOM}}}link", rel="self", href="feed.xml")
    ET.SubElement(root, f"{{{ATOM}}}link", rel="alternate", href="index.html")
    by_folder = {pack.folder: pack for pack in found.packs}
    for event in events:
        pack = by_folder.get(f"{event.study}/{event.pack}")
        one = ET.SubElement(root, f"{{{ATOM}}}entry")
        _text(one, "title", f"{SAYS[event.event]}: {pack.title if pack else event.study}")
        _text(one, "id", f"{ID}log/{event.seq}")
        _text(one, "updated", _time(event.at))
        _text(ET.SubElement(one, f"{{{ATOM}}}author"), "name", event.key or "unsigned")
        ET.SubElement(one, f"{{{ATOM}}}link", rel="alternate", href=f"{event.study}/{event.pack}/page/index.html")
        said = [pack.claim if pack else "The pack is not here or is damaged.", event.reason]
        _text(one, "summary", " ".join(words for words in said if words))
    text: str = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


def _time(at: str) -> str:
    """A time of the log as RFC 3339 wants it."""
    return at.replace("+00:00", "Z")


def _text(parent: ET.Element, name: str, words: str) -> None:
    ET.SubElement(parent, f"{{{ATOM}}}{name}").text = visible(words).replace("\n", " ").replace("\t", " ")
