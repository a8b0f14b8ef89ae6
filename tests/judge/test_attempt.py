"""One attempt judged: sound evidence is accepted, and each single thing that is off is found and named."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from judge.evidence_kit import BOOT, LAUNCH, Kit, answer, ladder_item, metrics, request, response, strict_item
from rungproof.judge.attempt import batch_reasons, client_reasons, judge_attempt
from rungproof.judge.counters import acceptance
from rungproof.judge.numbers import value_of
from rungproof.records import raw
from rungproof.records.formats import Judged, Knob, Reason


def judged(kit: Kit) -> Judged:
    """The judge's word on a kit."""
    return judge_attempt(kit.item, LAUNCH, kit.expected, kit.evidence(), "judge")


def test_sound_evidence_is_accepted_with_its_numbers() -> None:
    """Counts, rates and the aggregate come from the raw bytes alone."""
    result = judged(Kit(ladder_item()))
    assert (result.state, result.reasons) == ("accepted", ())
    assert [b.batch for b in result.batches] == ["oracle-00", "oracle-01", "pass-1", "pass-2"]
    assert [list(r.token_ids) for r in result.requests[:2]] == [answer("p0"), answer("p1")]
    # 24 events 5 ms apart after the head: the last token comes 125 ms after the barrier; 48 tokens a pass
    assert value_of(ladder_item(), result) == pytest.approx(48 / 0.125)
    assert result.requests[0].decode_rate == pytest.approx(200.0)
    assert result.counters["preemptions"] == 0


def first_request(kit: Kit) -> int:
    """Index of the first request line."""
    return next(i for i, line in enumerate(kit.lines) if isinstance(line, raw.Request))


def new_answer(kit: Kit, ids: list[int], **how: int | None) -> None:
    """Another answer in the first request."""
    n = first_request(kit)
    old = kit.lines[n]
    assert isinstance(old, raw.Request)
    kit.lines[n] = request(old.batch, old.key, old.body, response(ids, **how), 1_000_000_000)  # type: ignore[arg-type]


def wait(kit: Kit, wait_ns: int | None) -> None:
    """The last batch, of some 125 ms, with another wait."""
    n = max(i for i, line in enumerate(kit.lines) if isinstance(line, raw.Batch))
    kit.swap(n, wait_ns=wait_ns)


WAITS = {
    "the scheduler's ordinary grain moves no number": (2_000_000, "vllm", 0),
    "a wait that may have moved a number": (2_000_001, "vllm", 1),
    "a kernel that does not tell is not taken for no wait": (None, "vllm", 1),
    "times of the simulated server mean nothing": (90_000_000, "simulated", 0),
    "and even there the wait must be known": (None, "simulated", 1),
}


@pytest.mark.parametrize(("wait_ns", "engine", "count"), WAITS.values(), ids=WAITS)
def test_a_client_without_a_processor_is_told(wait_ns: int | None, engine: str, count: int) -> None:
    """What arrives while the client waits is merged and stamped late, so more than 1 % of a batch's time is a reason."""
    kit = Kit(ladder_item())
    wait(kit, wait_ns)
    found = batch_reasons(judged(kit).batches, replace(kit.server, launch={"engine": engine}))
    assert [reason.what for reason in found] == ["client waited for a processor"] * count


BREAKS: dict[str, tuple[Callable[[Kit], object], str]] = {
    "a request is missing": (lambda k: k.lines.pop(first_request(k)), "population: requests"),
    "a request stands twice": (
        lambda k: k.lines.insert(first_request(k), k.lines[first_request(k)]),
        "population: requests",
    ),
    "a whole batch is missing": (lambda k: k.lines.__delitem__(slice(-4, -1)), "population: batches"),
    "a batch stands twice": (
        lambda k: k.lines.append(next(x for x in k.lines if isinstance(x, raw.Batch))),
        "a batch stands twice",
    ),
    "nobody knows how long the client waited": (lambda k: wait(k, None), "client waited for a processor"),
    "another body was sent": (lambda k: k.swap(first_request(k), body='{"prompt":"other"}'), "another body was sent"),
    "a stream was cut": (
        lambda k: k.swap(
            first_request(k), end="reset", bytes=k.lines[first_request(k)].bytes[:300], chunks=((1, 300),)
        ),
        "request lost",
    ),
    "an answer is too short": (lambda k: new_answer(k, answer("p0")[:20]), "short"),
    "a cached token": (lambda k: new_answer(k, answer("p0"), cached=3), "cache hit"),
    "cached tokens not told": (lambda k: new_answer(k, answer("p0"), cached=None), "cache hit"),
    "a degenerate answer": (lambda k: new_answer(k, [5] * 24), "degenerate answer"),
    "a preemption": (lambda k: k.lines.__setitem__(-1, metrics("after", 144, preemptions=1)), "preemption"),
    "a prefix-cache hit": (lambda k: k.lines.__setitem__(-1, metrics("after", 144, hits=16)), "cache hit"),
    "the server counts other tokens": (lambda k: k.lines.__setitem__(-1, metrics("after", 145)), "token count"),
    "the counters never settled": (lambda k: k.swap(-1, settled=False), "token count"),
    "the counters are absent": (lambda k: k.swap(-1, text=""), "preemption"),
    "no reading of the counters": (lambda k: k.lines.pop(), "preemption"),
    "another server answered": (lambda k: setattr(k, "attempt", replace(k.attempt, boot="beef")), "changed server"),
    "the canary before failed": (lambda k: setattr(k, "before", replace(k.before, status="failed")), "canary before"),
    "the canary after is missing": (lambda k: setattr(k, "after", None), "canary after"),
    "the canary before stands for the one after": (lambda k: setattr(k, "after", k.before), "canary after"),
    "the session was not sound": (lambda k: setattr(k, "closed", replace(k.closed, sound=False)), "session not sound"),
    "another launch": (lambda k: setattr(k, "server", replace(k.server, launch_sha256="2" * 64)), "another launch"),
    "another spec": (lambda k: setattr(k, "attempt", replace(k.attempt, spec_sha256="2" * 64)), "another spec"),
    "a knob is not in force": (
        lambda k: setattr(k, "server", replace(k.server, knobs=(Knob("--dtype", "x", "y", "cmdline", False),))),
        "knob not in force",
    ),
    "nothing was verified": (lambda k: setattr(k, "server", replace(k.server, knobs=())), "configuration not verified"),
    "the weights are not known": (
        lambda k: setattr(
            k,
            "server",
            replace(k.server, launch={"engine": "vllm"}, identity={"packages": {"a": "1"}, "engine_version": "1"}),
        ),
        "identity not known",
    ),
    "the client was never checked": (lambda k: setattr(k, "client", None), "client not checked"),
    "the client was checked on another boot": (
        lambda k: setattr(k, "client", replace(k.client, boot="0" * 16)),
        "client not checked",
    ),
    "the client's check lost requests": (
        lambda k: setattr(k, "client", replace(k.client, reasons=(Reason("requests lost"),))),
        "client not checked",
    ),
    "the client was checked with fewer streams": (
        lambda k: setattr(k, "client", replace(k.client, streams=1)),
        "client not checked",
    ),
    "the client is 17 times finer than a step": (
        lambda k: (
            setattr(k, "server", replace(k.server, launch={"engine": "vllm"})),
            setattr(k, "client", replace(k.client, lag_p99_ms=0.3)),
        ),
        "client too coarse",
    ),
    "nothing was planned": (lambda k: setattr(k, "expected", ()), "nothing planned"),
}


@pytest.mark.parametrize(("break_it", "what"), BREAKS.values(), ids=BREAKS)
def test_each_single_fault_makes_the_attempt_invalid(break_it: Callable[[Kit], object], what: str) -> None:
    """One thing off, one reason that names it, and never a number that may be shown."""
    kit = Kit(ladder_item())
    break_it(kit)
    result = judged(kit)
    assert result.state == "invalid"
    assert any(what in r.what for r in result.reasons), result.reasons


def test_failed_and_skipped_attempts_say_so() -> None:
    """Without a measurement the state is the attempt's own, with its reasons."""
    kit = Kit(ladder_item())
    kit.attempt = replace(kit.attempt, status="failed", reasons=(Reason("no server"),))
    assert (judged(kit).state, judged(kit).reasons) == ("failed", (Reason("no server"),))
    kit.attempt = replace(kit.attempt, status="skipped", reasons=(Reason("gate"),))
    assert judged(kit).state == "skipped"


def test_a_client_that_is_fine_enough_is_no_reason() -> None:
    """A step of 5 ms allows stamps that are 0.25 ms late; the timer of the simulated server asks for nothing."""
    kit = Kit(ladder_item())
    assert kit.client is not None
    real = replace(kit.server, launch={"engine": "vllm"})
    for lag, server, count in ((0.25, real, 0), (0.26, real, 1), (9.0, kit.server, 0)):
        client = replace(kit.client, lag_p99_ms=lag)
        assert len(client_reasons(kit.item, client, server, judged(kit).requests)) == count
    assert judged(kit).client == kit.client


def test_streams_that_were_not_at_once_are_no_rung() -> None:
    """Two streams behind one barrier of which one was over before the other began: nothing was measured at two."""
    result = judged(Kit(ladder_item()))
    passes = [b for b in result.batches if b.batch.startswith("pass-")]
    assert {(b.in_flight, b.decoding, b.dispatch_ns) for b in passes} == {(2, 2, 0)}
    (reason,) = batch_reasons([replace(passes[0], in_flight=1), *passes[1:]], Kit(ladder_item()).server)
    assert (reason.what, reason.found, reason.expected) == ("streams in flight", "1", "2")


def test_acceptance_from_the_counters() -> None:
    """Length and shares by position; unknown where drafts are absent, nothing was drafted, or a position was reset."""
    counted: dict[str, float | None] = {"drafts": 10.0, "accepted_tokens": 12.0, "accepted_position_0": 8.0}
    assert acceptance({**counted, "accepted_position_1": 4.0}) == (2.2, (0.8, 0.4))
    assert acceptance({**counted, "accepted_position_1": None}) == (2.2, None)
    assert acceptance({**counted, "accepted_position_2": 1.0}) == (2.2, None)
    assert acceptance({**counted, "drafts": 0.0}) == (None, None)
    assert acceptance({"accepted_tokens": 12.0}) == (None, None)
    assert acceptance({}) == (None, None)


def test_a_strict_headline_needs_every_rate() -> None:
    """One answer shorter than the window, and there is no median at all."""
    kit = Kit(strict_item())
    assert value_of(kit.item, judged(kit)) == pytest.approx(200.0)
    new_answer(kit, answer("p0")[:10])
    kit.lines[-1] = metrics("after", 34)
    result = judged(kit)
    assert result.state == "accepted"  # a natural end is allowed in a strict suite
    assert value_of(kit.item, result) is None


def test_the_kit_itself_is_sound() -> None:
    """The boot of the kit is the one in its served name, so the faults above are the only ones."""
    kit = Kit(ladder_item())
    assert BOOT in kit.server.model
    assert len(kit.expected) == 4
