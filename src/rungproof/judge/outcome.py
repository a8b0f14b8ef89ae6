"""What one request, and one batch of requests, came to: exactly one state each, and every doubt as a Reason.

A request whose state is `complete` may still carry reasons: the answer is whole, but it is not the one that was asked
for, or its counts disagree. Only a request without reasons is part of a sound measurement.
"""

import json
from collections.abc import Sequence
from itertools import accumulate, pairwise

from rungproof.judge.rates import RESOLUTION_NS, aggregate_rate, decode_rate
from rungproof.judge.stats import median
from rungproof.judge.wire import Response, TokensArrived, parse_response
from rungproof.records.codec import sha256
from rungproof.records.formats import REQUEST_STATES, BatchResult, Reason, RequestResult, RequestState
from rungproof.records.raw import Batch, Request

BURST_STEP_NS = 100_000  # no engine makes a step in less; events closer than this came in one burst
BURST_EVENTS = 8  # fewer events may be made one after the other by a front end that was busy for a moment
BURST_SHARE = 100  # a burst takes less than 1/100 of the wait before it


def result_of(
    request: Request, *, window: int, tokens: int, exact_length: bool, prompt_tokens: int | None
) -> RequestResult:
    """Judge one request from its raw bytes. Any bytes give a result.

    window        tokens of the decode rate's window (see rates.decode_rate)
    tokens        max_tokens asked for; more is always a reason, fewer is one where `exact_length` (ignore_eos)
    prompt_tokens length the prompt was planned to have, None where it was not planned

    `sent_ns` of a request that was never sent is its `end_ns`. TTFT = first event that carries a token - sent.
    """
    response, damage = _response_of(request)
    carrying = [event for event in response.events if event.token_ids]
    ids = tuple(token for event in carrying for token in event.token_ids)
    usage = response.usage
    where = f"{request.batch}/{request.key}"
    state, reason = _state_of(request, response, bool(ids), damage, where)
    reasons = [reason] if reason is not None else []
    if state == "complete":
        reasons += _length_reasons(len(ids), response, tokens, exact_length, prompt_tokens, where)
    ttft_ns = carrying[0].at_ns - request.sent_ns if carrying and request.sent_ns is not None else None
    if ttft_ns is not None and ttft_ns <= 0:
        reasons.append(Reason("first token before the request", f"{ttft_ns} ns", "a later time", where))
        ttft_ns = None
    burst = _is_burst(request, response, carrying, ttft_ns, window)
    if burst and state == "complete":
        reasons.append(Reason("not streamed", f"{len(ids)} tokens in one burst", "tokens as they are made", where))
    arrivals = [event.at_ns for event in carrying for _ in event.token_ids]
    rate = None if burst else decode_rate(arrivals, window)
    if rate is None and not burst and len(arrivals) >= window and state == "complete" and _asked_stream(request.body):
        found = f"{window} tokens in {(arrivals[window - 1] - arrivals[0]) / 1e6:g} ms"
        reasons.append(Reason("too fast for the clock", found, f"at least {RESOLUTION_NS / 1e6:g} ms", where))
    gaps = [later.at_ns - earlier.at_ns for earlier, later in pairwise(carrying)]
    return RequestResult(
        batch=request.batch,
        key=request.key,
        state=state,
        reasons=tuple(reasons),
        token_ids=ids,
        completion_tokens=usage.completion_tokens if usage else None,
        prompt_tokens=usage.prompt_tokens if usage else None,
        cached_tokens=usage.cached_tokens if usage else None,
        finish_reason=response.finish_reason,
        text=response.text,
        sent_ns=request.sent_ns if request.sent_ns is not None else request.end_ns,
        ttft_ns=ttft_ns,
        last_token_ns=arrivals[-1] if arrivals else None,
        decode_rate=rate,
        steps=len(carrying),
        step_median_ns=round(median(gaps)) if gaps else None,
        content_ttft_ns=_content_ttft(carrying, request.sent_ns),
        reasoning_tokens=sum(len(event.token_ids) for event in carrying if event.reasoning),
        end_ns=request.end_ns,
        body_sha256=sha256(request.body.encode("latin-1", "replace")),
    )


def batch_of(batch: Batch, results: Sequence[RequestResult]) -> BatchResult:
    """Sum up one barrier's requests. `concurrency`: how many were behind the barrier.

    wall = from the batch's start to the last token of all its requests; completion_tokens counts the ids of complete
    requests. aggregate is None unless exactly the planned requests are here, each complete and without a reason.
    """
    states = dict.fromkeys(REQUEST_STATES, 0)
    for result in results:
        states[result.state] += 1
    sent = [r.sent_ns for r in results if r.end_ns > r.sent_ns]
    wall_ns = max((r.last_token_ns - batch.start_ns for r in results if r.last_token_ns is not None), default=0)
    completion_tokens = sum(len(result.token_ids) for result in results if result.state == "complete")
    sound = (
        sorted(result.key for result in results) == sorted(batch.planned)
        and len(set(batch.planned)) == len(batch.planned)
        and all(r.batch == batch.batch and r.state == "complete" and not r.reasons for r in results)
    )
    return BatchResult(
        batch=batch.batch,
        concurrency=len(batch.planned),
        planned=len(batch.planned),
        states={str(state): count for state, count in states.items()},
        completion_tokens=completion_tokens,
        wall_ns=max(wall_ns, 0),
        aggregate=aggregate_rate(completion_tokens, wall_ns) if sound else None,
        stamp_source=batch.stamp_source,
        in_flight=most_at_once([(r.sent_ns, r.end_ns) for r in results]),
        decoding=most_at_once(
            [(r.sent_ns + r.ttft_ns, r.last_token_ns) for r in results if r.ttft_ns and r.last_token_ns]
        ),
        dispatch_ns=max(sent) - min(sent) if sent else None,
        wait_ns=batch.wait_ns,
        scheduling=batch.scheduling,
    )


def most_at_once(spans: Sequence[tuple[int, int]]) -> int:
    """Most of these (begin, end) that hold at one moment; one that ends as another begins is over; empty ones do not count."""
    turns = sorted(turn for begin, end in spans if end > begin for turn in ((begin, 1), (end, -1)))
    return max(accumulate(change for _, change in turns), default=0)


def _content_ttft(carrying: Sequence[TokensArrived], sent_ns: int | None) -> int | None:
    first = next((event.at_ns for event in carrying if not event.reasoning), None)
    return first - sent_ns if first is not None and sent_ns is not None and first > sent_ns else None


def _response_of(request: Request) -> tuple[Response, str]:
    """The parsed answer, and what is wrong with the raw record itself ("" if nothing)."""
    try:
        data = request.bytes.encode("latin-1")
    except UnicodeEncodeError:
        return parse_response(()), "raw bytes are not ISO-8859-1 text"
    chunks, at = [], 0
    for at_ns, length in request.chunks:
        if length < 0:
            return parse_response(()), "a chunk has a negative length"
        chunks.append((at_ns, data[at : at + length]))
        at += length
    if at != len(data):
        return parse_response(()), f"the chunks say {at} bytes, {len(data)} are there"
    return parse_response(chunks), ""


def _state_of(
    request: Request, response: Response, has_tokens: bool, damage: str, where: str
) -> tuple[RequestState, Reason | None]:
    """The one state of a request, and why, where it is not `complete`. The first that holds, in this order."""
    detail = request.detail or request.end
    if damage:
        return "client_error", Reason("raw record damaged", damage, "stamps and bytes that agree", where)
    if request.end == "cancelled":
        return "cancelled", Reason("cancelled", detail, "an answer", where)
    if request.end in ("refused", "client_error", "oversize"):
        return "client_error", Reason(request.end, detail, "an answer", where)
    if response.problem is not None:
        return "client_error", Reason("not HTTP", response.problem, "an HTTP/1.1 response", where)
    if response.status not in (None, 200):
        return "http_error", Reason("HTTP error", response.error or str(response.status), "status 200", where)
    if response.error is not None:
        return "error_in_band", Reason("error in the answer", response.error, "tokens", where)
    if request.end == "timeout":
        return "timeout", Reason("timeout", detail, "an answer in time", where)
    if missing := _missing(request, response, has_tokens):
        return "truncated", Reason("truncated", f"{missing} (connection: {detail})", "a whole answer", where)
    return "complete", None


def _missing(request: Request, response: Response, has_tokens: bool) -> str:
    """What an answer of status 200 without error lacks to be whole; "" if nothing."""
    if response.status is None:
        return "no status line"
    if not response.complete_framing or request.end not in ("framed", "eof"):
        return "the end of the body is missing"
    if response.until_close and request.end != "eof":
        return "the end of the connection is missing"
    if response.finish_reason is None:
        return "no finish_reason"
    if not response.done:
        return "no [DONE]"
    return "" if has_tokens else "no token ids; ask with return_token_ids"


def _length_reasons(
    count: int, response: Response, tokens: int, exact_length: bool, prompt_tokens: int | None, where: str
) -> list[Reason]:
    """Where counts disagree: ids against usage, output against what was asked, prompt against what was planned."""
    usage = response.usage
    made = []
    if usage is None or usage.completion_tokens is None:
        made.append(Reason("no usage", "no completion_tokens", "usage in the answer", where))
    elif usage.completion_tokens != count:
        made.append(Reason("token count", f"{count} ids", f"usage.completion_tokens {usage.completion_tokens}", where))
    if count > tokens:
        made.append(Reason("long output", f"{count} tokens", f"at most {tokens}", where))
    elif exact_length and count < tokens:
        made.append(Reason("short output", f"{count} tokens", str(tokens), where))
    if prompt_tokens is not None:
        found = usage.prompt_tokens if usage else None
        if found != prompt_tokens:
            made.append(Reason("prompt length", "nothing" if found is None else str(found), str(prompt_tokens), where))
    if any(event.text and not event.token_ids for event in response.events):
        made.append(Reason("text without token ids", "an event with text alone", "token ids in each", where))
    return made


def _is_burst(
    request: Request, response: Response, carrying: Sequence[TokensArrived], ttft_ns: int | None, window: int
) -> bool:
    """Whether a stream was asked for and the answer came at once: its rates would be those of a buffer.

    One document instead of a stream, a full window in one event or one read, or events both closer than an engine's
    steps and together far shorter than the wait before them.
    """
    if not carrying or not _asked_stream(request.body):
        return False
    if not response.streamed:
        return True
    span = carrying[-1].at_ns - carrying[0].at_ns
    if span <= 0:
        return sum(len(event.token_ids) for event in carrying) >= window
    if ttft_ns is None or len(carrying) < BURST_EVENTS:
        return False
    return span * BURST_SHARE < ttft_ns and span < BURST_STEP_NS * (len(carrying) - 1)


def _asked_stream(body: str) -> bool:
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(asked, dict) and asked.get("stream") is True
