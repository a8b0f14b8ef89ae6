"""The one number that each kind of item gives, from its judged requests and batches."""

from collections.abc import Sequence
from math import fsum

from rungproof.judge.attempt import acceptance
from rungproof.judge.rates import class_balanced_median
from rungproof.judge.stats import median
from rungproof.records.formats import Judged
from rungproof.records.plan import Item

UNITS = {"strict": "tok/s", "depth": "tok/s", "ladder": "tok/s"}
METRICS = {"strict": "decode_rate", "depth": "decode_rate", "ladder": "aggregate"}


def value_of(item: Item, judged: Judged) -> float | None:
    """The published number of an item, or None where it cannot be had (a request too short for the window, a lost request).

    strict: median of the class medians of the decode rate [tokens/s]. depth: median of the decode rate over the texts
    [tokens/s]. ladder: aggregate of the pass that the rules name [tokens/s]: completion tokens over wall time of the batch.
    """
    kind = item.spec["kind"]
    if kind == "ladder":
        shown = shown_pass(item, judged)
        return shown[0] if shown else None
    rates = [r.decode_rate for r in judged.requests]
    if not rates or any(rate is None for rate in rates):
        return None
    if kind == "depth":
        return median([rate for rate in rates if rate is not None])
    classes: dict[str, list[float]] = {}
    for r in judged.requests:
        if r.decode_rate is not None:
            classes.setdefault(item.rules["classes"][r.key], []).append(r.decode_rate)
    return class_balanced_median(classes)


def shown_pass(item: Item, judged: Judged) -> tuple[float, str] | None:
    """Aggregate and name of the pass whose value is shown; None unless every planned pass gave an aggregate."""
    passes = [b for b in judged.batches if b.batch.startswith("pass-")]
    if len(passes) != int(item.spec["passes"]) or any(b.aggregate is None for b in passes):
        return None
    chosen = passes[-1] if item.rules["shown"] == "last" else passes[0]
    return (chosen.aggregate, chosen.batch) if chosen.aggregate is not None else None


def spread_of(item: Item, judged: Judged) -> tuple[float, float] | None:
    """Lowest and highest of the values behind the shown one: the texts of a depth, the passes of a rung; None for strict."""
    kind = item.spec["kind"]
    if kind == "depth":
        values = [r.decode_rate for r in judged.requests if r.decode_rate is not None]
    elif kind == "ladder":
        values = [b.aggregate for b in judged.batches if b.batch.startswith("pass-") and b.aggregate is not None]
    else:
        return None
    return (min(values), max(values)) if values else None


def detail_of(item: Item, judged: Judged) -> dict[str, object]:
    """Figures beside the value: times to first token [ms], steps, per-pass aggregates, drafts and how many were accepted, the
    client's own error, and the fewest distinct token ids of any answer: few would mean that the answers are degenerate and their
    identity worth little. Drafts are counted over the whole attempt, a ladder's one-at-a-time pass included."""
    ttft = [r.ttft_ns / 1e6 for r in judged.requests if r.ttft_ns is not None and not r.batch.startswith("oracle-")]
    steps = [
        r.step_median_ns / 1e6
        for r in judged.requests
        if r.step_median_ns is not None and not r.batch.startswith("oracle-")
    ]
    per_step = [len(r.token_ids) / r.steps for r in judged.requests if r.steps and not r.batch.startswith("oracle-")]
    length, by_position = acceptance(judged.counters)
    made: dict[str, object] = {
        "ttft_ms_median": median(ttft) if ttft else None,
        "step_ms_median": median(steps) if steps else None,
        "tokens_per_step": fsum(per_step) / len(per_step) if per_step else None,
        "drafts": judged.counters.get("drafts"),
        "draft_tokens": judged.counters.get("draft_tokens"),
        "accepted_tokens": judged.counters.get("accepted_tokens"),
        "acceptance_length": length,
        "acceptance_by_position": by_position,
        "client_lag_p99_ms": judged.client.lag_p99_ms if judged.client else None,
        "fewest_distinct_ids": min(
            (len(set(r.token_ids)) for r in judged.requests if r.state == "complete"), default=None
        ),
        "client_wait_share": max(
            (b.wait_ns / b.wall_ns for b in judged.batches if b.wait_ns is not None and b.wall_ns), default=None
        ),
        "scheduling": sorted({b.scheduling for b in judged.batches}),
        "stamp_source": sorted({b.stamp_source for b in judged.batches}),
    }
    if item.spec["kind"] == "ladder":
        passes = [b for b in judged.batches if b.batch.startswith("pass-")]
        made["passes"] = [b.aggregate for b in passes]
        made["shown"] = item.rules["shown"]
        shown = shown_pass(item, judged)
        made["per_user"] = shown[0] / int(item.spec["concurrency"]) if shown else None
        chosen = next((b for b in passes if shown and b.batch == shown[1]), None)
        made["in_flight"] = chosen.in_flight if chosen else None
        made["decoding"] = chosen.decoding if chosen else None
        made["dispatch_ms"] = chosen.dispatch_ns / 1e6 if chosen and chosen.dispatch_ns is not None else None
    return made


def center(values: Sequence[float | None]) -> float | None:
    """Mean of the servers' values; None where one is missing or there is none."""
    whole = [v for v in values if v is not None]
    return fsum(whole) / len(whole) if whole and len(whole) == len(values) else None
