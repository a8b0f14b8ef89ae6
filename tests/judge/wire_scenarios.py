"""Answers of servers, good and bad, by the scenario numbers of the list of client faults (S00: of no fault)."""

import re
from dataclasses import dataclass
from typing import Any

from judge.wire_samples import IDS, WORDS, chat, chunked, closing, event, head, piece, pieces, plain, stream, usage
from rungproof.records import raw
from rungproof.records.formats import EndKind, RequestState

MS = 1_000_000
WINDOW = 4


@dataclass(frozen=True)
class Scenario:
    """What a server sent, how the connection ended, and what must come of it."""

    data: bytes
    state: RequestState
    ids: tuple[int, ...] = IDS
    end: EndKind = "framed"
    reason: str = ""  # the `what` of a reason that must be there; "" for a complete request: there is none
    words: str = ""  # what that reason must say
    exact: bool = True
    body: str = '{"stream":true}'


def _scenarios() -> dict[str, Scenario]:
    good: list[Any] = [*pieces(), usage(), "[DONE]"]
    error = {"error": {"message": "engine died", "type": "internal", "code": 500}}
    whole: dict[str, Any] = {"object": "text_completion", "usage": usage()["usage"]}
    whole["choices"] = piece(IDS, "".join(WORDS), "length")["choices"]
    space = [*(piece([220], " ") for _ in range(99)), piece([220], " ", "length")]
    cached = usage(prompt_tokens_details={"cached_tokens": 3})
    return {
        "S00 plain": Scenario(stream(good), "complete"),
        "S00 content-length": Scenario(
            head("200 OK", f"content-length: {sum(len(event(v)) for v in good)}") + b"".join(map(event, good)),
            "complete",
        ),
        "S00 until close": Scenario(closing(map(event, good)), "complete", end="eof"),
        "S00 interim": Scenario(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nx: y\r\n\r\n" + stream(good), "complete"
        ),
        "S00 extensions and trailers": Scenario(
            stream(good, extension=' ; a="b"', last=False) + b"0;x\r\nServer-Timing: a\r\nB: c\r\n\r\n", "complete"
        ),
        "S00 several data lines": Scenario(
            stream(['{"choices":\ndata: [{"token_ids":[11],"finish_reason":"length"}]}', usage(1), "[DONE]"]),
            "complete",
            ids=(11,),
            exact=False,
        ),
        "S02 all events in one write": Scenario(
            head("200 OK", "transfer-encoding: chunked") + chunked([b"".join(map(event, good))]), "complete"
        ),
        "S06 giant line": Scenario(
            stream([{**good[0], "prompt_token_ids": list(range(40_000))}, *good[1:]]), "complete"
        ),
        "S06 two megabytes": Scenario(stream([{**good[0], "pad": "x" * 2_000_000}, *good[1:]]), "complete"),
        "S07 comments": Scenario(
            closing([b": ping\n\n", *(event(v) + b": ping\n\n:\n\n" for v in good)]), "complete", end="eof"
        ),
        "S08 choices missing": Scenario(stream([*good[:5], {"usage": usage()["usage"]}, "[DONE]"]), "complete"),
        "S08 choices null": Scenario(stream([*good[:5], {**usage(), "choices": None}, "[DONE]"]), "complete"),
        "S08 usage in every event": Scenario(
            stream([*({**p, "usage": usage(i + 1)["usage"]} for i, p in enumerate(pieces())), "[DONE]"]), "complete"
        ),
        "S09 no space": Scenario(stream(good, prefix="data:"), "complete"),
        "S10 error first": Scenario(
            stream([error, "[DONE]"]), "error_in_band", (), reason="error in the answer", words="engine died"
        ),
        "S11 error after tokens": Scenario(
            stream([*good[:3], error, "[DONE]"]),
            "error_in_band",
            IDS[:3],
            reason="error in the answer",
            words="engine died",
        ),
        "S11 error as a string": Scenario(
            stream([*good[:3], {"error": "out of memory"}]),
            "error_in_band",
            IDS[:3],
            reason="error in the answer",
            words="out of memory",
        ),
        "S11 object error": Scenario(
            stream([{"object": "error", "message": "bad", "code": 400}, *good]),
            "error_in_band",
            reason="error in the answer",
            words="bad",
        ),
        "S11 error after everything": Scenario(
            stream([*good, error]), "error_in_band", reason="error in the answer", words="engine died"
        ),
        "S11 aborted": Scenario(
            stream([*good[:4], piece([15], "x", "abort"), usage(), "[DONE]"]),
            "error_in_band",
            reason="error in the answer",
            words="abort",
        ),
        "S12 event error": Scenario(
            stream([*good[:2]], last=False) + chunked([b'event: error\ndata: {"message":"kv lost"}\n\n']),
            "error_in_band",
            IDS[:2],
            reason="error in the answer",
            words="kv lost",
        ),
        "S12 event error, nothing else": Scenario(
            closing([b"event: error\n\n"]), "error_in_band", (), "eof", "error in the answer"
        ),
        "S12 words without data": Scenario(
            closing([*map(event, good[:2]), b"Internal Server Error\n\n"]),
            "error_in_band",
            IDS[:2],
            "eof",
            "error in the answer",
            "Internal Server Error",
        ),
        "S14 plain JSON error": Scenario(
            plain(error), "error_in_band", (), reason="error in the answer", words="engine died"
        ),
        "S14 plain JSON of another kind": Scenario(
            plain({"code": 5, "message": "busy"}), "error_in_band", (), reason="error in the answer", words="busy"
        ),
        "S14 a page": Scenario(
            head("200 OK", "content-length: 13") + b"<html></html>", "error_in_band", (), reason="error in the answer"
        ),
        "S15 end without length": Scenario(
            closing(map(event, good[:3])), "truncated", IDS[:3], "eof", "truncated", "no finish_reason"
        ),
        "S15 no [DONE]": Scenario(
            closing(map(event, good[:6])), "truncated", end="eof", reason="truncated", words="[DONE]"
        ),
        "S16 cut chunk": Scenario(stream(good[:3], last=False)[:-20], "truncated", IDS[:2], "eof", "truncated"),
        "S16 all but the last chunk": Scenario(stream(good, last=False), "truncated", end="eof", reason="truncated"),
        "S17 reset": Scenario(stream(good[:3], last=False), "truncated", IDS[:3], "reset", "truncated", "reset"),
        "S17 reset after [DONE]": Scenario(closing(map(event, good)), "truncated", end="reset", reason="truncated"),
        "S19 no last blank line": Scenario(closing([b"".join(map(event, good))[:-2]]), "complete", end="eof"),
        "S19 cut in the last event": Scenario(
            closing([b"".join(map(event, good[:5]))[:-9]]), "truncated", IDS[:4], "eof", "truncated"
        ),
        "S20 CR LF": Scenario(stream(good, end="\r\n"), "complete"),
        "S20 CR": Scenario(stream(good, end="\r"), "complete"),
        "S22 one token": Scenario(
            stream([piece([11], "The", "stop"), usage(1), "[DONE]"]), "complete", (11,), exact=False
        ),
        "S23 all in one event": Scenario(
            stream([piece(IDS, "all", "length"), usage(), "[DONE]"]), "complete", reason="not streamed"
        ),
        "S25 left open after [DONE]": Scenario(stream(good, last=False), "timeout", end="timeout", reason="timeout"),
        "S27 role first": Scenario(
            stream(
                [
                    chat({"role": "assistant", "content": ""}),
                    *(chat({"content": w}, [i]) for i, w in zip(IDS, WORDS, strict=True)),
                    chat({}, [], "length"),
                    usage(),
                    "[DONE]",
                ]
            ),
            "complete",
        ),
        "S28 reasoning": Scenario(
            stream(
                [
                    chat({"reasoning_content": "hm", "reasoning": "hm"}, [11, 12]),
                    chat({"reasoning": "so"}, [13]),
                    chat({"content": "yes"}, [14]),
                    chat({"content": "!"}, [15], "stop"),
                    usage(),
                    "[DONE]",
                ]
            ),
            "complete",
        ),
        "S29 cut inside reasoning": Scenario(
            stream(
                [
                    *(chat({"reasoning": "x"}, [i]) for i in IDS),
                    chat({"reasoning": ""}, [], "length"),
                    usage(),
                    "[DONE]",
                ]
            ),
            "complete",
        ),
        "S30 empty texts": Scenario(stream([piece([], ""), piece([11], ""), piece([], ""), *good[1:]]), "complete"),
        "S34 nothing": Scenario(stream(["[DONE]"]), "truncated", (), reason="truncated", words="no finish_reason"),
        "S34 no ids": Scenario(
            stream([{"choices": [{"text": "hello", "finish_reason": "stop"}]}, usage(1), "[DONE]"]),
            "truncated",
            (),
            reason="truncated",
            words="return_token_ids",
        ),
        "S34 no token at all": Scenario(
            stream([piece([], "", "stop"), usage(0), "[DONE]"]),
            "truncated",
            (),
            reason="truncated",
            words="no token ids",
        ),
        "S37 several tokens an event": Scenario(
            stream([piece(IDS[:2], "a"), piece(IDS[2:4], "b"), piece(IDS[4:], "c", "length"), usage(), "[DONE]"]),
            "complete",
        ),
        "S40 a hundred spaces": Scenario(
            stream([*space, usage(100), "[DONE]"]), "complete", (220,) * 100, reason="long output", words="100 tokens"
        ),
        "S42 one document": Scenario(plain(whole), "complete", body="{}"),
        "S42 one document for a stream": Scenario(plain(whole), "complete", reason="not streamed"),
        "S42 chat document": Scenario(
            plain(
                {
                    "choices": [
                        {"index": 0, "message": {"content": "hi"}, "token_ids": list(IDS), "finish_reason": "stop"}
                    ],
                    "usage": usage()["usage"],
                }
            ),
            "complete",
            body="{}",
        ),
        "S43 short output": Scenario(
            stream([*good[:3], piece([], "", "stop"), usage(3), "[DONE]"]),
            "complete",
            IDS[:3],
            reason="short output",
            words="3 tokens",
        ),
        "S43 natural end": Scenario(
            stream([*good[:3], piece([], "", "stop"), usage(3), "[DONE]"]), "complete", IDS[:3], exact=False
        ),
        "S44 cached": Scenario(stream([*good[:5], cached, "[DONE]"]), "complete"),
        "S48 dropped": Scenario(b"", "truncated", (), "eof", "truncated", "no status line"),
        "S50 other prompt length": Scenario(
            stream([*good[:5], usage(prompt=9), "[DONE]"]), "complete", reason="prompt length", words="9"
        ),
        "S52 status 500": Scenario(
            plain({"error": {"message": "boom"}}, "500 Oops"), "http_error", (), reason="HTTP error", words="boom"
        ),
        "S52 status 500 with tokens in it": Scenario(
            stream(good).replace(b"200 OK", b"500 Oops"), "http_error", (), reason="HTTP error"
        ),
        "S53 silence": Scenario(b"", "timeout", (), "timeout", "timeout"),
        "S53 stalled": Scenario(stream(good[:2], last=False), "timeout", IDS[:2], "timeout", "timeout"),
        "S58 status 503": Scenario(
            plain({"detail": "loading"}, "503 Wait"), "http_error", (), reason="HTTP error", words="loading"
        ),
        "S61 ids longer than the text": Scenario(
            stream([*good[:3], piece([14, 15], "", "stop"), usage(), "[DONE]"]), "complete"
        ),
        "refused": Scenario(b"", "client_error", (), "refused", "refused"),
        "oversize": Scenario(stream(good[:1], last=False), "client_error", IDS[:1], "oversize", "oversize"),
        "cancelled": Scenario(stream(good[:1], last=False), "cancelled", IDS[:1], "cancelled", "cancelled"),
        "another protocol": Scenario(b"SSH-2.0-x\r\n", "client_error", (), "eof", "not HTTP", "status line"),
        "gzip": Scenario(
            head("200 OK", "content-encoding: gzip") + b"\x1f\x8b", "client_error", (), "eof", "not HTTP", "gzip"
        ),
        "broken chunk size": Scenario(
            head("200 OK", "transfer-encoding: chunked") + b"zz\r\n", "client_error", (), "eof", "not HTTP", "size"
        ),
        "two lengths": Scenario(
            head("200 OK", "content-length: 3", "content-length: 4") + b"abc", "client_error", (), "eof", "not HTTP"
        ),
        "several choices": Scenario(
            stream([{"choices": [piece([1], "a")["choices"][0], piece([2], "b")["choices"][0]]}, "[DONE]"]),
            "error_in_band",
            (),
            reason="error in the answer",
            words="several choices",
        ),
        "second choice later": Scenario(
            stream([*good[:4], {"choices": [{"index": 1, "text": "b", "token_ids": [2]}]}, *good[4:]]),
            "error_in_band",
            reason="error in the answer",
            words="several choices",
        ),
        "damaged event": Scenario(
            stream([*good[:2], '{"choices": [', *good[2:]]), "error_in_band", reason="error in the answer", words="JSON"
        ),
        "bytes that are not UTF-8": Scenario(
            closing([*map(event, good[:2]), b'data: {"x":"\xff"}\n\n', *map(event, good[2:])]),
            "error_in_band",
            end="eof",
            reason="error in the answer",
            words="UTF-8",
        ),
        "ids that are no numbers": Scenario(
            stream([piece([11], "a"), {"choices": [{"token_ids": [True, "x"]}]}, *good[1:]]),
            "error_in_band",
            reason="error in the answer",
            words="token_ids",
        ),
        "tokens after [DONE]": Scenario(
            stream([*good, piece([99], "more")]), "error_in_band", reason="error in the answer", words="after [DONE]"
        ),
        "no usage": Scenario(stream([*good[:5], "[DONE]"]), "complete", reason="no usage"),
        "usage of another count": Scenario(
            stream([*good[:5], usage(6), "[DONE]"]), "complete", reason="token count", words="5 ids"
        ),
        "text without ids": Scenario(
            stream([{"choices": [{"text": "x"}]}, *good]), "complete", reason="text without token ids"
        ),
    }


SCENARIOS = _scenarios()


def request_of(scenario: Scenario, step_ns: int = 20 * MS) -> raw.Request:
    """The scenario as the client would have recorded it: sent at 1 s, the head at once, then an event a step."""
    parts = re.split(rb"(?=data:)", scenario.data)
    chunks = tuple((10**9 + max(1, step_ns * i), len(part)) for i, part in enumerate(parts) if part)
    return raw.Request(
        batch="b",
        key="k",
        body=scenario.body,
        connected_ns=10**9 - MS,
        sent_ns=10**9,
        sent_end_ns=10**9 + 1,
        end=scenario.end,
        end_ns=chunks[-1][0] if chunks else 2 * 10**9,
        detail="",
        chunks=chunks,
        bytes=scenario.data.decode("latin-1"),
    )
