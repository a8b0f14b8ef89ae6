"""Figures that others published, through the code that makes our pages: from their counts and times, their points and no others."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from judge.plan_kit import arm, ids_of, ladder, plan, record, request, rung_record, strict, summary_of
from publish.parsed import Page
from rungproof.judge.outcome import result_of
from rungproof.judge.rates import decode_rate
from rungproof.publish.pages.render import html
from rungproof.publish.tables import read_table, write_tables
from rungproof.records import raw
from rungproof.records.summary import Summary

DATA = Path(__file__).parents[1] / "judge/data"
ARMS = {"no_speculation": arm("no_speculation"), "draft_depth_3": arm("draft_depth_3", "no_speculation")}


def read(name: str) -> dict[str, Any]:
    """One file of published figures; it names its source."""
    made = json.loads((DATA / name).read_text(encoding="utf-8"))
    assert isinstance(made, dict) and made["source"]
    return made


@pytest.fixture(scope="module")
def ladders() -> tuple[dict[str, Any], Summary]:
    """The published ladders, and the summary of a campaign whose passes had exactly their counts and aggregates."""
    published = read("ladder_v1.json")
    items, records = [], []
    for name, rows in published["ladders"].items():
        for c in sorted({row["concurrency"] for row in rows}):
            passes = sorted((row for row in rows if row["concurrency"] == c), key=lambda row: row["pass"])
            assert all(row["requests"] == c for row in passes)
            items.append(ladder(f"{name}.a", c))
            records.append(rung_record(items[-1], [(row["exact"], row["aggregate_tok_s"]) for row in passes]))
    return published, summary_of(plan(list(ARMS.values()), items), records)


def test_the_published_ladders_come_out_exactly(ladders: tuple[dict[str, Any], Summary]) -> None:
    """Exact in both passes, the second shown: the same points with the same values, the same rungs withheld with the same counts."""
    published, summary = ladders
    assert (
        sum(len(e["points"]) + len(e["withheld"]) for e in published["expected"].values()) == len(summary.points) == 14
    )
    for name, expected in published["expected"].items():
        mine = [p for p in summary.points if p.arm == name]
        assert {f"{p.x:.0f}": p.value for p in mine if p.state == "qualified"} == expected["points"]
        withheld = {
            f"{p.x:.0f}": {"value": p.value, "exact": p.k, "requests": p.n} for p in mine if p.state != "qualified"
        }
        assert withheld == expected["withheld"]
        assert {p.state for p in mine} == {"qualified", "withheld"}


def test_the_page_shows_those_points_and_every_pass(ladders: tuple[dict[str, Any], Summary]) -> None:
    """Claims are the published points; a withheld rung stands with value and count; both passes of each rung are in view, and in the tables."""
    published, summary = ladders
    page = Page(html(summary))
    claimed = {
        (e.attributes["data-claim"], e.attributes["value"])
        for e in page.all("data")
        if not e.attributes["data-claim"].startswith("/") and "data-state" not in e.attributes
    }
    assert claimed == {
        (f"{name}/ladder/c{c}/aggregate", repr(value))
        for name, e in published["expected"].items()
        for c, value in e["points"].items()
    }
    rows = " ".join(row.text for row in page.within(page.section("unclaimed"), "tr"))
    assert all(text in rows for text in ("1725.1", "63 of 64", "1147.4", "30 of 32", "1201.0", "55 of 64"))
    curves = page.section("curves").text
    assert "1: 1726.8 64/64; 2: 1725.1 63/64 (shown)" in curves
    assert "exact in each of 2 passes; the last is shown" in curves
    assert page.all("title")[0].text.startswith("3 of ")


def test_every_pass_is_in_the_tables(ladders: tuple[dict[str, Any], Summary], tmp_path: Path) -> None:
    """One row a pass with its own aggregate and count, as published."""
    published, summary = ladders
    table = read_table(write_tables(summary, (), tmp_path)["passes"], "passes")
    made = {
        (r.arm, int(r["item"][1:]), r["pass"]): (r.identical_outputs, r.compared_outputs, r.aggregate_tok_s)
        for _, r in table.iterrows()
    }
    assert made == {
        (name, row["concurrency"], row["pass"]): (row["exact"], row["requests"], row["aggregate_tok_s"])
        for name, rows in published["ladders"].items()
        for row in rows
    }
    assert table.groupby("point").shown.sum().eq(1).all()


def test_the_published_strict_headline_comes_out_to_the_last_digit() -> None:
    """The window rate of the raw row and the class medians give the published headline as the page's own value, digit for digit."""
    published = read("strict_request.json")
    exact = [Fraction(offset) * 10**9 for offset in published["token_offsets_s"]]
    rates: dict[str, list[float]] = {}
    for name, middle in published["class_medians"].items():
        off = {1: [0.0], 2: [0.0, 0.0], 3: [-30.0, 0.0, 7.0]}[published["class_prompt_counts"][name]]
        rates[name] = [middle + one for one in off]
    measured = decode_rate(exact, 100)
    assert measured == published["expected"]["decode_rate_99_intervals"]
    rates["operations"][1] = measured
    classes = {f"{name}-{i}": name for name, of in rates.items() for i in range(len(of))}
    items = [strict("base.a", classes), strict("base.b", classes)]
    requests = [request("strict-00", key, ids_of(key), rates[name][int(key[-1])]) for key, name in classes.items()]
    summary = summary_of(plan([arm("base")], items), [record(item, requests) for item in items])
    (headline,) = summary.headlines
    assert headline.state == "qualified"
    assert headline.center == published["expected_class_balanced_median"]
    page = Page(html(summary))
    values = [e.attributes["value"] for e in page.within(page.section("headline"), "data")]
    assert (
        values.count(repr(published["expected_class_balanced_median"])) == 5
    )  # centre, both servers, both ends of their range


def test_the_published_row_as_raw_bytes() -> None:
    """As a stream with whole-nanosecond stamps, several tokens an event, the row gives the published rate and time to first token."""
    published = read("strict_request.json")
    stamps = [round(Fraction(offset) * 10**9) for offset in published["token_offsets_s"]]
    events: dict[int, list[int]] = {}
    for number, at in enumerate(stamps):
        events.setdefault(at, []).append(1000 + number)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    pieces = [(stamps[0], head)]
    for at, ids in events.items():
        choice = {
            "index": 0,
            "text": "x",
            "token_ids": ids,
            "finish_reason": "length" if ids[-1] == 1000 + len(stamps) - 1 else None,
        }
        pieces.append((at, b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"))
    usage = {"prompt_tokens": 9, "completion_tokens": len(stamps), "total_tokens": 9 + len(stamps)}
    pieces.append(
        (stamps[-1], b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\ndata: [DONE]\n\n")
    )
    body = json.dumps({"stream": True})
    data = b"".join(piece for _, piece in pieces).decode("latin-1")
    chunks = tuple((at, len(piece)) for at, piece in pieces)
    line = raw.Request("strict-00", "ops-1", body, -1, 0, 1, "eof", stamps[-1] + 1, "", chunks, data)
    result = result_of(line, window=100, tokens=512, exact_length=False, prompt_tokens=None)
    assert (result.state, result.reasons, len(result.token_ids)) == ("complete", (), len(stamps))
    assert result.decode_rate == pytest.approx(published["expected"]["decode_rate_99_intervals"], rel=1e-11)
    assert result.ttft_ns == round(published["expected"]["ttft_s"] * 1e9)
