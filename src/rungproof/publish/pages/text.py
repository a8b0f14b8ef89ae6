"""Strings for readers: hostile text made harmless to look at, numbers rounded, anchors and links to evidence.

Escaping for HTML and SVG is the templates' own (autoescape); what is done here, and in records/text.py, is what escaping does not
do: control characters, characters that reorder a line of text, halves of surrogate pairs, formulas in spreadsheets, paths that
leave the campaign's folder.
"""

import hashlib
import html
import re
from urllib.parse import quote

from rungproof.records.shown import percent_down
from rungproof.records.text import csv_cell, shortened, visible

__all__ = [
    "anchor", "bound_words", "count_of", "csv_cell", "evidence_link", "metric_name", "plain_words", "shortened", "visible",
]  # fmt: skip

METRICS = {
    "decode_rate": "Decode rate", "aggregate": "Aggregate rate", "ttft": "Time to first token", "per_user": "Rate per user",
}  # fmt: skip
_ELEMENT = re.compile(r"<[^>]+>")
_ANCHOR = re.compile(r"[^A-Za-z0-9._/-]")


def plain_words(made: str) -> str:
    """Words of a page for a terminal: without elements, characters as themselves."""
    return html.unescape(_ELEMENT.sub("", made))


def count_of(k: int, n: int) -> str:
    """`7 of 8`, or words where nothing was compared."""
    return f"{k} of {n}" if n else "not compared"


def bound_words(k: int, n: int, bound: float | None) -> str:
    """What k identical outputs of n support: the exact one-sided 95 % bound in words."""
    if not n or bound is None:
        return "nothing compared, so nothing is supported"
    return f"{k} of {n} supports at least {percent_down(bound)}"


def anchor(kind: str, name: str) -> str:
    """A fragment identifier for `name`, different for different names; safe in `id` and after `#` unchanged."""
    safe = _ANCHOR.sub("-", name)
    if safe != name or not name:
        safe += "-" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{kind}-{safe}"


def evidence_link(path: str) -> str | None:
    """The link from the page (in `<campaign>/page/`) to a file of the campaign; None for a path that leaves its folder."""
    parts = path.split("/")
    if not path or path.startswith("/") or "\\" in path or any(part in ("", ".", "..") for part in parts):
        return None
    return "../" + quote(path.encode("utf-8", "replace"), safe="/")


def metric_name(metric: str) -> str:
    """What a metric is called on the page; an unknown one keeps its own word."""
    return METRICS.get(metric, metric.replace("_", " ").capitalize())
