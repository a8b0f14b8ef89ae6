"""The walk over pages and twins: an honest page of everything that a page can hold passes, each way to touch a number is found."""

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from publish.sample import calm, large, sample
from rungproof.judge.checks.found import Found, differences, level_of
from rungproof.judge.checks.page import check_pages, pointed
from rungproof.judge.checks.twins import check_twins
from rungproof.publish.pages import render
from rungproof.records.codec import build, canonical, load_json
from rungproof.records.errors import EvidenceError
from rungproof.records.summary import Summary

SUMMARIES = {"hostile": sample(), "large": large(), "calm": calm(sample())}


@cache
def made(name: str) -> tuple[Any, dict[str, bytes]]:
    """A summary as its file gives it back, and the files of its page."""
    with TemporaryDirectory() as scratch:
        files = {path.name: path.read_bytes() for path in render(SUMMARIES[name], Path(scratch))}
    return load_json(canonical(SUMMARIES[name]), "summary.json"), files


def walk(summary: Any, files: dict[str, bytes]) -> Found:
    """Both checks."""
    found = Found()
    sessions = build(Summary, summary, "summary.json").sessions
    check_pages({n: d for n, d in files.items() if n.endswith((".html", ".svg"))}, summary, found)
    check_twins({n: d for n, d in files.items() if n.endswith((".csv", ".json"))}, summary, sessions, found)
    found.close()
    return found


@pytest.mark.parametrize("name", SUMMARIES)
def test_an_honest_page_passes(name: str) -> None:
    """Hostile text in every place of it changes nothing; many claims and rows were compared."""
    found = walk(*made(name))
    assert found.failures == {"L2": [], "L3": [], "L4": []}
    assert found.counts["claims on pages"] > 200 and found.counts["rows of twins"] > 60


def page(change: Callable[[str], str], name: str = "index.html") -> Callable[[dict[str, bytes]], None]:
    """A change of a page's text."""

    def apply(files: dict[str, bytes]) -> None:
        text = files[name].decode()
        files[name] = change(text).encode()
        assert files[name] != text.encode()

    return apply


def at_end(text: str) -> Callable[[dict[str, bytes]], None]:
    """A text put before the end of the page's body."""
    return page(lambda held: held.replace("</body>", f"{text}</body>"))


TOUCHED: dict[str, tuple[Callable[[dict[str, bytes]], None], str, str]] = {
    "a claim that leads nowhere": (at_end('<data value="1" data-claim="/nowhere">1</data>'), "L2", "no such number"),
    "a claim to a text": (at_end('<data value="x" data-claim="/title">x</data>'), "L2", "leads to no number"),
    "a claim of another form": (
        at_end('<data value="1" data-claim="/verdicts/0/n" data-form="words">1</data>'), "L2", "expected one of"
    ),
    "a claim whose text is nothing": (
        page(lambda t: re.sub(r">[^<]*</data>", "></data>", t, count=1)), "L2", "shows"
    ),
    "a number in a numeric cell": (at_end('<table><tr><td class="n">99</td></tr></table>'), "L2", "without a claim"),
    "a rate in a sentence": (at_end("<p>It does 99.9 tok/s.</p>"), "L2", "measured number without a claim"),
    "a script": (at_end("<script>1</script>"), "L2", "active content"),
    "a frame": (at_end('<iframe src="x"></iframe>'), "L2", "active content"),
    "a handler": (at_end('<p onclick="x()">x</p>'), "L2", "active content"),
    "an address that runs": (at_end('<a href=" java&#115;cript:x()">x</a>'), "L2", "active content"),
    "a picture from elsewhere": (at_end('<img src="https://elsewhere.example/x">'), "L2", "active content"),
    "a link that runs, broken by a tab": (at_end('<a href="java&Tab;script:x()">x</a>'), "L2", "active content"),
    "a script behind an empty comment": (at_end("<!--><script>1</script>-->"), "L2", "no plain tag"),
    "a script behind the end of a comment": (at_end("<!-- --!><script>1</script>-->"), "L2", "no plain tag"),
    "a script behind a title": (
        page(lambda t: t.replace("</title>", '<b title="</title><script>1</script>"></b></title>', 1)), "L2", "no plain tag"
    ),
    "a script behind a style sheet": (
        page(lambda t: t.replace("</style>", "</style x><script>1</script></style>", 1)), "L2", "no plain tag"
    ),
    "a script of another namespace": (at_end("<x:script>1</x:script>"), "L2", "no plain tag"),
    "an instruction": (at_end('<?xml-stylesheet href="https://elsewhere.example/x"?>'), "L2", "no plain tag"),
    "a number in CDATA": (at_end("<svg><text><![CDATA[99 tok/s]]></text></svg>"), "L2", "no plain tag"),
    "a value without quotes": (at_end("<p title=x>x</p>"), "L2", "no plain tag"),
    "a control character in a number": (at_end("<p>9\x009 tok/s</p>"), "L2", "control character"),
    "a picture of the same server": (at_end('<input type="image" src="//elsewhere.example/x">'), "L2", "active content"),
    "a template that nobody sees": (at_end("<template><b>x</b></template>"), "L2", "no tag of a page"),
    "a rate in two elements": (at_end("<p><b>99</b> tok/s</p>"), "L2", "measured number without a claim"),
    "a counter of the style sheet": (
        page(lambda t: t.replace("</style>", "p{counter-reset:x 99}p::after{content:counter(x)}</style>", 1)), "L2", "style sheet"
    ),
    "an address of the style sheet": (
        page(lambda t: t.replace("</style>", "p{background:image-set('//elsewhere.example/x' 1x)}</style>", 1)), "L2", "style sheet"
    ),
    "a point's value without its state": (
        at_end('<data value="1" data-claim="/points/0/value">1</data>'), "L3", "so that its state is shown"
    ),
    "an attribute twice": (at_end('<data value="1" value="2" data-claim="/verdicts/0/n">1</data>'), "L2", "attribute twice"),
    "a number in the style sheet": (
        page(lambda t: t.replace("</style>", ".x::after{content:'99 tok/s'}</style>", 1)), "L2", "style sheet"
    ),
    "a page that is no text": (lambda files: files.update({"index.html": b"\xff"}), "L2", "cannot be read"),
    "no page": (lambda files: [files.pop(n) for n in list(files) if n.endswith((".html", ".svg"))] and None, "L2", "no claims"),
    "a withheld point without its state": (page(lambda t: t.replace(' data-state="withheld"', "")), "L3", "shown as 'qualified'"),
    "no twin": (lambda files: files.pop("points.json") and None, "L2", "no such file"),
    "a column more": (
        page(lambda t: t.replace('"state": "qualified"', '"rate": 9, "state": "qualified"', 1), "points.json"), "L2", "not one of ours"
    ),
    "a row of a chart for another point": (
        page(lambda t: t.replace('"point": "base/', '"point": "bare/', 1), "chart-depth-decode_rate.json"), "L2", "no point"
    ),
    "a twin that nobody knows": (lambda files: files.update({"extra.csv": b"a\n1\n"}), "L2", "nobody has checked it"),
    "a fact of the servers in a twin, as CSV": (page(lambda t: t.replace("AMD EPYC", "IBM EPYC", 1), "environment.csv"), "L2", "cpu.model: value"),
    "a fact of the servers in a twin, as JSON": (
        page(lambda t: t.replace('"cpu.cores", "value": "', '"cpu.cores", "value": "9', 1), "environment.json"), "L2", "value: says '92'"
    ),
    "a fact of the servers that is left out": (
        page(lambda t: "".join(t.splitlines(keepends=True)[:-1]), "environment.csv"), "L2", "facts of the servers"
    ),
    "k of a gate in a twin": (
        page(lambda t: re.sub(r'("identical_outputs": \d)', r"\g<1>9", t, count=1), "gates.json"), "L3", "identical_outputs"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("touch", "level", "words"), TOUCHED.values(), ids=TOUCHED)
def test_what_was_touched_is_found(touch: Callable[[dict[str, bytes]], None], level: str, words: str) -> None:
    """At its level, with words that say what was found."""
    summary, files = made("calm")
    files = dict(files)
    touch(files)
    found = walk(summary, files)
    assert any(words in text for text in found.failures[level]), found.failures


def test_letters_beyond_ascii_count() -> None:
    """Text of any script is compared letter by letter, not only looked for."""
    summary, files = made("hostile")
    for name in (n for n in files if n.endswith(".csv") and "\u05e9".encode() in files[n]):
        touched = {**files, name: files[name].replace("\u05e9".encode(), "\u05d0".encode(), 1)}
        found = walk(summary, touched)
        assert found.failures["L2"] or found.failures["L3"], name
    assert "\u05e9".encode() in files["points.csv"]


def test_every_digit_of_every_claim_counts() -> None:
    """Whichever claim of the page is changed by its last digit, it is found."""
    summary, files = made("calm")
    text = files["index.html"].decode()
    places = [i for i in range(len(text)) if text.startswith('<data value="', i)]
    for start in places[:: max(1, len(places) // 25)]:
        end = text.index('"', start + 13)
        digit = "3" if text[end - 1] != "3" else "4"
        forged = {**files, "index.html": (text[: end - 1] + digit + text[end:]).encode()}
        found = walk(summary, forged)
        assert found.failures["L2"] or found.failures["L3"]


@pytest.mark.parametrize(
    "pointer", ["", "x", "/points/-1", "/points/01", "/points/999999999999", "/points/0/id/0", "/~2"]
)
def test_a_pointer_that_leads_nowhere(pointer: str) -> None:
    """An error, whatever it is made of; never another number."""
    with pytest.raises(EvidenceError):
        pointed({"points": [{"id": "a"}]}, pointer)


def test_a_difference_is_told_with_its_place_and_its_level() -> None:
    """Names where entries have them; a count or a state is of identity, a value of numbers."""
    said = {"points": [{"id": "a", "value": 1.0, "k": 1}], "more": 1}
    again = {"points": [{"id": "a", "value": 2.0, "k": 2}], "less": 1}
    places = [place for place, _ in differences(said, again)]
    assert places == ["/less", "/more", "/points[a]/k", "/points[a]/value"]
    assert [level_of(place) for place in places] == ["L2", "L2", "L3", "L2"]
    assert len(differences(list(range(999)), [-1] * 999)) == 50
    assert differences(1, True) and not differences([1], (1,))


def test_no_more_is_kept_than_people_read() -> None:
    """A thousand failures are counted, not held."""
    found = Found()
    for number in range(1000):
        found.fail("L2", str(number))
    assert len(found.failures["L2"]) == 200 and found.more["L2"] == 800


def test_twins_in_json_read_back_as_they_are() -> None:
    """The sample's own twins hold numbers, so that the walk compares some."""
    _, files = made("calm")
    rows = json.loads(files["points.json"])["points"]
    assert any(isinstance(row["value_in_unit"], float) for row in rows)
