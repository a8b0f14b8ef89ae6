"""What a client reported against what the server knows. The burst server's stamps stand in the text of its events."""

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

STAMPS = re.compile(r"(?:(\d{6,})>)?(\d{6,})")


@dataclass
class Answer:
    """One request as a tool reports it. Times [ms]; None: the tool does not say. `ok`: it counts it as a success."""

    ok: bool
    ttft_ms: float | None = None
    itl_ms: list[float] | None = None
    tokens: int | None = None
    text: str | None = None


@dataclass
class Outcome:
    """One run of one tool. `cpu_us_event`: processor time of its processes from the first request's arrival to the last event
    sent, an event; `cpu_s`: of its whole life. `words`: why there is nothing, "" if there is something."""

    tool: str
    case: str
    answers: list[Answer] = field(default_factory=list)
    exit_code: int | None = None
    wall_s: float = 0.0
    cpu_s: float = 0.0
    cpu_us_event: float | None = None
    server: dict[str, Any] = field(default_factory=dict)
    load_1min: float = 0.0
    words: str = ""


def stamps_of(text: str) -> tuple[int | None, list[int]]:
    """When the request arrived and when each event was sent, as the server wrote it into the text [ns]."""
    arrived: int | None = None
    sent = []
    for match in STAMPS.finditer(text):
        arrived = int(match[1]) if match[1] else arrived
        sent.append(int(match[2]))
    return arrived, sent


def figures(outcome: Outcome, planned: int, tokens: int) -> dict[str, Any]:
    """Errors (reported minus true) of times to first token and of times between tokens [ms], and counts."""
    ttft: list[float] = []
    itl: list[float] = []
    sent_tokens = 0
    for one in outcome.answers:
        arrived, sent = stamps_of(one.text or "")
        sent_tokens += len(sent)
        if one.ttft_ms is not None and arrived is not None and sent:
            ttft.append(one.ttft_ms - (sent[0] - arrived) / 1e6)
        true = [(after - before) / 1e6 for before, after in pairwise(sent)]
        if one.itl_ms is not None and len(one.itl_ms) == len(true):
            itl += [reported - real for reported, real in zip(one.itl_ms, true, strict=True)]
    counted = [one.tokens for one in outcome.answers if one.tokens is not None and one.ok]
    return {
        "tool": outcome.tool, "case": outcome.case, "words": outcome.words, "exit_code": outcome.exit_code,
        "requests": len(outcome.answers), "planned": planned, "ok": sum(one.ok for one in outcome.answers),
        "tokens_counted": sum(counted) if counted else None, "tokens_sent": planned * tokens, "tokens_in_texts": sent_tokens,
        "ttft_error_p50_ms": rank(ttft, 0.5), "ttft_error_p99_ms": rank(ttft, 0.99), "ttft_compared": len(ttft),
        "itl_error_p50_ms": rank([abs(e) for e in itl], 0.5), "itl_error_p99_ms": rank([abs(e) for e in itl], 0.99),
        "itl_compared": len(itl), "cpu_us_event": outcome.cpu_us_event, "cpu_s": outcome.cpu_s, "wall_s": outcome.wall_s,
        "server": outcome.server, "load_1min": outcome.load_1min,
    }  # fmt: skip


def rank(values: Sequence[float], share: float) -> float | None:
    """The nearest-rank percentile; None for no values."""
    return sorted(values)[math.ceil(share * len(values)) - 1] if values else None


def plain(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """Answers as JSON values."""
    return [asdict(one) for one in answers]
