"""What the counters of each engine's /metrics mean, and what grew between two readings of them.

Sources: vLLM, docs/usage/metrics; SGLang, references/production_metrics and srt/observability/metrics_collector.py (0.5.23);
llama.cpp, tools/server/README and server-task.cpp (b11434). An engine is told by the names that it prints.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rungproof.judge import prometheus
from rungproof.records import raw
from rungproof.records.formats import Reason, RequestResult

POSITION = "accepted_position_"  # a counter's word begins so and ends with the draft position


@dataclass(frozen=True, slots=True)
class Names:
    """Metrics of one engine. `words`: the word under which records keep a counter's growth -> its metric. running: gauge of the
    requests that it works on; per_position: counter by the label `position`, "" for none; witness: word -> a metric that stands
    there from the start, for a counter that the engine creates with its first event: where the witness stands and the counter
    does not, there was no event."""

    words: Mapping[str, str]
    running: str
    per_position: str = ""
    witness: Mapping[str, str] = field(default_factory=dict)

    @property
    def watched(self) -> tuple[str, ...]:
        """Metrics that stand still when nothing runs."""
        return self.words["generation_tokens"], self.words["prompt_tokens"], self.running


# The simulated server prints vLLM's.
ENGINES: dict[str, Names] = {
    "vllm": Names(
        {
            "generation_tokens": "vllm:generation_tokens_total",
            "prompt_tokens": "vllm:prompt_tokens_total",
            "preemptions": "vllm:num_preemptions_total",
            "prefix_cache_hits": "vllm:prefix_cache_hits_total",
            "drafts": "vllm:spec_decode_num_drafts_total",
            "draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
            "accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
        },
        "vllm:num_requests_running",
        "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    ),
    "sglang": Names(
        {
            "generation_tokens": "sglang:generation_tokens_total",
            "prompt_tokens": "sglang:prompt_tokens_total",
            "preemptions": "sglang:num_retracted_requests_total",
            "prefix_cache_hits": "sglang:cached_tokens_total",
            "drafts": "sglang:spec_verify_calls_total",
        },
        "sglang:num_running_reqs",
        witness={"preemptions": "sglang:num_retracted_reqs", "prefix_cache_hits": "sglang:cache_hit_rate"},
    ),
    # It has no counter of preemptions: see `rework`. Its prompt counter leaves out what came from a cache.
    "llama.cpp": Names(
        {
            "generation_tokens": "llamacpp:tokens_predicted_total",
            "prompt_tokens": "llamacpp:prompt_tokens_total",
            "prefix_cache_hits": "llamacpp:prompt_tokens_cached_total",
            "drafts": "llamacpp:spec_decode_num_drafts_total",
            "draft_tokens": "llamacpp:spec_decode_num_draft_tokens_total",
            "accepted_tokens": "llamacpp:spec_decode_num_accepted_tokens_total",
        },
        "llamacpp:requests_processing",
        "llamacpp:spec_decode_num_accepted_tokens_per_pos_total",
    ),
}  # fmt: skip


def names_of(text: str) -> Names | None:
    """The engine whose token counters stand in a text of /metrics; None where there is none of them."""
    found = prometheus.counters(text)
    return next((names for names in ENGINES.values() if names.words["generation_tokens"] in found), None)


def counter_deltas(lines: Sequence[raw.Line]) -> dict[str, float | None]:
    """Growth of each counter between the first and the last reading of /metrics; None: absent, reset or never settled."""
    snaps = [line for line in lines if isinstance(line, raw.Metrics)]
    names = names_of(snaps[0].text) if snaps else None
    if names is None or len(snaps) < 2 or not all(s.settled for s in snaps):
        return dict.fromkeys((names or ENGINES["vllm"]).words)
    before, after = snaps[0].text, snaps[-1].text
    made: dict[str, float | None] = {word: _grown(names, word, before, after) for word in names.words}
    by_position = prometheus.delta_by(before, after, names.per_position, "position") if names.per_position else {}
    for position, grown in by_position.items():
        made[f"{POSITION}{position}"] = grown
    return made


def _grown(names: Names, word: str, before: str, after: str) -> float | None:
    metric, witness = names.words[word], names.witness.get(word)
    old, new = prometheus.labelled(before, metric), prometheus.labelled(after, metric)
    seen = witness is not None and all(prometheus.labelled(text, witness) for text in (before, after))
    if not seen or old:
        return prometheus.delta(before, after, metric)
    return float(sum(new.values()))  # born between the readings, or not yet


def rework(counters: Mapping[str, float | None], results: Sequence[RequestResult]) -> float | None:
    """Prompt tokens [tokens] that the server worked through beyond those of the requests: work that was thrown away and done again.

    For an engine without a counter of preemptions. None where its counter or a request does not say.
    """
    asked = [r.prompt_tokens for r in results]
    done = counters.get("prompt_tokens")
    if done is None or any(count is None for count in asked):
        return None
    return done + (counters.get("prefix_cache_hits") or 0) - sum(count for count in asked if count is not None)


def interrupted(counters: Mapping[str, float | None]) -> float | None:
    """What must be 0 for requests to have run through: preemptions, or for an engine that counts none, reworked prompt tokens."""
    return counters["preemptions"] if "preemptions" in counters else counters.get("reworked_tokens")


def counter_reasons(counters: Mapping[str, float | None], results: Sequence[RequestResult]) -> list[Reason]:
    """The server's own counters: as many tokens as the client has, no preemption, no prefix-cache hit. Absent is not 0."""
    produced = sum(len(r.token_ids) for r in results)
    found = []
    for what, value, expected, where in (
        ("token count", counters.get("generation_tokens"), float(produced), "generation tokens"),
        ("preemption", interrupted(counters), 0.0, "preemptions" if "preemptions" in counters else "prompt tokens worked through again"),
        ("cache hit", counters.get("prefix_cache_hits"), 0.0, "prefix cache hits"),
    ):  # fmt: skip
        if value != expected:
            shown = "not reported" if value is None else f"{value:g}"
            found.append(Reason(what, found=shown, expected=f"{expected:g}", where=f"/metrics {where}"))
    return found


def acceptance(counters: Mapping[str, float | None]) -> tuple[float | None, tuple[float, ...] | None]:
    """Mean acceptance length [tokens a step, the one that needs no draft included], and by draft position, counted from 0,
    the share of drafts whose token there was accepted.

    None where the server has no such counters, one of them was reset, nothing was drafted, or a position is missing.
    """
    drafts, accepted = counters.get("drafts"), counters.get("accepted_tokens")
    length = 1 + accepted / drafts if drafts and accepted is not None else None
    found = {name.removeprefix(POSITION): value for name, value in counters.items() if name.startswith(POSITION)}
    by_position = [found.get(str(place)) for place in range(len(found))]
    if not drafts or not by_position or any(value is None for value in by_position):
        return length, None
    return length, tuple(value / drafts for value in by_position if value is not None)
