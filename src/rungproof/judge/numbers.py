"""The one number that each kind of item gives, from its judged requests and batches."""

from collections.abc import Mapping, Sequence
from math import fsum

from rungproof.judge.counters import acceptance
from rungproof.judge.rates import class_balanced_median
from rungproof.judge.rungs import Pass, shown_index, shown_value
from rungproof.judge.stats import median
from rungproof.records.formats import Judged
from rungproof.records.plan import Item

UNITS = {"strict": "tok/s", "depth": "tok/s", "short": "tok/s", "ladder": "tok/s", "probe": ""}
METRICS = {"strict": "decode_rate", "depth": "decode_rate", "short": "decode_rate", "ladder": "aggregate"}


def value_of(item: Item, judged: Judged) -> float | None:
    """The published number of an item, or None where it cannot be had (a request too short for the window, a lost request).

    strict: median of the class medians of the decode rate [tokens/s]. depth, short: median of the decode rate over
    the texts or prompts [tokens/s]. ladder: aggregate of the pass, or passes, that the rules name [tokens/s]: completion tokens over wall time.
    """
    kind = item.spec["kind"]
    if kind == "probe":
        return None
    if kind == "ladder":
        return shown_value(item.rules, passes_of(item, judged))
    if kind == "strict":
        return headline_of(item.rules["classes"], judged)
    rates = [r.decode_rate for r in judged.requests]
    return median([rate for rate in rates if rate is not None]) if rates and None not in rates else None


def headline_of(classes: Mapping[str, str], judged: Judged) -> float | None:
    """Median of the class medians of the decode rate on one server [tokens/s]; classes: prompt -> its class."""
    rates: dict[str, list[float]] = {}
    for r in judged.requests:
        if r.decode_rate is None:
            return None
        rates.setdefault(classes[r.key], []).append(r.decode_rate)
    return class_balanced_median(rates) if rates else None


def passes_of(item: Item, judged: Judged, counts: Sequence[tuple[int, int]] = ()) -> tuple[Pass, ...]:
    """The passes of a rung in order, with their counts of exact outputs where they are known; none unless all planned ones are there."""
    batches = [b for b in judged.batches if b.batch.startswith("pass-")]
    if len(batches) != int(item.spec["passes"]):
        return ()
    known = counts if len(counts) == len(batches) else [(0, 0)] * len(batches)
    return tuple(
        Pass(k, n, b.aggregate, b.completion_tokens, b.wall_ns) for (k, n), b in zip(known, batches, strict=True)
    )


def spread_of(item: Item, judged: Judged) -> tuple[float, float] | None:
    """Lowest and highest of the values behind the shown one: the texts of a depth, the passes of a rung; None for strict."""
    kind = item.spec["kind"]
    if kind in ("depth", "short"):
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
        "kind": item.spec["kind"],
        "ttft_ms_median": median(ttft) if ttft else None,
        "ttft_ms_low": min(ttft, default=None),
        "ttft_ms_high": max(ttft, default=None),
        "step_ms_median": median(steps) if steps else None,
        "tokens_per_step": fsum(per_step) / len(per_step) if per_step else None,
        "drafts": judged.counters.get("drafts"),
        "draft_tokens": judged.counters.get("draft_tokens"),
        "accepted_tokens": judged.counters.get("accepted_tokens"),
        "acceptance_length": length,
        "acceptance_by_position": list(by_position) if by_position is not None else None,  # as JSON gives it back
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
    if item.spec["kind"] == "short":
        made["interval"] = "slowest and fastest of the prompts"
    if item.spec["kind"] == "ladder":
        passes = [b for b in judged.batches if b.batch.startswith("pass-")]
        made["passes"] = [b.aggregate for b in passes]
        made["shown"], made["exact"] = item.rules["shown"], item.rules["exact"]
        shown = value_of(item, judged)
        made["per_user"] = shown / int(item.spec["concurrency"]) if shown is not None else None
        at = shown_index(item.rules, len(passes)) if passes and shown is not None else None
        chosen = passes[at] if at is not None else None
        made["in_flight"] = chosen.in_flight if chosen else None
        made["decoding"] = chosen.decoding if chosen else None
        made["dispatch_ms"] = chosen.dispatch_ns / 1e6 if chosen and chosen.dispatch_ns is not None else None
    return made


def center(values: Sequence[float | None]) -> float | None:
    """Mean of the servers' values; None where one is missing or there is none."""
    whole = [v for v in values if v is not None]
    return fsum(whole) / len(whole) if whole and len(whole) == len(values) else None
