"""From raw requests to states: exactly one each, and no doubt is lost."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.wire_samples import IDS, PROMPT, TOKENS, event, head, piece
from judge.wire_scenarios import MS, SCENARIOS, WINDOW, Scenario, request_of
from rungproof.judge.outcome import batch_of, result_of
from rungproof.records import codec, raw
from rungproof.records.formats import REQUEST_STATES, EndKind, RequestResult

SMALL = sorted(name for name, one in SCENARIOS.items() if len(one.data) < 8_000)


def judged(scenario: Scenario, **changes: object) -> RequestResult:
    """The scenario, judged as planned."""
    request = replace(request_of(scenario), **changes)  # type: ignore[arg-type]
    return result_of(request, window=WINDOW, tokens=TOKENS, exact_length=scenario.exact, prompt_tokens=PROMPT)


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_fault_has_its_state_and_reason(name: str) -> None:
    """Every known way in which a server misleads a client ends in the one right state, with a reason in words."""
    scenario = SCENARIOS[name]
    found = judged(scenario)
    assert found.state == scenario.state
    assert found.token_ids == scenario.ids
    if scenario.reason:
        reason = next(r for r in found.reasons if r.what == scenario.reason)
        assert scenario.words in str(reason)
        assert reason.where == "b/k"
    else:
        assert found.reasons == ()
    assert codec.build(RequestResult, json.loads(codec.canonical(found)), "x") == found


def test_a_complete_request_in_numbers() -> None:
    """TTFT counts from the send, the rate is (w-1)/(t_w - t_1), steps are events, and nothing else enters."""
    found = judged(SCENARIOS["S00 plain"])
    assert (found.sent_ns, found.ttft_ns, found.last_token_ns) == (10**9, 20 * MS, 10**9 + 100 * MS)
    assert found.decode_rate == 3 / 0.060
    assert (found.steps, found.step_median_ns) == (5, 20 * MS)
    assert (found.completion_tokens, found.prompt_tokens, found.cached_tokens) == (5, 7, None)


def test_several_tokens_of_one_event_share_its_time() -> None:
    """With speculation the rate counts tokens, the step time counts events."""
    found = judged(SCENARIOS["S37 several tokens an event"])
    assert found.decode_rate == 3 / 0.020
    assert (found.steps, found.step_median_ns) == (3, 20 * MS)


def test_fewer_tokens_than_the_window_have_no_rate() -> None:
    """No rate is made from a part of the window."""
    assert judged(SCENARIOS["S43 natural end"]).decode_rate is None


def burst(wait_ns: int, step_ns: int, count: int = 20) -> RequestResult:
    """`count` one-token events, the first after `wait_ns`, then one each `step_ns`."""
    parts = [(10**9, head())]
    for i in range(count):
        parts.append((10**9 + wait_ns + step_ns * i, event(piece([i], "x", "length" if i == count - 1 else None))))
    use = {"usage": {"completion_tokens": count, "prompt_tokens": 1}}
    parts.append((parts[-1][0], event(use) + event("[DONE]")))
    request = replace(
        request_of(SCENARIOS["S00 plain"]),
        chunks=tuple((at, len(data)) for at, data in parts),
        bytes=b"".join(data for _, data in parts).decode("latin-1"),
        end="eof",
    )
    return result_of(request, window=10, tokens=count, exact_length=True, prompt_tokens=None)


def test_a_burst_at_the_end_is_not_a_stream() -> None:
    """S32: an answer that was held back and sent at once gets no rate, and says why; a fast stream keeps its own."""
    held = burst(1500 * MS, 10_000)
    assert held.decode_rate is None
    assert [r.what for r in held.reasons] == ["not streamed"]
    assert [r.what for r in burst(1500 * MS, 0).reasons] == ["not streamed"]
    for fast in (burst(1500 * MS, 2 * MS), burst(MS, 200_000)):
        assert fast.reasons == ()
        assert fast.decode_rate is not None
    assert [r.what for r in burst(MS, 20_000).reasons] == ["too fast for the clock"]
    assert burst(MS, 20_000).decode_rate is None


def test_a_first_token_before_the_request_is_refused() -> None:
    """B23: no negative time is ever published."""
    found = judged(SCENARIOS["S00 plain"], sent_ns=10**10)
    assert found.ttft_ns is None
    assert [r.what for r in found.reasons] == ["first token before the request"]


def test_a_body_without_length_needs_the_end_of_the_connection() -> None:
    """A record that claims an end which such a body cannot have is not whole."""
    found = judged(SCENARIOS["S00 until close"], end="framed")
    assert found.state == "truncated"
    assert "end of the connection" in str(found.reasons[0])


def test_late_done_is_no_latency() -> None:
    """S24: what comes after the last token does not lengthen it."""
    request = request_of(SCENARIOS["S00 plain"])
    late = request.chunks[:-2] + tuple((at + 2 * 10**9, size) for at, size in request.chunks[-2:])
    assert judged(SCENARIOS["S00 plain"], chunks=late).last_token_ns == 10**9 + 100 * MS


@pytest.mark.parametrize(
    "changes",
    [{"chunks": ((1, 5),)}, {"chunks": ((1, -5),)}, {"bytes": "\u20ac"}, {"chunks": ((5, 10**9),)}],
)
def test_raw_records_that_disagree_are_no_evidence(changes: dict[str, object]) -> None:
    """A raw request whose stamps do not fit its bytes is never complete."""
    found = judged(SCENARIOS["S00 plain"], **changes)
    assert found.state == "client_error"
    assert found.reasons[0].what == "raw record damaged"


def test_a_request_never_sent() -> None:
    """A refused connection has an outcome with a reason and no times."""
    found = judged(SCENARIOS["refused"], sent_ns=None, sent_end_ns=None, connected_ns=None)
    assert (found.state, found.ttft_ns, found.sent_ns) == ("client_error", None, 2 * 10**9)


@settings(max_examples=150)
@given(st.binary(max_size=150), st.sampled_from(SMALL), st.text(max_size=9), st.data())
def test_any_raw_request_has_one_outcome(noise: bytes, name: str, body: str, data: st.DataObject) -> None:
    """Whatever was received and however it ended, a request is in one state, with a reason unless complete."""
    ends: list[EndKind] = ["framed", "eof", "reset", "timeout", "refused", "cancelled", "oversize", "client_error"]
    base = SCENARIOS[name].data[:3000]
    at = data.draw(st.integers(0, len(base)))
    made = data.draw(st.sampled_from([noise, base[:at] + noise + base[at:], base[:at]]))
    end = data.draw(st.sampled_from(ends))
    request = replace(
        request_of(SCENARIOS[name]), chunks=((10**9, len(made)),), bytes=made.decode("latin-1"), end=end, body=body
    )
    found = result_of(request, window=WINDOW, tokens=TOKENS, exact_length=True, prompt_tokens=None)
    assert found.state in REQUEST_STATES
    assert found.state == "complete" or found.reasons
    assert found.state != "complete" or (end in ("framed", "eof") and found.token_ids)
    codec.canonical(found)


BATCH = raw.Batch("b", 10**9 - 50 * MS, ("k", "l"), "kernel", 0, 0)


def test_aggregate_of_a_whole_batch() -> None:
    """Aggregate = all tokens over the time from the barrier to the last token of all, not a mean of rates."""
    one = judged(SCENARIOS["S00 plain"])
    two = replace(one, key="l", last_token_ns=10**9 + 150 * MS)
    found = batch_of(BATCH, [one, two])
    assert (found.completion_tokens, found.wall_ns, found.aggregate) == (10, 200 * MS, 10 / 0.2)
    assert (found.concurrency, found.planned, found.stamp_source) == (2, 2, "kernel")
    assert set(found.states) == set(REQUEST_STATES)
    assert found.states["complete"] == 2
    assert sum(found.states.values()) == 2


def test_no_aggregate_over_a_doubt() -> None:
    """One lost, failed, doubtful, foreign or doubled request leaves the whole batch without an aggregate."""
    one = judged(SCENARIOS["S00 plain"])
    two = replace(one, key="l")
    doubtful = replace(judged(SCENARIOS["S43 short output"]), key="l")
    failed = replace(judged(SCENARIOS["S11 error after tokens"]), key="l")
    assert batch_of(BATCH, [one, two]).aggregate is not None
    for results in ([one], [one, doubtful], [one, failed], [one, one], [one, two, two], [one, replace(two, batch="c")]):
        assert batch_of(BATCH, results).aggregate is None
    assert batch_of(BATCH, [one, failed]).completion_tokens == len(IDS)
    assert batch_of(replace(BATCH, planned=()), []).aggregate is None
