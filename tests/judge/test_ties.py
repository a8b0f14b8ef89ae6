"""Tie margins out of raw answers, and where they are held against the places that broke."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.plan_kit import arm, ids_of, ladder, plan, record, request, rung_record, summary_of
from rungproof.judge.margins import margin_reasons, margins_of
from rungproof.records import raw
from rungproof.records.codec import digest
from rungproof.records.plan import Item


def answer(body: bytes) -> raw.Request:
    """One response with this body."""
    data = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    return raw.Request("probe-00", "p00", "{}", 0, 0, 0, "framed", 9, "", ((1, len(data)),), data.decode("latin-1"))


def event(tops: object) -> bytes:
    """One event with these top log probabilities."""
    return (
        b"data: " + json.dumps({"choices": [{"token_ids": [1], "logprobs": {"top_logprobs": tops}}]}).encode() + b"\n\n"
    )


def test_margins_are_differences_of_the_two_highest() -> None:
    """Of two or three alternatives, several positions an event; a position with one alternative has none."""
    body = (
        event([{"a": -0.1, "b": -2.1}, {"a": -3.0, "b": -0.5, "c": -0.75}])
        + event([{"a": -0.1}])
        + event(None)
        + b"data: [DONE]\n\n"
    )
    found = margins_of(answer(body))
    assert found == (pytest.approx(2.0), pytest.approx(0.25), None)


@given(st.binary(max_size=300))
def test_any_bytes_have_margins_or_none(body: bytes) -> None:
    """Nothing that a server sends is an error here."""
    assert isinstance(margins_of(answer(b"data: " + body + b"\n\n")), tuple)


HOSTILE = [[], {"a": 1}, [1, "x"], [{"a": "x", "b": None}], [{"a": True, "b": False}], {"a": {"b": 1}}, "x", [None]]


@pytest.mark.parametrize("tops", HOSTILE)
def test_odd_log_probabilities_are_no_margin(tops: object) -> None:
    """Wrong types give no margin, never a number."""
    assert set(margins_of(answer(event(tops)))) <= {None}


def test_a_probe_without_a_margin_a_token_says_so() -> None:
    """Fewer margins than tokens, or a position without one, is a reason; all there is none."""
    whole = replace(request("probe-00", "p00", (1, 2, 3)), margins=(1.0, 2.0, 3.0))
    assert margin_reasons([whole]) == []
    assert [
        r.what for r in margin_reasons([replace(whole, margins=(1.0,)), replace(whole, margins=(1.0, None, 2.0))])
    ] == ["no margins"] * 2


def probe(seat: str, prompts: int) -> Item:
    """A tie probe of the ladder's suite."""
    spec = {"kind": "probe", "suite": "s", "suite_sha256": "0", "prompts": prompts, "tokens": 128}
    return Item(*seat.split("."), "probe", "margins", spec, digest(spec), {"window": 100})


def test_the_margin_where_an_output_broke_stands_beside_the_usual_ones() -> None:
    """By prompt and position; a probe whose own answer left the oracle before knows nothing of that place, and says so."""
    rung, look = ladder("base.a", 4), probe("base.a", 4)
    margins = tuple(0.001 if i == 40 else 2.0 for i in range(128))
    requests = [replace(request(f"probe-{i:02d}", f"p{i:02d}", ids_of(f"p{i:02d}")), margins=margins) for i in range(4)]
    requests[3] = replace(requests[3], token_ids=(1, *requests[3].token_ids[1:]))
    of = plan([arm("base")], [rung, look])
    summary = summary_of(of, [rung_record(rung, [(2, 200.0), (4, 190.0)]), record(look, requests)])
    assert [p.workload for p in summary.points] == ["ladder"]
    known, unknown = summary.margins
    assert (known.site, known.batch, known.index, known.margin, known.usual, known.closer) == (
        "p02",
        "pass-1",
        40,
        0.001,
        2.0,
        2 / 510,
    )
    assert (unknown.site, unknown.margin) == ("p03", None)
    assert "left the oracle before" in unknown.note
