"""One attempt judged: sound evidence is accepted, and each single thing that is off is found and named."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from judge.evidence_kit import BOOT, LAUNCH, Kit, answer, ladder_item, metrics, request, response, strict_item
from rungproof.judge.attempt import judge_attempt
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
