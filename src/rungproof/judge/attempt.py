"""One attempt judged: from its raw bytes to requests, batches and the reasons why it may not be used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rungproof.judge.binding import identity_of, identity_parts
from rungproof.judge.counters import counter_deltas, counter_reasons, rework
from rungproof.judge.margins import margin_reasons, margins_of
from rungproof.judge.outcome import batch_of, result_of
from rungproof.judge.stats import median
from rungproof.records import raw
from rungproof.records.formats import (
    Attempt,
    BatchResult,
    Canary,
    ClientCheck,
    Closed,
    Input,
    Judged,
    Reason,
    RequestResult,
    Server,
)
from rungproof.records.plan import Item

WAIT_SHARE = 0.01  # of a batch's time: the error that a client without a processor may make in any rate of that batch
WAIT_NS = 2_000_000  # below this it is not counted: two waits of a scheduler's tick
FINER = 20  # the client's stamps must be so many times finer than the step time that is reported


@dataclass(frozen=True, slots=True)
class ExpectedBatch:
    """One batch as the plan says it must have been sent: (key, exact body bytes as latin-1 text) a request, in order; delays_ns:
    by key, how long after the barrier."""

    batch: str
    requests: tuple[tuple[str, str], ...]
    delays_ns: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything the judge sees of one attempt. A canary or client check that is missing is None; so are raw lines without a raw file."""

    server: Server
    before: Canary | None
    after: Canary | None
    closed: Closed
    attempt: Attempt
    lines: tuple[raw.Line, ...] | None
    inputs: tuple[Input, ...]
    client: ClientCheck | None


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
        if "preemptions" not in counters:
            counters["reworked_tokens"] = rework(counters, requests)
        reasons += session_reasons(item, launch_sha256, evidence)
        reasons += request_reasons(requests)
        reasons += batch_reasons(batches, evidence.server, staggered=bool(item.spec.get("stagger_ms")))
        reasons += client_reasons(item, evidence.client, evidence.server, requests)
        reasons += sent_as_planned(expected, evidence.lines)
        reasons += counter_reasons(counters, requests)
        reasons += answer_reasons(item, requests)
        reasons += stagger_reasons(item, expected, evidence.lines)
        reasons += margin_reasons(requests) if item.spec["kind"] == "probe" else []
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
        client=evidence.client,
        judge_sha256=judge_sha256,
        identity_parts=identity_parts(evidence.server),
    )


def read_raw(item: Item, lines: Sequence[raw.Line]) -> tuple[tuple[RequestResult, ...], tuple[BatchResult, ...]]:
    """Requests and batches of a raw file, in the order in which they were written."""
    spec = item.spec
    tokens = int(spec["cap"] if spec["kind"] == "strict" else spec["tokens"])
    planned_prompt = {"depth": spec.get("depth"), "short": spec.get("length")}.get(spec["kind"])
    results = [
        replace(
            result_of(
                line,
                window=int(item.rules["window"]),
                tokens=tokens,
                exact_length=spec["kind"] != "strict",
                prompt_tokens=planned_prompt,
            ),
            margins=margins_of(line) if spec["kind"] == "probe" else (),
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
        why = "; ".join(r.after(attempt.session) for r in closed.reasons) or closed.exit
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
        server.identity.get("packages") or server.identity.get("programs"),
        server.identity.get("engine_version"),
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


def stagger_reasons(item: Item, expected: Sequence[ExpectedBatch], lines: Sequence[raw.Line]) -> list[Reason]:
    """Staggered requests went out when they were planned to: never before, and late by less than half the stagger."""
    apart_ns = float(item.spec.get("stagger_ms", 0)) * 1e6
    if not apart_ns:
        return []
    starts = {line.batch: line.start_ns for line in lines if isinstance(line, raw.Batch)}
    delays = {batch.batch: batch.delays_ns for batch in expected}
    found = []
    for line in lines:
        if not isinstance(line, raw.Request) or line.sent_ns is None or line.batch not in starts:
            continue
        wanted = delays.get(line.batch, {}).get(line.key, 0)
        late = line.sent_ns - starts[line.batch] - wanted
        if len(delays.get(line.batch, {})) > 1 and not 0 <= late < apart_ns / 2:
            shown, limit = f"{late / 1e6:+.3f} ms off", f"0 to {apart_ns / 2e6:g} ms after its time"
            found.append(Reason("stagger not kept", shown, limit, f"{line.batch}/{line.key}"))
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


def batch_reasons(batches: Sequence[BatchResult], server: Server, staggered: bool = False) -> list[Reason]:
    """As many streams in flight at once as were put behind the barrier, unless they were sent apart on purpose: else the rung
    says more than was asked of the server. And a client that had a processor whenever it needed one: else it saw tokens late,
    and many of them at once. On the simulated server, whose times mean nothing, the wait need only be known."""
    found = []
    allowed = WAIT_SHARE if server.launch.get("engine") != "simulated" else float("inf")
    for b in batches:
        if b.states.get("complete") != b.planned:
            continue
        if b.in_flight < b.concurrency and not staggered:
            found.append(
                Reason("streams in flight", found=str(b.in_flight), expected=str(b.concurrency), where=b.batch)
            )
        if b.wait_ns is None or b.wait_ns > max(WAIT_NS, allowed * b.wall_ns):
            waited = (
                "unknown"
                if b.wait_ns is None
                else f"{b.wait_ns / 1e6:.1f} of {b.wall_ns / 1e6:.0f} ms, {b.scheduling} scheduling"
            )
            wanted = f"at most {WAIT_SHARE:.0%}: real-time priority (ulimit -r 1) or a core to spare"
            found.append(Reason("client waited for a processor", waited, wanted, b.batch))
    return found


def client_reasons(
    item: Item, client: ClientCheck | None, server: Server, results: Sequence[RequestResult]
) -> list[Reason]:
    """The client was held against the burst server at this load, on this boot, and is FINER times finer than the step time reported.

    The step time of the simulated server is a timer that means nothing, so there the check need only have been made.
    """
    if client is None or client.boot != server.boot or client.lag_p99_ms is None or client.reasons:
        found = (
            "missing"
            if client is None
            else "; ".join(map(str, client.reasons)) or "of another boot or without a figure"
        )
        return [Reason("client not checked", found, "client.json of this session", item.id)]
    streams = int(item.spec.get("concurrency", 1))
    if client.streams < streams:
        return [Reason("client not checked", f"{client.streams} streams", f"at least {streams}", item.id)]
    steps = [
        r.step_median_ns / 1e6 for r in results if r.step_median_ns is not None and not r.batch.startswith("oracle-")
    ]
    if not steps or server.launch.get("engine") == "simulated" or client.lag_p99_ms * FINER <= (step := median(steps)):
        return []
    found, wanted = f"stamps {client.lag_p99_ms:g} ms late (p99)", f"at most 1/{FINER} of the step time, {step:g} ms"
    return [Reason("client too coarse", found, wanted, item.id)]


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
