"""One attempt judged: from its raw bytes to requests, batches and the reasons why it may not be used."""

from collections.abc import Sequence
from dataclasses import dataclass

from rungproof.judge import prometheus
from rungproof.judge.outcome import batch_of, result_of
from rungproof.records import raw
from rungproof.records.codec import digest
from rungproof.records.formats import Attempt, BatchResult, Canary, Closed, Input, Judged, Reason, RequestResult, Server
from rungproof.records.plan import Item

# Metric names of vLLM (the simulated server uses the same), by the word under which records keep the delta.
COUNTERS = {
    "generation_tokens": "vllm:generation_tokens_total",
    "prompt_tokens": "vllm:prompt_tokens_total",
    "preemptions": "vllm:num_preemptions_total",
    "prefix_cache_hits": "vllm:prefix_cache_hits_total",
    "drafts": "vllm:spec_decode_num_drafts_total",
    "draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
    "accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
}


@dataclass(frozen=True, slots=True)
class ExpectedBatch:
    """One batch as the plan says it must have been sent: (key, exact body bytes as latin-1 text) a request, in order."""

    batch: str
    requests: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything the judge sees of one attempt. A canary that is missing is None; so are raw lines without a raw file."""

    server: Server
    before: Canary | None
    after: Canary | None
    closed: Closed
    attempt: Attempt
    lines: tuple[raw.Line, ...] | None
    inputs: tuple[Input, ...]


def judge_attempt(
    item: Item, launch_sha256: str, expected: Sequence[ExpectedBatch], evidence: Evidence, judge_sha256: str
) -> Judged:
    """Judge one attempt. `expected` empty would compare nothing, so it is itself a reason.

    State: accepted (no reason at all), invalid (measured, but unsound), failed (no measurement), skipped (a gate).
    """
    attempt = evidence.attempt
    requests: tuple[RequestResult, ...] = ()
    batches: tuple[BatchResult, ...] = ()
    counters: dict[str, float | None] = {}
    reasons = [*attempt.reasons]
    if attempt.status == "measured" and evidence.lines is not None:
        requests, batches = read_raw(item, evidence.lines)
        counters = counter_deltas(evidence.lines)
        reasons += session_reasons(item, launch_sha256, evidence)
        reasons += request_reasons(requests)
        reasons += sent_as_planned(expected, evidence.lines)
        reasons += counter_reasons(counters, requests)
        reasons += answer_reasons(item, requests)
    if attempt.status == "measured":
        if evidence.lines is None:
            reasons.append(Reason("no raw file", where=item.id))
        state = "invalid" if reasons else "accepted"
    else:
        state = attempt.status
        reasons = reasons or [Reason("no measurement", where=item.id)]
    return Judged(
        arm=item.arm,
        replicate=item.replicate,
        workload=item.workload,
        item=item.item,
        state=state,  # type: ignore[arg-type]
        reasons=tuple(reasons),
        session=attempt.session,
        boot=attempt.boot,
        launch_sha256=evidence.server.launch_sha256,
        identity_sha256=identity_of(evidence.server),
        spec_sha256=attempt.spec_sha256,
        spec=attempt.spec,
        inputs=evidence.inputs,
        requests=requests,
        batches=batches,
        counters=counters,
        judge_sha256=judge_sha256,
    )


def identity_of(server: Server) -> str:
    """Digest of what an oracle is bound to beyond the launch: weights by file, packages, engine, kernels, processor."""
    identity, environment = server.identity, server.environment
    model = identity.get("model") or {}
    bound: dict[str, object] = {name: identity.get(name) for name in ("packages", "engine_version", "kernel", "python")}
    bound["model files"] = model.get("files") if isinstance(model, dict) else None
    bound["processor"] = environment.get("cpu_model")
    return digest(bound)


def read_raw(item: Item, lines: Sequence[raw.Line]) -> tuple[tuple[RequestResult, ...], tuple[BatchResult, ...]]:
    """Requests and batches of a raw file, in the order in which they were written."""
    spec = item.spec
    tokens = int(spec["cap"] if spec["kind"] == "strict" else spec["tokens"])
    planned_prompt = int(spec["depth"]) if spec["kind"] == "depth" else None
    results = [
        result_of(
            line,
            window=int(item.rules["window"]),
            tokens=tokens,
            exact_length=spec["kind"] != "strict",
            prompt_tokens=planned_prompt,
        )
        for line in lines
        if isinstance(line, raw.Request)
    ]
    batches = [
        batch_of(line, [r for r in results if r.batch == line.batch]) for line in lines if isinstance(line, raw.Batch)
    ]
    return tuple(results), tuple(batches)


def session_reasons(item: Item, launch_sha256: str, evidence: Evidence) -> list[Reason]:
    """Same server from the first canary to the last, with the launch and spec that the plan names, all of its knobs in force."""
    server, closed, attempt = evidence.server, evidence.closed, evidence.attempt
    found = []
    boots = {server.boot, closed.boot, attempt.boot} | {c.boot for c in (evidence.before, evidence.after) if c}
    if len(boots) != 1 or not server.boot:
        found.append(Reason("changed server", found=f"{len(boots)} boots", expected="1", where=attempt.session))
    if server.status != "ready":
        found.append(Reason("server not ready", found=server.status, expected="ready", where=attempt.session))
    if server.launch_sha256 != launch_sha256:
        found.append(
            Reason(
                "another launch", found=server.launch_sha256[:12], expected=launch_sha256[:12], where=attempt.session
            )
        )
    if attempt.spec_sha256 != item.spec_sha256:
        found.append(
            Reason("another spec", found=attempt.spec_sha256[:12], expected=item.spec_sha256[:12], where=item.id)
        )
    for name, canary in (("before", evidence.before), ("after", evidence.after)):
        if canary is None or canary.status != "passed" or canary.when != name:
            found.append(
                Reason(
                    f"canary {name}",
                    found=canary.status if canary else "missing",
                    expected="passed",
                    where=attempt.session,
                )
            )
    if not closed.sound:
        why = "; ".join(str(r) for r in closed.reasons) or closed.exit
        found.append(
            Reason(
                "session not sound",
                found=why,
                expected="both canaries passed on a server that lived to the end",
                where=attempt.session,
            )
        )
    found += [
        Reason("knob not in force", found=str(k.found), expected=k.asked, where=f"{attempt.session}: {k.name}")
        for k in server.knobs
        if not k.ok
    ]
    model = server.identity.get("model") or {}
    known = [
        model.get("files") if isinstance(model, dict) else None,
        *map(server.identity.get, ("packages", "engine_version")),
    ]
    if server.launch.get("engine") != "simulated" and not all(known):
        found.append(
            Reason("identity not known", expected="weights by file, packages and engine", where=attempt.session)
        )
    if not server.knobs:
        found.append(
            Reason(
                "configuration not verified",
                found="0 knobs",
                expected="every argument and variable",
                where=attempt.session,
            )
        )
    return found


def sent_as_planned(expected: Sequence[ExpectedBatch], lines: Sequence[raw.Line]) -> list[Reason]:
    """Every planned batch and request was sent, once, in order, with exactly the planned body."""
    if not expected:
        return [Reason("nothing planned", found="0 batches", expected="at least 1")]
    sent: dict[str, list[tuple[str, str]]] = {}
    for line in lines:
        if isinstance(line, raw.Batch):
            if line.batch in sent:
                return [Reason("a batch stands twice", where=line.batch)]
            sent[line.batch] = []
        elif isinstance(line, raw.Request):
            sent.setdefault(line.batch, []).append((line.key, line.body))
    found = []
    if list(sent) != [batch.batch for batch in expected]:
        found.append(
            Reason(
                "population: batches",
                found=f"{len(sent)}: {', '.join(list(sent)[-2:])}",
                expected=f"{len(expected)}, in order",
            )
        )
    for batch in expected:
        got = sent.get(batch.batch, [])
        if sorted(key for key, _ in got) != sorted(key for key, _ in batch.requests):
            found.append(
                Reason(
                    "population: requests", found=str(len(got)), expected=str(len(batch.requests)), where=batch.batch
                )
            )
        elif sorted(got) != sorted(batch.requests):
            found.append(Reason("another body was sent than planned", where=batch.batch))
    return found


def request_reasons(results: Sequence[RequestResult]) -> list[Reason]:
    """Each request complete and without a reason of its own; cached tokens reported, and 0."""
    found = []
    for r in results:
        where = f"{r.batch}/{r.key}"
        if r.state != "complete":
            found.append(Reason("request lost", found=r.state, expected="complete", where=where))
            found += list(r.reasons)
            continue
        found += list(r.reasons)
        if r.cached_tokens != 0:
            shown = "not reported" if r.cached_tokens is None else str(r.cached_tokens)
            found.append(Reason("cache hit", found=shown, expected="0 cached tokens", where=where))
    return found


def counter_deltas(lines: Sequence[raw.Line]) -> dict[str, float | None]:
    """Change of each counter between the first and the last reading of /metrics; None: absent, reset or never settled."""
    snaps = [line for line in lines if isinstance(line, raw.Metrics)]
    if len(snaps) < 2 or not all(s.settled for s in snaps):
        return dict.fromkeys(COUNTERS)
    before, after = snaps[0].text, snaps[-1].text
    made: dict[str, float | None] = {word: prometheus.delta(before, after, name) for word, name in COUNTERS.items()}
    start = prometheus.labelled(before, "vllm:spec_decode_num_accepted_tokens_per_pos_total")
    for labels, value in prometheus.labelled(after, "vllm:spec_decode_num_accepted_tokens_per_pos_total").items():
        position = next((p.split("=")[1].strip('"') for p in labels.split(",") if p.startswith("position=")), labels)
        made[f"accepted_position_{position}"] = value - start.get(labels, 0.0)
    return made


def counter_reasons(counters: dict[str, float | None], results: Sequence[RequestResult]) -> list[Reason]:
    """The server's own counters: as many tokens as the client has, no preemption, no prefix-cache hit. Absent is not 0."""
    produced = sum(len(r.token_ids) for r in results)
    wanted = {"generation_tokens": float(produced), "preemptions": 0.0, "prefix_cache_hits": 0.0}
    names = {"generation_tokens": "token count", "preemptions": "preemption", "prefix_cache_hits": "cache hit"}
    found = []
    for word, expected in wanted.items():
        value = counters.get(word)
        if value != expected:
            shown = "not reported" if value is None else f"{value:g}"
            found.append(Reason(names[word], found=shown, expected=f"{expected:g}", where=f"/metrics {COUNTERS[word]}"))
    return found


def answer_reasons(item: Item, results: Sequence[RequestResult]) -> list[Reason]:
    """A ladder prompt whose oracle answer is degenerate would be identical whatever the server did, so it is refused."""
    if item.spec["kind"] != "ladder":
        return []
    least = int(item.rules["min_distinct"])
    return [
        Reason(
            "degenerate answer",
            found=f"{len(set(r.token_ids))} distinct ids",
            expected=f"at least {least}",
            where=f"{r.batch}/{r.key}",
        )
        for r in results
        if r.batch.startswith("oracle-") and r.state == "complete" and len(set(r.token_ids)) < least
    ]
