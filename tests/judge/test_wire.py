"""The wire parser: the same bytes mean the same, however they arrive, and any bytes mean something."""

import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.wire_samples import IDS, WORDS, chat, chunked, closing, event, head, piece, pieces, stream, usage
from judge.wire_scenarios import SCENARIOS
from rungproof.judge.http1 import MAX_HEAD, MAX_RESPONSE, Framing
from rungproof.judge.meaning import MAX_NOTES
from rungproof.judge.sse import split
from rungproof.judge.wire import Response, Usage, parse_response

SMALL = {name: one for name, one in SCENARIOS.items() if len(one.data) < 8_000}
QUICK = settings(max_examples=100)


def by_byte(data: bytes) -> Response:
    """Parsed from one-byte chunks, each stamped with its offset: an event's stamp is its completing byte's offset."""
    return parse_response([(i, data[i : i + 1]) for i in range(len(data))])


def same_but_for_stamps(one: Response, other: Response) -> None:
    """Equal in everything but arrival."""
    assert [(e.token_ids, e.text) for e in one.events] == [(e.token_ids, e.text) for e in other.events]
    for name in ("status", "headers", "usage", "finish_reason", "done", "error", "complete_framing", "notes", "text"):
        assert getattr(one, name) == getattr(other, name), name
    assert (one.streamed, one.until_close, one.problem) == (other.streamed, other.until_close, other.problem)


def check_cuts(data: bytes, cuts: list[int], reference: Response) -> None:
    """Any segmentation gives the reference's events, each stamped as the chunk that carries its completing byte."""
    bounds = [0, *sorted(cuts), len(data)]
    chunks = [(end, data[start:end]) for start, end in pairwise(bounds)]
    found = parse_response(chunks)
    same_but_for_stamps(found, reference)
    for event_found, event_reference in zip(found.events, reference.events, strict=True):
        assert event_found.at_ns == min(end for end in bounds if end > event_reference.at_ns)


@pytest.mark.parametrize("name", SMALL)
def test_a_cut_at_any_byte_changes_nothing(name: str) -> None:
    """However a server or the network cuts a response in two, its events and their arrivals are the same."""
    data = SMALL[name].data
    reference = by_byte(data)
    for cut in range(len(data) + 1):
        check_cuts(data, [cut], reference)


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in SMALL])
def test_large_events_have_no_limit(name: str) -> None:
    """An event of hundreds of kilobytes is read as any other, wherever it is cut."""
    data = SCENARIOS[name].data
    reference = parse_response([(len(data), data)])
    assert tuple(i for e in reference.events for i in e.token_ids) == IDS[: len(reference.events)] or "S40" in name
    rng = random.Random(7)
    found = parse_response([(i, data[i : i + 65_536]) for i in range(0, len(data), 65_536)])
    same_but_for_stamps(found, reference)
    for _ in range(5):
        cuts = sorted(rng.randrange(len(data)) for _ in range(9))
        bounds = [0, *cuts, len(data)]
        same_but_for_stamps(parse_response([(e, data[s:e]) for s, e in pairwise(bounds)]), reference)


TEXTS = st.text(max_size=8)
ID_LISTS = st.lists(st.integers(0, 200_000), max_size=4)
VALUES = st.one_of(
    st.builds(piece, ID_LISTS, TEXTS),
    st.builds(lambda ids, text: chat({"content": text}, ids), ID_LISTS, TEXTS),
    st.builds(lambda ids, text: chat({"reasoning": text}, ids), ID_LISTS, TEXTS),
    st.builds(lambda n: usage(n), st.integers(0, 99)),
)
FILLERS = st.sampled_from([b"", b": ping\n\n", b"\n", b"\r\n\r\n", b"id: 3\nretry: 5\n\n", b":\r\r", b"data\n\n"])


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[tuple[tuple[int, ...], str]]]:
    """A stream of events in any dress, and the tokens and texts that it carries."""
    values = draw(st.lists(VALUES, max_size=6))
    parts = []
    for value in values:
        end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
        prefix = draw(st.sampled_from(["data:", "data: ", "event: message\ndata: ", ": hi\ndata: "]))
        parts += [draw(FILLERS), event(value, end, prefix)]
    parts.append(event("[DONE]"))
    body = b"".join(parts)
    if draw(st.booleans()):
        sizes = draw(st.lists(st.integers(1, 90), min_size=1, max_size=5))
        cut = 0
        split_parts: list[bytes] = []
        while cut < len(body):
            size = sizes[len(split_parts) % len(sizes)]
            split_parts.append(body[cut : cut + size])
            cut += size
        data = head("200 OK", "Transfer-Encoding: chunked") + chunked(split_parts)
    else:
        data = draw(st.sampled_from([closing([body]), head("200 OK", f"Content-Length: {len(body)}") + body]))
    carried = []
    for value in values:
        for choice in value["choices"]:
            delta = choice.get("delta", {})
            text = choice.get("text") or delta.get("content") or delta.get("reasoning") or ""
            if text or choice["token_ids"]:
                carried.append((tuple(choice["token_ids"]), text))
    return data, carried


@QUICK
@given(st.data(), streams())
def test_any_events_in_any_segmentation(
    data: st.DataObject, made: tuple[bytes, list[tuple[tuple[int, ...], str]]]
) -> None:
    """Whatever events a server sends, in whatever dress and pieces: exactly those events come out."""
    sent, carried = made
    reference = by_byte(sent)
    assert [(e.token_ids, e.text) for e in reference.events] == carried
    assert reference.text == "".join(text for _, text in carried)
    assert reference.done
    assert reference.error is None
    assert reference.complete_framing
    check_cuts(sent, data.draw(st.lists(st.integers(0, len(sent)), max_size=12)), reference)


@settings(QUICK, max_examples=250)
@given(st.data())
def test_any_bytes_give_an_answer(data: st.DataObject) -> None:
    """No bytes make the parser raise or depend on how they were cut, and damage never invents a token."""
    base = SMALL[data.draw(st.sampled_from(sorted(SMALL)))].data
    kind = data.draw(st.sampled_from(["noise", "edit", "body", "frames"]))
    if kind == "noise":
        sent = data.draw(st.binary(max_size=200))
    elif kind == "edit":
        at = data.draw(st.integers(0, len(base)))
        sent = base[:at] + data.draw(st.binary(max_size=6)) + base[at + data.draw(st.integers(0, 9)) :]
    elif kind == "body":
        sent = closing([data.draw(st.binary(max_size=120))])
    else:
        words = st.sampled_from(
            [b"data: ", b"\n", b"\r", b"{", b"}", b'"error":', b"[DONE]", b"null", b"event: error", b"1"]
        )
        sent = closing([b"".join(data.draw(st.lists(words, max_size=14)))])
    reference = by_byte(sent)
    cuts = data.draw(st.lists(st.integers(0, len(sent)), max_size=6))
    check_cuts(sent, cuts, reference)
    if kind in ("noise", "body", "frames"):
        assert not [e for e in reference.events if e.token_ids]


def test_what_a_good_stream_says() -> None:
    """Text, ids, usage, ending and headers of a stream are all there."""
    found = parse_response([(5, SCENARIOS["S00 plain"].data)])
    assert found.text == "".join(WORDS)
    assert tuple(e.token_ids for e in found.events) == tuple((i,) for i in IDS)
    assert found.usage == Usage(7, 5, None)
    assert (found.status, found.finish_reason, found.done, found.error, found.notes) == (200, "length", True, None, ())
    assert found.headers["transfer-encoding"] == "chunked"


def test_first_token_is_stamped_not_the_role() -> None:
    """A role-only or empty event that comes early is never taken for the first token."""
    first = event(chat({"role": "assistant", "content": ""}))
    second = event(chat({"content": "x"}, [4]))
    found = parse_response([(1, closing([])), (2, first), (900, second)])
    assert [(e.at_ns, e.token_ids) for e in found.events] == [(900, (4,))]


def test_reasoning_is_text_and_counts_once() -> None:
    """Tokens of a reasoning channel count, and a channel that is sent under two names is not doubled."""
    found = parse_response([(1, SCENARIOS["S28 reasoning"].data)])
    assert found.text == "hmsoyes!"
    assert len(found.events) == 4


def test_cached_tokens_are_unknown_unless_said() -> None:
    """A server that does not report cached tokens is not taken to have none."""
    assert parse_response([(1, SCENARIOS["S00 plain"].data)]).usage == Usage(7, 5, None)
    assert parse_response([(1, SCENARIOS["S44 cached"].data)]).usage == Usage(7, 5, 3)
    zero = stream([*pieces(), usage(prompt_tokens_details={"cached_tokens": 0}), "[DONE]"])
    assert parse_response([(1, zero)]).usage == Usage(7, 5, 0)


def test_an_event_is_complete_at_its_last_needed_byte() -> None:
    """An event that ends in CR LF CR LF has arrived with its last CR: a late LF does not delay it."""
    found = parse_response([(1, closing([])), (2, event(piece([4], "x"), "\r\n")[:-1]), (900, b"\n")])
    assert [(e.at_ns, e.token_ids) for e in found.events] == [(2, (4,))]


def test_lines_are_fields_of_the_standard() -> None:
    """One space after the colon is the field's, all others are the data's; lines join, comments and ids go."""
    found = split(b"\xef\xbb\xbfdata:  a \r\ndata\ndata:b\r: c\rid: 1\n\nevent: e\ndata: d")
    assert [(f.kind, f.data, f.whole) for f in found.frames] == [(b"", b" a \n\nb", True), (b"e", b"d", False)]
    assert (found.strays, found.cut) == ((), b"")
    found = split(b"what: x\n\nbr")
    assert (found.frames, found.strays, found.cut) == ((), (b"what: x",), b"br")


def test_harmless_oddities_are_noted() -> None:
    """What is unusual but harms nothing is kept for the reader, within a bound."""
    odd = [{"choices": [{"text": "x"}]}, *pieces(), piece([9], "y"), {"ping": 1}, "[DONE]"]
    found = parse_response([(1, stream(odd))])
    assert found.error is None
    assert found.notes[:2] == ("text came without token ids", "output came after the finish reason")
    assert "without choices" in found.notes[2]
    assert len(parse_response([(1, stream([{"ping": 1}] * 99))]).notes) == MAX_NOTES


def test_tail_without_blank_line_is_read_and_noted() -> None:
    """The last event counts even where its blank line is missing, and the reader can see that it was."""
    found = parse_response([(1, SCENARIOS["S19 no last blank line"].data)])
    assert found.done
    assert found.notes == ("the last event was not ended by a blank line",)


def test_lone_surrogates_do_not_reach_a_file() -> None:
    """Text that JSON can hold but UTF-8 cannot is replaced, and a pair split over two events is joined."""
    first = '{"choices":[{"text":"a\\ud83d","token_ids":[1]}]}'
    second = '{"choices":[{"text":"\\ude00b\\udc00","token_ids":[2]}]}'
    found = parse_response([(1, stream([first, second, "[DONE]"]))])
    assert found.text == "a\U0001f600b\ufffd"
    for one in found.events:
        one.text.encode()


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    """An event nested beyond what can be read fails the request alone."""
    found = parse_response([(1, closing([b'data: {"choices":' + b"[" * 100_000 + b"\n\n"]))])
    assert found.error is not None
    deep: dict[str, Any] = {"error": {"message": None}}
    for _ in range(50):
        deep = {"error": deep}
    assert parse_response([(1, closing([event(deep)]))]).error


def test_endless_head_is_refused() -> None:
    """A header section without end is refused at a bound instead of filling the memory."""
    for data in (b"HTTP/1.1 200 OK\r\nx: " + b"a" * MAX_HEAD, b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * MAX_HEAD):
        found = parse_response([(1, data)])
        assert found.problem is not None
        assert str(MAX_HEAD) in found.problem


def test_a_response_above_the_bound_is_refused() -> None:
    """More bytes than the bound end the response with a reason; as many as the bound do not."""
    top = head("200 OK")
    framing = Framing()
    framing.feed(top)
    framing.feed(bytes(MAX_RESPONSE - len(top)))
    assert framing.complete
    assert not framing.oversize
    framing.feed(b"x")
    assert framing.oversize
    assert framing.problem is not None
    assert not framing.complete


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"HTTP/2 200\r\n\r\n", "status line"),
        (b"HTTP/1.1 101 Switch\r\n\r\n", "101"),
        (head("200 OK", "transfer-encoding: gzip, chunked"), "transfer-encoding"),
        (head("200 OK", "content-length: -1"), "content-length"),
        (head("200 OK", "content-length: "), "content-length"),
        (head("200 OK", "no colon here"), "name: value"),
        (head("200 OK", "transfer-encoding: chunked") + b"2\r\nabcd\r\n", "end of a line"),
        (head("200 OK", "transfer-encoding: chunked") + b"-1\r\n", "hexadecimal"),
    ],
)
def test_damaged_framing_says_what_was_found(data: bytes, problem: str) -> None:
    """A response that breaks HTTP is named as such; nothing is guessed from it."""
    found = parse_response([(1, data)])
    assert found.problem is not None
    assert problem in found.problem
    assert not found.complete_framing


def test_equal_lengths_folded_headers_and_no_content() -> None:
    """Harmless oddities of HTTP are read: a length said twice, folded fields, lone line feeds, status 204."""
    found = parse_response([(1, b"HTTP/1.1 200 OK\nContent-Length: 2\nContent-Length: 2\nA: b\n c\n\n{}")])
    assert found.complete_framing
    assert found.headers["a"] == "b c"
    assert parse_response([(1, b"HTTP/1.1 204 No\r\n\r\n")]).complete_framing
    extra = parse_response([(1, head("200 OK", "content-length: 2") + b"{}HTTP/1.1 200 OK\r\n")])
    assert extra.complete_framing
    assert any("followed the end" in note for note in extra.notes)


def test_nothing_received() -> None:
    """A server that sent nothing gives an empty answer, not a good one."""
    found = parse_response([])
    assert (found.status, found.events, found.complete_framing, found.done) == (None, (), False, False)
