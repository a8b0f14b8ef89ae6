"""Counters of the simulated server, shown as Prometheus text under vLLM's names."""

import json
import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """What the server has done since it started. All are counts; `accepted` is by draft position."""

    generation_tokens: int = 0
    prompt_tokens: int = 0
    preemptions: int = 0
    cache_hits: int = 0
    cache_queries: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted: list[int] = field(default_factory=list)
    finished: dict[str, int] = field(default_factory=lambda: {"abort": 0, "length": 0, "stop": 0})
    created: float = field(default_factory=time.time)

    def step(self, size: int, depth: int, drafted: bool) -> None:
        """Count one engine step that yielded `size` tokens; `drafted`: the step had a draft of `depth` tokens."""
        self.generation_tokens += size
        if drafted:
            self.drafts += 1
            self.draft_tokens += depth
            for position in range(size - 1):
                self.accepted[position] += 1


def render(counters: Counters, model: str, running: int, depth: int) -> str:
    """The text of /metrics. Draft counters are there only if the server drafts (depth > 0)."""
    labels = f'engine="0",model_name={json.dumps(model, ensure_ascii=False)}'
    out: list[str] = []

    def family(name: str, kind: str, about: str, rows: list[tuple[str, int]]) -> None:
        out.extend((f"# HELP vllm:{name} {about}", f"# TYPE vllm:{name} {kind}"))
        out.extend(f"vllm:{name}{{{labels}{more}}} {float(value)}" for more, value in rows)
        if kind == "counter":
            created = f"{name.removesuffix('_total')}_created"
            out.extend((f"# HELP vllm:{created} {about}", f"# TYPE vllm:{created} gauge"))
            out.extend(f"vllm:{created}{{{labels}{more}}} {counters.created}" for more, _ in rows)

    family("num_requests_running", "gauge", "Requests in flight.", [("", running)])
    family("num_requests_waiting", "gauge", "Requests that wait for a slot.", [("", 0)])
    family("num_preemptions_total", "counter", "Preemptions.", [("", counters.preemptions)])
    family("prompt_tokens_total", "counter", "Prompt tokens processed.", [("", counters.prompt_tokens)])
    family("generation_tokens_total", "counter", "Tokens generated.", [("", counters.generation_tokens)])
    family("prefix_cache_queries_total", "counter", "Prompt tokens looked up.", [("", counters.cache_queries)])
    family("prefix_cache_hits_total", "counter", "Prompt tokens found in the cache.", [("", counters.cache_hits)])
    ends = [(f',finished_reason="{reason}"', count) for reason, count in sorted(counters.finished.items())]
    family("request_success_total", "counter", "Requests ended, by reason.", ends)
    if depth:
        family("spec_decode_num_drafts_total", "counter", "Steps with a draft.", [("", counters.drafts)])
        family("spec_decode_num_draft_tokens_total", "counter", "Tokens drafted.", [("", counters.draft_tokens)])
        family("spec_decode_num_accepted_tokens_total", "counter", "Tokens accepted.", [("", sum(counters.accepted))])
        places = [(f',position="{place}"', count) for place, count in enumerate(counters.accepted)]
        family("spec_decode_num_accepted_tokens_per_pos_total", "counter", "Tokens accepted, by place.", places)
    return "\n".join(out) + "\n"
