"""From the raw lines of one rung to its figures. Only what a server without token ids needs is added to the judge."""

import dataclasses
from collections.abc import Sequence
from itertools import pairwise

from rungproof.judge.attempt import answer_reasons
from rungproof.judge.counters import interrupted
from rungproof.judge.identity import divergence, minority_share
from rungproof.judge.outcome import batch_of, result_of
from rungproof.judge.rates import aggregate_rate
from rungproof.judge.stats import median
from rungproof.judge.wire import Response, parse_response
from rungproof.measure.external.report import Identity, PassFigures
from rungproof.records import raw
from rungproof.records.formats import BatchResult, Reason, RequestResult
from rungproof.records.plan import Item

ORACLE, PASS = "oracle-", "pass-"
NO_IDS = "no token ids"  # how the judge says that an answer lacks token ids and nothing else


def result(request: raw.Request, item: Item, exact_length: bool) -> RequestResult:
    """One request as the judge sees it; an answer that is whole but for its token ids is counted by `usage`."""
    tokens, window = int(item.spec["tokens"]), int(item.rules["window"])
    judged = result_of(request, window=window, tokens=tokens, exact_length=exact_length, prompt_tokens=None)
    if judged.state != "truncated" or not judged.reasons or not judged.reasons[0].found.startswith(NO_IDS):
        return judged
    return _by_usage(judged, response_of(request), tokens, window, exact_length)


def response_of(request: raw.Request) -> Response:
    """The parsed answer of a request of ours."""
    data, chunks, at = request.data(), [], 0
    for at_ns, length in request.chunks:
        chunks.append((at_ns, data[at : at + length]))
        at += length
    return parse_response(chunks)


def _by_usage(judged: RequestResult, response: Response, tokens: int, window: int, exact_length: bool) -> RequestResult:
    """The same request with the stamps of its text and the server's own count; no rate is made from events of unknown size."""
    where = f"{judged.batch}/{judged.key}"
    stamps = [event.at_ns for event in response.events]
    count = response.usage.completion_tokens if response.usage else None
    reasons = []
    if count is None:
        reasons.append(Reason("no count", "neither token ids nor usage", "one of them", where))
    elif count > tokens:
        reasons.append(Reason("long output", f"{count} tokens", f"at most {tokens}", where))
    elif exact_length and count < tokens:
        reasons.append(Reason("short output", f"{count} tokens", str(tokens), where))
    if not stamps:
        reasons.append(Reason("empty answer", "no text", "an answer", where))
    elif not response.streamed or (stamps[-1] <= stamps[0] and (count or 0) >= window):
        reasons.append(Reason("not streamed", "the whole answer at once", "tokens as they are made", where))
    gaps = [later - earlier for earlier, later in pairwise(stamps)]
    return dataclasses.replace(
        judged,
        state="complete",
        reasons=tuple(reasons),
        ttft_ns=stamps[0] - judged.sent_ns if stamps and stamps[0] > judged.sent_ns else None,
        last_token_ns=stamps[-1] if stamps else None,
        steps=len(stamps),
        step_median_ns=round(median(gaps)) if gaps else None,
    )


def batch_result(batch: raw.Batch, results: Sequence[RequestResult]) -> BatchResult:
    """The judge's sum of one batch, with the server's own counts where there are no token ids."""
    made = batch_of(batch, results)
    if all(r.token_ids for r in results if r.state == "complete"):
        return made
    count = sum(r.completion_tokens or 0 for r in results if r.state == "complete")
    sound = all(r.state == "complete" and not r.reasons for r in results) and len(results) == made.planned
    return dataclasses.replace(
        made, completion_tokens=count, aggregate=aggregate_rate(count, made.wall_ns) if sound else None
    )


def read(lines: Sequence[raw.Line], item: Item, exact_length: bool) -> tuple[list[RequestResult], list[BatchResult]]:
    """All requests and batches of a rung, in the order in which they were sent."""
    results = [result(line, item, exact_length) for line in lines if isinstance(line, raw.Request)]
    batches = [
        batch_result(line, [r for r in results if r.batch == line.batch])
        for line in lines
        if isinstance(line, raw.Batch)
    ]
    return results, batches


def identity_of(results: Sequence[RequestResult], plain: bool) -> Identity:
    """Every complete request of every pass against its complete oracle, by whole arrays of token ids."""
    whole = [r for r in results if r.state == "complete"]
    cannot = ""
    if any(not r.token_ids for r in whole):
        cannot = "without vendor parameters (--plain) " if plain else ""
        cannot = f"cannot be compared: {cannot}the server gives no token ids"
    truth = {r.key: r.token_ids for r in whole if r.batch.startswith(ORACLE)}
    got = [r for r in whole if r.batch.startswith(PASS) and r.key in truth]
    if not cannot and not got:
        cannot = "cannot be compared: no request of a pass and of its oracle was complete"
    if cannot:
        return Identity(0, 0, 0, 0, None, (), cannot)
    broken = [d for r in got if (d := divergence(r.key, r.batch, r.token_ids, truth[r.key]))]
    sites = {r.key for r in got}
    samples = [(truth[key], *(r.token_ids for r in got if r.key == key)) for key in truth]
    return Identity(
        len(got) - len(broken), len(got), len(sites - {d.site for d in broken}), len(sites), minority_share(samples),
        tuple(broken), "",
    )  # fmt: skip


def pass_figures(batch: BatchResult, results: Sequence[RequestResult], identity: Identity) -> PassFigures:
    """One pass of a rung. `results`: those of the whole rung; `identity`: of the whole rung."""
    mine = [r for r in results if r.batch == batch.batch]
    whole = {r.key for r in mine if r.state == "complete"}
    truth = {r.key for r in results if r.batch.startswith(ORACLE) and r.state == "complete"}
    compared = 0 if identity.cannot else len(whole & truth)
    off = sum(d.batch == batch.batch for d in identity.divergences)
    ttft = [r.ttft_ns / 1e6 for r in mine if r.ttft_ns is not None]
    rates = [r.decode_rate for r in mine if r.decode_rate is not None]
    return PassFigures(
        batch=batch.batch,
        complete=len(whole),
        planned=batch.planned,
        completion_tokens=batch.completion_tokens,
        aggregate=batch.aggregate,
        per_user=batch.aggregate / batch.concurrency if batch.aggregate is not None else None,
        decode_rate=median(rates) if len(rates) == batch.planned else None,
        ttft_ms_median=median(ttft) if ttft else None,
        ttft_ms_max=max(ttft) if ttft else None,
        identical=compared - off,
        compared=compared,
    )


def doubts_of(
    item: Item, results: Sequence[RequestResult], counters: dict[str, float | None], all_complete: bool
) -> tuple[Reason, ...]:
    """What speaks against the figures of a rung: caches, preemptions, other users, answers that would always be identical."""
    where, found = f"c{item.spec['concurrency']}", []
    whole = [r for r in results if r.state == "complete"]
    hits = [r.cached_tokens for r in whole if r.cached_tokens]
    silent = sum(r.cached_tokens is None for r in whole)
    if hits:
        found.append(
            Reason(
                "prompt cache", f"{len(hits)} of {len(whole)} requests, {sum(hits)} tokens", "0 cached tokens", where
            )
        )
    elif counters.get("prefix_cache_hits"):
        found.append(
            Reason("prompt cache", f"{counters['prefix_cache_hits']:g} tokens (/metrics)", "0 cached tokens", where)
        )
    elif silent and counters.get("prefix_cache_hits") is None:
        found.append(Reason("cached tokens not reported", f"{silent} of {len(whole)} requests", "0 in each", where))
    if again := interrupted(counters):
        found.append(Reason("preemption", f"{again:g}", "0", where))
    made, ours = counters.get("generation_tokens"), sum(len(r.token_ids) or r.completion_tokens or 0 for r in results)
    if made is not None and all_complete and made != ours:
        found.append(
            Reason("token count", f"{made:g} tokens made by the server (/metrics)", f"{ours} tokens of ours", where)
        )
    if all(value is None for value in counters.values()):
        found.append(
            Reason(
                "no counters",
                "preemptions and other users cannot be seen",
                "counters of a known engine at rest in /metrics",
                where,
            )
        )
    if all(r.token_ids for r in whole):
        found += answer_reasons(item, results)
    return tuple(found)
