"""Every scenario of the simulated server, and what our client and judge report of it; the table in docs says the same."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from measure.test_simulated_server import Server, serving
from rungproof.judge.counters import counter_deltas
from rungproof.judge.identity import divergence
from rungproof.judge.outcome import batch_of, result_of
from rungproof.measure.client import Address, Planned, run_batch
from rungproof.measure.simulated.scenarios import SCENARIOS, document
from rungproof.measure.workloads.metrics import read_metrics
from rungproof.records import raw
from rungproof.records.formats import BatchResult, RequestResult

PROMPT = 4
Found = tuple[raw.Batch, list[raw.Request], list[RequestResult], BatchResult]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One simulated server for all scenarios."""
    with serving(tmp_path_factory.mktemp("scenarios")) as made:
        yield made


def ask(server: Server, name: str, streams: int, by_model: bool = False, first: int = 0, **more: Any) -> Found:
    """A batch of a scenario: raw and judged."""
    scenario = SCENARIOS[name]
    end = "/v1/chat/completions" if scenario.chat else "/v1/completions"
    planned = []
    for i in range(first, first + streams):
        body = {"model": name, "prompt": list(range(i, i + PROMPT)), "max_tokens": scenario.tokens, "stream": True}
        planned.append(Planned(f"k{i}", body | more))
    path = end if by_model else f"/{name}{end}"
    address = Address("127.0.0.1", server.port)
    idle_s = 1.0 if "timeout" in scenario.states else 60.0
    batch, requests = run_batch(address, planned, batch="b", path=path, deadline_s=120.0, idle_s=idle_s)
    results = [
        result_of(r, window=max(2, scenario.tokens), tokens=scenario.tokens, exact_length=True, prompt_tokens=PROMPT)
        for r in requests
    ]
    return batch, requests, results, batch_of(batch, results)


ASKED = [*((name, False) for name in SCENARIOS), ("S00", True), ("S11", True), ("S27", True)]


@pytest.mark.parametrize(("name", "by_model"), ASKED, ids=[f"{n}-{'model' if m else 'path'}" for n, m in ASKED])
def test_each_scenario_is_reported_as_the_table_says(server: Server, name: str, by_model: bool) -> None:
    """States and reasons are those of the table, every state counts, and whatever was received is kept."""
    scenario = SCENARIOS[name]
    batch, requests, results, summed = ask(server, name, scenario.streams, by_model)
    assert Counter(r.state for r in results) == Counter(scenario.states)
    assert sum(summed.states.values()) == summed.planned == scenario.streams
    reasons = [reason for r in results for reason in r.reasons]
    if scenario.reason:
        assert reasons
        assert all(reason.what == scenario.reason and scenario.words in str(reason) for reason in reasons)
        assert summed.aggregate is None
    else:
        assert reasons == []
    for request, result in zip(requests, results, strict=True):
        assert sum(length for _, length in request.chunks) == len(request.bytes)
        if result.state == "complete" and not result.reasons:
            assert result.token_ids == tuple(range(1000, 1000 + scenario.tokens)) or name == "S59"
    assert batch.planned == tuple(r.key for r in requests)


def only(found: Found) -> RequestResult:
    """The one result."""
    (result,) = found[2]
    return result


def test_text_survives_every_cut(server: Server) -> None:
    """S01, S05: neither characters nor spaces are lost where a write ends."""
    assert only(ask(server, "S01", 1)).text == "狐" * SCENARIOS["S01"].tokens
    assert only(ask(server, "S05", 1)).text == "".join(f" two  words {k} " for k in range(6))


def test_what_came_before_an_error_is_kept(server: Server) -> None:
    """S11, S19, S67: tokens and usage that came stay in the record, and no rate is made of them."""
    for name in ("S11", "S16", "S67"):
        found = only(ask(server, name, 1))
        assert found.token_ids == tuple(range(1000, 1005))
        assert found.decode_rate is None
    assert only(ask(server, "S19", 1)).completion_tokens == SCENARIOS["S19"].tokens


def test_times_of_first_and_last_tokens(server: Server) -> None:
    """S24, S27, S38: a role is no token, a late [DONE] no latency, and the first wait is in no step."""
    late = only(ask(server, "S24", 1))
    assert late.last_token_ns is not None
    assert late.end_ns - late.last_token_ns > 450_000_000
    for name in ("S27", "S38"):
        found = only(ask(server, name, 1))
        assert found.ttft_ns is not None
        assert found.step_median_ns is not None
        assert found.ttft_ns > 140_000_000 > found.step_median_ns


def test_reasoning_and_content_are_told_apart(server: Server) -> None:
    """S28, S29: every channel's tokens count once; the content's first token is its own."""
    half, whole = only(ask(server, "S28", 1)), only(ask(server, "S29", 1))
    assert (half.reasoning_tokens, whole.reasoning_tokens) == (6, 12)
    assert half.content_ttft_ns is not None
    assert half.ttft_ns is not None
    assert half.content_ttft_ns > half.ttft_ns
    assert whole.content_ttft_ns is None
    assert half.text == "".join(f"t{k} " for k in range(12))


def test_streams_in_flight_are_counted_on_both_sides(server: Server) -> None:
    """S35, S36, S36b: in flight as asked; what a server that queues decodes at once is another number."""
    _, requests, _, summed = ask(server, "S36", 16)
    assert (summed.in_flight, summed.decoding) == (16, 16)
    assert summed.dispatch_ns is not None
    peaks = [int(r.bytes.split('"in_flight_peak": ')[1].split("}")[0]) for r in requests]
    assert max(peaks) == 16
    for name, streams, at_once in (("S35", 4, 1), ("S36b", 8, 4)):
        summed = ask(server, name, streams)[3]
        assert (summed.in_flight, summed.decoding) == (streams, at_once)
        assert summed.aggregate is not None


def test_tokens_are_counted_by_their_ids(server: Server) -> None:
    """S37, S40: neither events nor texts say how many tokens came; a step's time is not a token's."""
    packed = only(ask(server, "S37", 1))
    assert packed.steps < len(packed.token_ids) == 12
    assert packed.decode_rate is not None
    assert packed.step_median_ns is not None
    assert packed.decode_rate > 1.5e9 / packed.step_median_ns
    assert len(only(ask(server, "S40", 1)).token_ids) == 100


def test_a_cache_hit_is_seen(server: Server) -> None:
    """S44: a prompt that was asked before is reported as cached."""
    assert only(ask(server, "S44", 1, first=900)).cached_tokens == 0
    assert only(ask(server, "S44", 1, first=900)).cached_tokens == PROMPT


def test_a_cold_pass_is_kept_beside_the_warm_one(server: Server) -> None:
    """S45: each pass has its own figures, so a cold one cannot hide."""
    cold, warm = (ask(server, "S45", 3)[3] for _ in range(2))
    assert cold.aggregate is not None
    assert warm.aggregate is not None
    assert cold.aggregate < warm.aggregate  # the cold one's steps are ten times as long


def test_the_body_that_was_received_is_the_one_recorded(server: Server) -> None:
    """S49, S51: every parameter arrives as recorded, also in a body of 200 KB."""
    for name, prompt in (("S49", [1, 2, 3, 4]), ("S51", list(range(40_000)))):
        _, (request,), (result,), _ = ask(server, name, 1, prompt=prompt, temperature=0.0, seed=42)
        said = json.loads(result.text[result.text.index("{") :])
        assert said["body_sha256"] == hashlib.sha256(request.body.encode("latin-1")).hexdigest()
        assert said["parameters"]["seed"] == 42
    assert len(request.body) > 200_000


def test_nothing_is_asked_twice(tmp_path: Path) -> None:
    """S58: the server sees the refused request once, so the next batch is the second that it sees."""
    with serving(tmp_path) as fresh:
        assert only(ask(fresh, "S58", 1)).state == "http_error"
        assert only(ask(fresh, "S58", 1)).state == "complete"


def test_a_server_that_is_loading_is_not_ready(tmp_path: Path) -> None:
    """S55: only status 200 says that a server is there, and completions follow it."""
    with serving(tmp_path) as fresh:
        assert [fresh.get("/S55/health")[0] for _ in range(4)] == [503, 503, 503, 200]
        assert only(ask(fresh, "S55", 1)).state == "complete"


def test_an_output_that_depends_on_load_is_found(tmp_path: Path) -> None:
    """S59: alone the answer is the oracle; with eight at once every one leaves it at token 44."""
    with serving(tmp_path) as fresh:
        alone = only(ask(fresh, "S59", 1))
        for result in ask(fresh, "S59", 8)[2]:
            found = divergence("p", "b", result.token_ids, alone.token_ids)
            assert found is not None
            assert found.index == 44


def test_preemptions_are_counted(server: Server) -> None:
    """S64: the change of the server's counter is in the record."""
    url = f"http://127.0.0.1:{server.port}/S64"
    before = read_metrics(url, "before")
    ask(server, "S64", 1)
    counted = counter_deltas([before, read_metrics(url, "after")])
    assert counted["preemptions"] == 3.0
    assert counted["generation_tokens"] == SCENARIOS["S64"].tokens


def test_the_table_in_docs_is_the_one_in_code() -> None:
    """docs/scenarios.md says what the tests above hold; `make scenarios` writes it."""
    assert (Path(__file__).parents[2] / "docs/scenarios.md").read_text(encoding="utf-8") == document()
