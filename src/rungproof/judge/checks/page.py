"""The pages of a pack against the recomputed summary: every claim's value and text, no number without a claim, nothing that runs.

What a claim is: an element with `data-claim` (the id of a point, or an RFC 6901 pointer into summary.json) and `value` or
`data-value` (repr of the full number); its text is that number in the form that `data-form` names (records/shown.py).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

from rungproof.judge.checks.found import Found, level_of
from rungproof.records.errors import EvidenceError
from rungproof.records.shown import shown

VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
)
ACTIVE = frozenset(["script", "iframe", "frame", "object", "embed", "applet", "base", "portal"])
LINKS = frozenset(("alternate", "license", "next", "prev", "up", "canonical"))  # that load nothing
# The tags and attributes of our pages. Whatever else a browser knows could hide, load or run something: a stranger's page has none.
TAGS = frozenset(
    (
        "html", "head", "meta", "title", "link", "style", "body", "header", "nav", "main", "section", "footer", "h1", "h2", "h3", "h4",
        "p", "a", "b", "i", "br", "small", "span", "strong", "em", "sub", "sup", "bdi", "code", "pre", "data", "div", "dl", "dt", "dd",
        "ol", "ul", "li", "table", "caption", "thead", "tbody", "tfoot", "tr", "th", "td", "figure", "figcaption", "input", "label",
        "svg", "g", "path", "text", "rect", "circle", "line",
    )
)  # fmt: skip
ATTRIBUTES = frozenset(
    (
        "aria-current", "aria-hidden", "aria-label", "aria-labelledby", "charset", "checked", "class", "colspan", "content", "cx", "cy", "d",
        "data-claim", "data-form", "data-state", "data-value", "dir", "fill", "font-family", "font-size", "for", "height", "href",
        "http-equiv", "id", "lang", "name", "r", "rel", "role", "rowspan", "scope", "stroke", "stroke-dasharray", "tabindex",
        "text-anchor", "textlength", "title", "type", "value", "viewbox", "width", "x", "x1", "x2", "xmlns", "y", "y1", "y2",
    )
)  # fmt: skip
TEXT_ALONE = ("style", "title")  # a browser looks for no tag in them but their own end
INLINE = frozenset(("a", "b", "i", "small", "span", "strong", "em", "sub", "sup", "bdi", "code"))
DOCTYPE = re.compile(r"\s*<!doctype html>", re.I)
TAG = re.compile(r'<(/?)([A-Za-z][A-Za-z0-9]*)((?:\s+[A-Za-z][A-Za-z0-9:-]*(?:="[^"<]*")?)*)\s*/?>')
UNSEEN = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
CELLS = (("td", "n"), ("td", "num"))
WITHOUT_STATE = re.compile(r"/points/\d+/value")
SCHEMES = ("https", "http", "mailto")
ORDINAL = re.compile(r"(?:^|;)\s*\d{1,2}:\s*$")  # the number of a pass, before its claims
# A number with a unit of measurement is a measured number, wherever it stands.
MEASURED = re.compile(r"\d[\d.,\u202f]*[\s\u00a0]*(?:tok/s|tokens/s|tokens a second|tok/step)")
# A style sheet of ours writes literal signs alone: no digits, no attributes, no counters, and nothing in disguise.
GENERATED = re.compile(r"content\s*:[^;}]*(?:\d|attr\(|counter)|url\(|src\(|image-set\(|@import|\\|/\*", re.I)


@dataclass
class Claim:
    """One claim as it stands on a page. `text`: None where the element shows no number of its own (a mark of a chart)."""

    claim: str
    value: str
    form: str
    state: str
    text: str | None
    place: str


class _Page(HTMLParser):
    """Collects claims, loose numbers and active content. Never raises on any text."""

    def __init__(self, name: str) -> None:
        super().__init__(convert_charrefs=True)
        self.name = name
        self.claims: list[Claim] = []
        self.troubles: list[str] = []
        self._open: list[tuple[str, Claim | None, bool]] = []
        self._run = ""  # text without a claim since the last block began, as it stands on one line

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attrs}
        self._active(tag, attrs, values)
        claim = None
        if tag not in INLINE:
            self._run = ""
        if "data-claim" in values:
            given = values.get("value" if tag == "data" else "data-value", "")
            text = "" if tag == "data" else None
            claim = Claim(
                values["data-claim"], given, values.get("data-form", ""), values.get("data-state", ""), text, self._at()
            )
            self.claims.append(claim)
        if tag not in VOID:
            words = values.get("class", "").split()
            cell = any(tag == name and mark in words for name, mark in CELLS)
            self._open.append((tag, claim, cell))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in INLINE:
            self._run = ""
        for place in range(len(self._open) - 1, -1, -1):
            if self._open[place][0] == tag:
                del self._open[place:]
                return

    def handle_data(self, data: str) -> None:
        names = [name for name, _, _ in self._open]
        if "style" in names:
            if GENERATED.search(data):
                self.troubles.append(f"{self._at()}: a style sheet that writes numbers or loads something")
            return
        inner = next((claim for _, claim, _ in reversed(self._open) if claim and claim.text is not None), None)
        if inner is not None:
            inner.text = (inner.text or "") + data
            return
        if any(cell for _, _, cell in self._open) and "bdi" not in names and _loose(data):
            self.troubles.append(f"{self._at()}: {data.strip()[:40]!r} stands in a numeric cell without a claim")
            return
        self._run = self._run[-80:] + "".join(char for char in data if char.isprintable() or char.isspace())
        if found := MEASURED.search(self._run):
            self.troubles.append(f"{self._at()}: {found[0][:40]!r} is a measured number without a claim")
            self._run = ""

    def _at(self) -> str:
        return f"{self.name}:{self.getpos()[0]}"

    def _active(self, tag: str, attrs: list[tuple[str, str | None]], values: Mapping[str, str]) -> None:
        policy = values.get("http-equiv", "content-security-policy").lower() == "content-security-policy"
        if tag in ACTIVE or (tag == "meta" and not policy) or (tag == "link" and values.get("rel") not in LINKS):
            self.troubles.append(f"{self._at()}: <{tag}> is active content; a page of a pack has none")
        elif tag not in TAGS:
            self.troubles.append(f"{self._at()}: <{tag[:40]}> is no tag of a page of ours")
        if len(values) != len(attrs):
            self.troubles.append(f"{self._at()}: <{tag}> has an attribute twice")
        if "style" in values or "hidden" in values:
            self.troubles.append(
                f"{self._at()}: <{tag}> is hidden, or has a look of its own; a page of a pack has neither"
            )
        for key, value in values.items():
            # What a browser takes out of an address before it reads it.
            scheme = re.match(r"([a-z][a-z0-9+.-]*):", re.sub(r"[\x00-\x20]", "", value), re.I)
            if key.startswith("on") or (key == "href" and scheme and scheme[1].lower() not in SCHEMES):
                self.troubles.append(f"{self._at()}: <{tag} {key}> is active content; a page of a pack has none")
            elif key not in ATTRIBUTES:
                self.troubles.append(
                    f"{self._at()}: <{tag} {key[:40]}> is no attribute of a page of ours: it could be active content"
                )


def _grammar(text: str) -> str:
    """Where a page is written in a way that a browser may read otherwise than this parser; "" for none.

    Comments, CDATA, instructions, unquoted values and tags in a title are read differently, and so could hide what a browser runs.
    """
    start = DOCTYPE.match(text)
    at, alone = start.end() if start else 0, ""
    if found := UNSEEN.search(text):
        return f"{1 + text.count(chr(10), 0, found.start())}: a control character"
    while (at := text.find("<", at)) >= 0:
        tag = TAG.match(text, at)
        if tag is None or (tag[1] and tag[3]) or (alone and (tag[1], tag[2].lower()) != ("/", alone)):
            why = f"only its end may follow <{alone}>" if alone else "no comment, no unquoted value, no other markup"
            return f"{1 + text.count(chr(10), 0, at)}: {text[at : at + 40]!r} is no plain tag, which a page of a pack has alone: {why}"
        name = tag[2].lower()
        alone = name if not tag[1] and name in TEXT_ALONE and not tag[0].endswith("/>") else ""
        at = tag.end()
    return ""


def _loose(text: str) -> bool:
    """Whether a digit stands there that is not the number of a pass."""
    return any(char.isdigit() for char in ORDINAL.sub("", text))


def names_a_rate(text: str) -> bool:
    """Whether a text holds a number that a page may show with its evidence alone, so that it may stand on none as it is."""
    return MEASURED.search(text) is not None


def check_pages(pages: Mapping[str, bytes], summary: Mapping[str, Any], found: Found) -> None:
    """Every page against the recomputed summary, in its plain form. pages: path -> bytes; none at all fails."""
    found.need("L2", "claims on pages")
    points = {point["id"]: point for point in summary["points"]}
    seen: set[str] = set()
    for name, data in pages.items():
        page = _Page(name)
        try:
            text = data.decode("utf-8")
        except ValueError as error:
            found.fail("L2", f"{name}: cannot be read as HTML in UTF-8 ({error})")
            continue
        if trouble := _grammar(text):
            found.fail("L2", f"{name}:{trouble}")
            continue
        page.feed(text)
        page.close()
        for trouble in page.troubles:
            found.fail("L2", trouble)
        for claim in page.claims:
            found.count("claims on pages")
            _claim(claim, summary, points, found)
            seen.add(claim.claim)
    for point_id in points:
        point = points[point_id]
        if point_id not in seen and point["value"] is not None:
            found.fail("L3", f"{', '.join(pages) or 'page'}: {point_id} ({point['state']}) is not shown on any page")


def _claim(claim: Claim, summary: Mapping[str, Any], points: Mapping[str, Any], found: Found) -> None:
    where = f"{claim.place}: {claim.claim[:120]!r}"
    try:
        value = points[claim.claim]["value"] if claim.claim in points else pointed(summary, claim.claim)
    except EvidenceError as error:
        found.fail("L2", f"{where}: {error}")
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        found.fail("L2", f"{where}: leads to no number (found {value!r:.60})")
        return
    if WITHOUT_STATE.fullmatch(claim.claim):
        found.fail("L3", f"{where}: the value of a point is shown by the point's id, so that its state is shown, too")
        return
    level = level_of(claim.claim) if claim.claim.startswith("/") else "L2"
    if claim.value != repr(value):
        found.fail(level, f"{where}: says {claim.value[:40]!r}, recomputed {value!r}")
    try:
        text = shown(value, claim.form)
    except ValueError as error:
        found.fail("L2", f"{where}: {error}")
        return
    if claim.text is not None and claim.text.strip() != text:
        found.fail(level, f"{where}: shows {claim.text.strip()[:40]!r}, {value!r} is {text!r}")
    if claim.claim in points and claim.state != (state := _told(points[claim.claim]["state"])):
        found.fail("L3", f"{where}: shown as {claim.state or 'qualified'!r}, recomputed {state or 'qualified'!r}")


def _told(state: str) -> str:
    """What `data-state` must say: nothing for a qualified point."""
    return "" if state == "qualified" else state


def pointed(value: Any, pointer: str) -> Any:
    """What an RFC 6901 pointer leads to. Raises EvidenceError where it leads nowhere."""
    if not pointer.startswith("/"):
        raise EvidenceError("neither a point's id nor a pointer into summary.json")
    for part in pointer[1:].split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif isinstance(value, list) and re.fullmatch(r"0|[1-9]\d{0,8}", key) and int(key) < len(value):
            value = value[int(key)]
        else:
            raise EvidenceError(f"there is no such number in summary.json (at {part[:40]!r})")
    return value
