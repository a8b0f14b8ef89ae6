"""What a reader may rely on in a page: the same bytes, every number with its proof, everything that is not claimed in view."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest

from publish.parsed import Page
from publish.sample import MORE_DEPTHS, MORE_RUNGS, calm, empty, filled, large, sample
from rungproof.publish.pages import render
from rungproof.publish.pages.render import html, pages
from rungproof.publish.pages.text import visible
from rungproof.records.errors import EvidenceError
from rungproof.records.formats import Knob
from rungproof.records.standing import Standing
from rungproof.records.summary import Summary


def squeezed(text: str) -> str:
    """Text with runs of white space as one space."""
    return re.sub(r"\s+", " ", text)


def test_the_same_summary_gives_the_same_bytes(tmp_path: Path) -> None:
    """Rendering twice gives the same pages, twins and badge, byte for byte, and nothing else."""
    first, second = render(sample(), tmp_path / "one"), render(sample(), tmp_path / "two")
    names = [path.name for path in first]
    assert names[:4] == ["index.html", "numbers.html", "evidence.html", "environment.html"]
    assert names[-1] == "badge.svg"
    assert {name.rpartition(".")[2] for name in names[4:-1]} == {"csv", "json", "parquet"}
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == sorted(path.name for path in first)


def test_a_large_campaign_stays_light() -> None:
    """A campaign of 6 servers and 38 points has a page under 150 kB without its links to raw files; one of 60 points, under 190 kB."""
    summary = large()
    assert len(summary.sessions) == 6
    assert len(summary.points) >= 3 * (len(MORE_DEPTHS) + len(MORE_RUNGS)) == 60
    weights = [len(re.sub(r'href="\.\./[^"]*"', "", html(made)).encode()) for made in (calm(sample()), summary)]
    assert weights[0] < 150_000
    assert weights[1] < 190_000


def test_every_qualified_number_is_a_claim_linked_to_its_evidence() -> None:
    """Each qualified point stands as <data> with its full value and id, inside a link to one of its own files."""
    summary = sample()
    page = Page(html(summary))
    qualified = [point for point in summary.points if point.state == "qualified"]
    assert qualified
    for point in qualified:
        shown = page.all("data", **{"data-claim": point.id})
        assert shown, point.id
        assert repr(point.value) in [data.attributes["value"] for data in shown]
        for data in shown:
            link = data.inside("a")
            assert link is not None
            assert unquote(link.attributes["href"]).removeprefix("../") in {
                *point.evidence,
                *(row.raw for row in summary.history),
            }


def test_the_value_of_a_point_that_is_no_result_says_its_state() -> None:
    """Wherever the value of a point that is not qualified stands, in tables and charts alike, its state stands on the same element."""
    summary = sample()
    states = {point.id: point.state for point in summary.points}
    seen = [e for e in Page(html(summary)).elements if e.attributes.get("data-claim") in states]
    assert {states[e.attributes["data-claim"]] for e in seen} == {"qualified", "withheld", "invalid"}
    for e in seen:
        assert e.attributes.get("data-state", "qualified") == states[e.attributes["data-claim"]]


def test_what_is_not_claimed_is_shown_with_value_count_and_reason() -> None:
    """Every withheld, invalid, failed, skipped and missing point has a row with state, value, k/n, reasons and first divergence."""
    summary = sample()
    page = Page(html(summary))
    rows = page.within(page.within(page.section("unclaimed"), "table")[0], "tr")[1:]
    others = [point for point in summary.points if point.state != "qualified"]
    assert {point.state for point in others} == {"withheld", "invalid", "failed", "skipped", "missing"}
    assert len(rows) == len(others)
    for point in others:
        row = next(r for r in rows if f"{point.workload} {point.item}," in r.text and point.arm in r.text)
        assert point.state in row.text
        assert visible(point.reasons[0]) in row.text
        if point.value is not None:
            assert page.within(row, "data")[0].attributes["value"] == repr(point.value)
            assert f"{point.k} of {point.n}" in row.text
    withheld = next(r for r in rows if "ladder c2" in r.text)
    assert "token 42 was token id 1203, the oracle has the end" in squeezed(withheld.text)


def test_a_lossless_claim_is_only_made_where_the_campaign_makes_it() -> None:
    """Without a lossless claim the page says so in words, near its top, and names the gates that were not passed."""
    assert "No lossless claim is made" not in html(sample())
    page = Page(html(replace(sample(), lossless_claim=False)))
    header = page.all("header")[0].text
    assert "No lossless claim is made." in header
    assert "11 of 12 identical" in header


def test_a_simulated_campaign_cannot_be_mistaken() -> None:
    """Where the server was simulated, banner, title, every chart and both twins say that nothing was measured."""
    assert "Simulated" not in html(sample())
    page = Page(html(replace(sample(), simulated=True)))
    assert "Simulated. Nothing was measured." in page.all("header")[0].text
    assert page.all("title")[0].text.startswith("Simulated: ")
    charts = [e for e in page.all("svg") if e.attributes.get("role") == "group"]
    assert len(charts) == 9
    assert all("simulated" in chart.text.lower() for chart in charts)
    others = pages(replace(sample(), simulated=True), Standing())
    assert all("Nothing was measured." in page for page in others.values())


def test_what_is_missing_is_said() -> None:
    """Each line of the summary's list of what is missing stands in its own section."""
    page = Page(html(sample()))
    assert len(page.within(page.section("missing"), "li")) == len(sample().missing) == 2


def test_a_campaign_without_points_renders_and_says_so() -> None:
    """Before the first session there is a page; it says that nothing is qualified, draws nothing and claims nothing."""
    page = Page(html(empty()))
    assert page.faults == []
    assert "Nothing is qualified." in page.section("headline").text
    assert "There is no point at all." in page.section("unclaimed").text
    assert page.all("svg") == []
    assert {e.attributes["value"] for e in page.all("data")} == {"0"}  # the tally of states alone


@pytest.mark.parametrize(
    "summary", [sample(), empty(), large(), replace(sample(), simulated=True, lossless_claim=False)]
)
def test_every_link_leads_somewhere(summary: Summary, tmp_path: Path) -> None:
    """Each # link has its element, ids are unique, and every other link is relative: to a file made with it, or into the campaign's folder."""
    made = {f"{name}.html": Page(text) for name, text in pages(summary, Standing()).items()}
    ids = {name: [e.attributes["id"] for e in page.elements if "id" in e.attributes] for name, page in made.items()}
    files = {path.name for path in render(summary, tmp_path)}
    for name, page in made.items():
        assert len(ids[name]) == len(set(ids[name]))
        links = [e.attributes["href"] for e in page.elements if "href" in e.attributes]
        assert len(links) > 4
        for href in links:
            file, _, place = href.partition("#")
            if file.startswith("../"):
                assert re.match(r"\.\./((sessions|accepted|verdicts)/[^:?#]+|summary\.json|plan\.json)$", href), href
                assert ".." not in href.removeprefix("../")
            else:
                assert not file or file in files, href
                assert not place or place in ids[file or name], href
        for attribute in ("aria-labelledby", "aria-describedby", "for"):
            for element in page.elements:
                assert all(part in ids[name] for part in element.attributes.get(attribute, "").split()), element


def test_headings_are_in_order_and_tables_have_headers() -> None:
    """One h1, no heading level is skipped, every table has a caption, every th a scope, every scrolling part a name and focus."""
    for made in pages(sample(), Standing()).values():
        check_headings(Page(made))


def check_headings(page: Page) -> None:
    levels = [int(e.tag[1]) for e in page.elements if re.fullmatch(r"h[1-6]", e.tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    tables = page.all("table")
    assert len(tables) >= 2
    for table in tables:
        assert page.within(table, "caption")[0].text.strip()
    assert all(e.attributes.get("scope") for e in page.all("th"))
    scrolls = [e for e in page.elements if "scroll" in e.attributes.get("class", "").split()]
    assert len(scrolls) >= len(tables)
    assert all(
        e.attributes["tabindex"] == "0" and (e.attributes.get("aria-label") or e.attributes.get("aria-labelledby"))
        for e in scrolls
    )
    assert page.all("html")[0].attributes["lang"] == "en"
    assert page.all("a", **{"class": "skip"})[0].attributes["href"] == "#main"


def test_bounds_are_words_and_never_overstated() -> None:
    """12 of 12 supports at least 77.9 %: the exact bound is rounded down."""
    page = Page(pages(sample(), Standing())["evidence"])
    assert "12 of 12, at least 77.9\u00a0%" in page.section("verdicts").text


def test_an_item_measured_again_shows_both_counts() -> None:
    """Where an item has two attempts, the history names both sessions with both counts."""
    made = pages(sample(), Standing())
    for page, section in (("evidence", "history"), ("index", "changes")):
        text = squeezed(Page(made[page]).section(section).text)
        assert re.search(r"all attempts: r001\.base\.a: \d+ of \d+; r002\.base\.a: 15 of 16", text)


def test_equal_knobs_are_said_once_an_arm() -> None:
    """A knob on which all servers of an arm agree has one row; one that differs has a row a server, naming it."""
    page = Page(pages(sample(), Standing())["environment"])
    rows = [row.text for row in page.within(page.section("knobs"), "tr")]
    assert sum("--dtype" in row for row in rows) == 3
    assert sum("VLLM_CPU_KVCACHE_SPACE" in row for row in rows) == 6
    assert any("only r001.base.b" in row and "not shown" in row for row in rows)


def test_the_arms_are_told_apart_by_what_they_ask_for() -> None:
    """A knob that all arms ask for alike is not named among what sets them apart; one of a single arm is, once, whatever its sources."""
    sessions = tuple(
        replace(s, knobs=(*s.knobs, *(Knob("--draft", "3", "3", source, True) for source in ("cmdline", "log"))))
        if s.arm == "draft3"
        else s
        for s in sample().sessions
    )
    page = Page(html(replace(sample(), sessions=sessions)))
    rows = {row.text: row for row in page.within(page.section("configuration"), "tr")}
    (mine,) = [text for text in rows if text.startswith("draft3") and "--draft" in text]
    assert mine.count("--draft") == 1
    assert "--dtype" not in mine


def test_a_qualified_number_without_evidence_is_refused(tmp_path: Path) -> None:
    """No page is written over a qualified point whose evidence is missing or lies outside the campaign's folder."""
    summary = sample()
    for evidence in ((), ("../../etc/passwd",), ("/etc/passwd",)):
        bare = replace(summary.points[0], evidence=evidence)
        with pytest.raises(EvidenceError, match="qualified, but no evidence"):
            render(replace(summary, points=(bare,)), tmp_path)
    with pytest.raises(EvidenceError, match="qualified without a value"):
        render(replace(summary, points=(replace(summary.points[0], value=None),)), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_was_not_sound_is_told_with_what_happened() -> None:
    """Under what is not claimed stands each server that failed or was not sound, with its reasons and its record; sound ones do not."""
    sound = Page(html(sample()))
    assert len(sound.within(sound.section("unclaimed"), "table")) == 1
    bad = replace(
        sample().sessions[0],
        status="failed",
        sound=False,
        reasons=("exit code 3 before it was ready",),
        canary_before="no_server",
    )
    page = Page(html(replace(sample(), sessions=(bad, *sample().sessions[1:]))))
    table = page.within(page.section("unclaimed"), "table")[1]
    assert "exit code 3 before it was ready" in table.text and "before: no_server" in table.text
    assert [a.attributes["href"] for a in page.within(table, "a")] == ["../sessions/r001.base.a/server.json"]
    assert len(page.within(table, "tr")) == 2


def test_the_plan_says_when_it_was_registered_and_when_measuring_ends() -> None:
    """With a registration for every server its first time stands; where one has none, that server is named. Stopping rules are sentences."""
    assert "is not recorded for r001.base.a" in squeezed(Page(html(sample())).section("plan").text)
    sessions = tuple(replace(s, registered=f"2026-03-01T09:0{i}:00Z") for i, s in enumerate(sample().sessions))
    rules = {**sample().rules, "stopping": {"item": "An item is measured until it has one sound record."}}
    plan = squeezed(Page(html(replace(sample(), sessions=sessions, rules=rules))).section("plan").text)
    assert "registered before the first request of each call; first at 2026-03-01T09:00:00Z" in plan
    assert "An item is measured until it has one sound record." in plan
    assert "stopping.item" not in plan


def test_the_note_of_a_lane_stands_at_each_of_its_figures_and_only_there() -> None:
    """What a reader must know of a lane's numbers is said where its curves are, with the arms that it holds for."""
    summary = replace(sample(), points=tuple(p for p in sample().points if p.arm != "draft3" or p.workload == "depth"))
    parts = html(summary).split("<h3 id=")
    depth = next(part for part in parts if part.startswith('"fig-depth'))
    ladder = next(part for part in parts if part.startswith('"fig-ladder'))
    assert "Note on <bdi>draft3</bdi>" in depth
    assert "Random weights" in depth
    assert "Random weights" not in ladder


def test_the_page_says_how_many_drafts_were_accepted_and_where_none_was() -> None:
    """Accepted of drafted tokens an arm, the depths without any, and an arm whose drafts were never right says so."""
    curves = squeezed(Page(html(sample())).section("curves").text)
    assert "draft3: 93 of 360 drafted tokens were accepted (25.8 %); none at 512, where identity says nothing" in curves
    assert "draft3: 124 of 360 drafted tokens were accepted (34.4 %); at least one at every point." in curves
    assert curves.count("drafted tokens were accepted") == 2
    assert "Fewest distinct token ids of any answer: base 61, draft3 61, bf16 61." in curves
    never = tuple(
        replace(p, detail={**p.detail, "draft_tokens": 90.0, "accepted_tokens": 0.0}) for p in sample().points
    )
    said = squeezed(Page(html(filled(replace(sample(), points=never)))).section("curves").text)
    assert "draft3: none of 360 drafted tokens was accepted, so its identity says nothing about drafts." in said


def test_a_weak_canary_is_called_weak_with_the_arms_that_it_looked_at() -> None:
    """The suite's own words on what it cannot show stand above its results; a suite that no arm uses is not named."""
    text = squeezed(Page(html(sample())).section("canaries").text)
    assert "Weak canary on draft3 (canary-tiny). asks for no sense" in text
    other = {"id": "canary-v9", "kind": "canary", "weak": "nobody uses it"}
    assert "nobody uses it" not in Page(html(replace(sample(), suites=(other,)))).section("canaries").text


def test_servers_that_were_asked_different_checks_share_no_table() -> None:
    """A lane with a canary of its own has tables of its own, so that no check reads as left out."""
    page = Page(pages(sample(), Standing())["evidence"])
    assert len(page.within(page.section("asked"), "table")) == 2
    asked = tuple(replace(r, name=f"known-{r.name}") if ".draft3." in r.session else r for r in sample().canaries)
    page = Page(pages(replace(sample(), canaries=asked), Standing())["evidence"])
    tables = page.within(page.section("asked"), "table")
    assert len(tables) == 4
    assert [("known-" in table.text, "repeat" in table.text) for table in tables[:2]] == [(False, True)] * 2
    assert all("known-repeat" in table.text for table in tables[2:])
    assert "r001.draft3.a" in tables[3].text
    assert "r001.base.a" not in tables[3].text


def test_two_depth_workloads_are_two_figures() -> None:
    """A second depth workload has charts and a table of its own; its points never join the lines of the first."""
    more = tuple(
        replace(p, id=p.id.replace("/depth/", "/grid/"), workload="grid")
        for p in sample().points
        if p.workload == "depth"
    )
    page = Page(html(replace(sample(), points=(*sample().points, *more))))
    titles = [e.text for e in page.all("h3") if e.attributes.get("id", "").startswith("fig-")]
    assert titles == [
        "Decode rate over context depth",
        "Time to first token over context depth",
        "Decode rate over context depth: grid",
        "Aggregate rate over users at once",
    ]
    charts = [e for e in page.all("svg") if e.attributes.get("viewbox") == "0 0 720 400"]
    assert len(charts) == 4
    claims = [
        {e.attributes["data-claim"] for e in page.within(chart, "a") if "data-claim" in e.attributes}
        for chart in charts
    ]
    assert all("/depth/" in claim for claim in claims[0])
    assert claims[2] and all("/grid/" in claim for claim in claims[2])
