"""What a canary's answers must be. Text only decides here, as a health check; identity is never judged by text."""

import json
from collections.abc import Sequence

from rungproof.records.formats import Reason, RequestResult

LOST = "request did not complete"


def check(kind: str, expect: str, results: Sequence[RequestResult], name: str) -> tuple[Reason, ...]:
    """Reasons why a check did not pass; empty: it passed. No answer at all is a failure.

    kind: repeat8 (all answers have the same token ids), contains and equals (the answer's text, surrounding space
    ignored), json_object (the text up to the first object's closing brace parses). Raises ValueError for another kind.
    """
    if not results:
        return (Reason("no answer", found="0 requests", expected="at least 1", where=name),)
    lost = [
        Reason(LOST, found=r.state, expected="complete", where=f"{name}/{r.key}")
        for r in results
        if r.state != "complete"
    ]
    if lost:
        return tuple(lost)
    text = results[0].text
    if kind == "repeat8":
        answers = {r.token_ids for r in results}
        good = len(answers) == 1 and len(results) == 8
        return (
            () if good else (Reason("answers differ", f"{len(answers)} different in {len(results)}", "1 in 8", name),)
        )
    if kind == "contains":
        return () if expect and expect in text else (Reason("text not found", repr(text[:80]), repr(expect), name),)
    if kind == "equals":
        return (
            ()
            if expect and text.strip() == expect.strip()
            else (Reason("another text", repr(text[:80]), repr(expect), name),)
        )
    if kind == "json_object":
        return () if _has_object(text) else (Reason("no JSON object", repr(text[:80]), "a JSON object", name),)
    raise ValueError(f"{kind!r} is not a kind of canary check")


def _has_object(text: str) -> bool:
    start = text.find("{")
    if start < 0:
        return False
    try:
        value, _ = json.JSONDecoder().raw_decode(text[start:])
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and bool(value)
