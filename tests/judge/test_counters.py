"""What the counters of three engines mean: the same words for each, and nothing missing taken as 0."""

from dataclasses import replace

import pytest

from judge.plan_kit import ids_of, request
from rungproof.judge.counters import counter_deltas, counter_reasons, interrupted, names_of, rework
from rungproof.judge.meaning import Meaning
from rungproof.judge.sse import Frame
from rungproof.records import raw

VLLM = """vllm:generation_tokens_total{{e="0"}} {made}
vllm:prompt_tokens_total{{e="0"}} {read}
vllm:num_preemptions_total{{e="0"}} 0
vllm:prefix_cache_hits_total{{e="0"}} 0
vllm:num_requests_running{{e="0"}} 0
"""
# As SGLang 0.5 prints it: counters of what has not happened yet are not there, its gauges are.
SGLANG = """sglang:generation_tokens_total{{is_streaming="true"}} {made}
sglang:prompt_tokens_total{{is_streaming="true"}} {read}
sglang:num_running_reqs{{tp_rank="0"}} 0.0
sglang:num_retracted_reqs{{tp_rank="0"}} 0.0
sglang:cache_hit_rate{{tp_rank="0"}} 0.0
"""
# As llama.cpp b11434 prints it: nothing is ever preempted, so there is no such counter.
LLAMA = """llamacpp:prompt_tokens_total {read}
llamacpp:prompt_tokens_cached_total 0
llamacpp:tokens_predicted_total {made}
llamacpp:requests_processing 0
"""
RESULTS = [replace(request("pass-1", key, ids_of(key, 24)), prompt_tokens=5) for key in ("p0", "p1")]


def read(before: str, after: str) -> dict[str, float | None]:
    """Growth between two readings."""
    return counter_deltas([raw.Metrics("before", 1, True, before), raw.Metrics("after", 2, True, after)])


def judged(before: str, after: str) -> dict[str, float | None]:
    """As an attempt of RESULTS has them."""
    found = read(before, after)
    return found if "preemptions" in found else {**found, "reworked_tokens": rework(found, RESULTS)}


@pytest.mark.parametrize("text", [VLLM, SGLANG, LLAMA], ids=["vllm", "sglang", "llama.cpp"])
def test_each_engine_says_what_it_made_and_that_nothing_was_thrown_back(text: str) -> None:
    """48 tokens made of 10 prompt tokens, no work done twice, no cache hit: no reason; one token too many is one."""
    before = text.format(made=100, read=7)
    sound = judged(before, text.format(made=148, read=17))
    assert (sound["generation_tokens"], sound["prompt_tokens"], interrupted(sound)) == (48, 10, 0)
    assert sound["prefix_cache_hits"] == 0
    assert counter_reasons(sound, RESULTS) == []
    more = judged(before, text.format(made=149, read=17))
    assert [reason.what for reason in counter_reasons(more, RESULTS)] == ["token count"]


def test_work_done_twice_is_found_where_no_preemption_is_counted() -> None:
    """llama.cpp has no such counter: prompt tokens beyond those asked for tell of it, and what cannot be told is not 0."""
    before = LLAMA.format(made=0, read=0)
    again = judged(before, LLAMA.format(made=48, read=15))
    assert [(r.what, r.found) for r in counter_reasons(again, RESULTS)] == [("preemption", "5")]
    cached = judged(before, LLAMA.format(made=48, read=6).replace("cached_total 0", "cached_total 4"))
    assert [(r.what, r.found) for r in counter_reasons(cached, RESULTS)] == [("cache hit", "4")]
    silent = rework(read(before, LLAMA.format(made=48, read=10)), [replace(RESULTS[0], prompt_tokens=None)])
    assert silent is None
    assert interrupted({"reworked_tokens": silent}) is None
    assert rework({"prompt_tokens": None}, RESULTS) is None


def test_a_counter_that_comes_with_its_first_event_is_0_only_beside_its_witness() -> None:
    """SGLang: a retraction between the readings is counted; without the gauge nothing is known."""
    before, after = SGLANG.format(made=0, read=0), SGLANG.format(made=48, read=10)
    thrown = after + 'sglang:num_retracted_requests_total{tp_rank="0"} 2.0\n'
    assert read(before, thrown)["preemptions"] == 2
    assert read(thrown, thrown)["preemptions"] == 0
    assert read(thrown, after)["preemptions"] is None
    blind = [text.replace("num_retracted_reqs", "other") for text in (before, after)]
    assert read(*blind)["preemptions"] is None
    assert "preemption" in [reason.what for reason in counter_reasons(read(*blind), RESULTS)]


def test_counters_of_an_unknown_engine_are_none() -> None:
    """Nothing is read out of names that nobody has explained."""
    assert names_of("") is None
    assert names_of("tgi_tokens_total 5\n") is None
    assert set(read("tgi_tokens_total 5\n", "tgi_tokens_total 6\n").values()) == {None}


@pytest.mark.parametrize(
    ("event", "ids"),
    [
        (b'{"choices":[{"index":0,"text":"a"}],"__verbose":{"tokens":[7]}}', (7,)),
        (b'{"choices":[{"index":0,"text":"a","token_ids":[8]}],"__verbose":{"tokens":[7]}}', (8,)),
        (b'{"choices":[{"index":0,"text":"a"}],"__verbose":[7]}', ()),
        (b'{"choices":[{"index":0,"text":"a"}],"__verbose":{"tokens":null}}', ()),
    ],
)
def test_token_ids_are_taken_from_where_the_engine_puts_them(event: bytes, ids: tuple[int, ...]) -> None:
    """llama.cpp, asked to be verbose, gives them beside the choice."""
    meaning = Meaning()
    meaning.frame(Frame(b"", event, 0, True), 1)
    assert [found.token_ids for found in meaning.events] == [ids]
    assert meaning.error is None


def test_token_ids_that_are_none_are_an_error_wherever_they_stand() -> None:
    """A server is not believed in any place."""
    meaning = Meaning()
    meaning.frame(Frame(b"", b'{"choices":[{"index":0,"text":"a"}],"__verbose":{"tokens":["7"]}}', 0, True), 1)
    assert "expected a list of whole numbers" in str(meaning.error)
