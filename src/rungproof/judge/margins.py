"""Top-2 margins out of one answer: log p1 - log p2 of the two likeliest tokens of each position [nats], as the server reports them.

Read from the raw bytes once more, beside the parser of tokens: only a tie probe asks for log probabilities.
"""

import json
from collections.abc import Sequence

from rungproof.judge.http1 import Framing
from rungproof.judge.sse import split
from rungproof.records.formats import Reason, RequestResult
from rungproof.records.raw import Request

Margins = tuple[float | None, ...]


def margins_of(request: Request) -> Margins:
    """The margin of each position of one answer, in order; None for a position without two log probabilities. Any bytes give a result."""
    framing, at, body = Framing(), 0, b""
    data = request.bytes.encode("latin-1", "replace")
    for _, length in request.chunks:
        body += b"".join(framing.feed(data[at : at + length]))
        at += length
    made: list[float | None] = []
    for frame in split(body).frames:
        try:
            value = json.loads(frame.data)
        except (ValueError, RecursionError):
            continue
        choices = value.get("choices") if isinstance(value, dict) else None
        for choice in choices if isinstance(choices, list) else ():
            told = choice.get("logprobs") if isinstance(choice, dict) else None
            tops = told.get("top_logprobs") if isinstance(told, dict) else None
            made += [_margin(top) for top in tops] if isinstance(tops, list) else []
    return tuple(made)


def _margin(top: object) -> float | None:
    values = top.values() if isinstance(top, dict) else ()
    known = sorted((float(v) for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)), reverse=True)
    return known[0] - known[1] if len(known) > 1 and known[1] > float("-inf") else None


def margin_reasons(results: Sequence[RequestResult]) -> list[Reason]:
    """A probe that did not get a margin for each of its tokens shows nothing."""
    return [
        Reason(
            "no margins",
            f"{sum(m is not None for m in r.margins)} for {len(r.token_ids)} tokens",
            "one a token",
            f"{r.batch}/{r.key}",
        )
        for r in results
        if r.state == "complete" and (len(r.margins) != len(r.token_ids) or None in r.margins)
    ]
