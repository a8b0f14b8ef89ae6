"""Rates under the physical ceiling of the host, where its profile declares one.

Each token needs at least one multiply and one add (2 operations) with every parameter of the matrices that it passes, whatever
the batch and whether or not it was drafted; and each step reads those weights once from memory, where they do not fit the
caches. A step gives a stream at most 1 + draft depth tokens. Source: Kaplan et al. 2020 (arXiv 2001.08361), section 2.1, for
operations a token; the roofline model (Williams, Waterman, Patterson 2009) for the two ceilings.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rungproof.judge.checks.found import Found
from rungproof.records.formats import Judged, Server
from rungproof.records.plan import Plan


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Most tokens a second: of all streams together by operations, of one stream by memory (None: not bound by it)."""

    operations: float
    memory: float | None


def ceiling_of(peak: Mapping[str, Any], tensors: Mapping[str, Any], draft_depth: int) -> Ceiling | None:
    """The ceiling of one server. peak: `flops` [1/s], `bytes_s`, `cache_bytes`; tensors: `matmul_parameters`, `matmul_bytes`,
    from the headers of the weights. None where a figure is missing or not above 0: nothing is assumed."""
    flops, parameters = peak.get("flops"), tensors.get("matmul_parameters")
    speed, cache, size = peak.get("bytes_s"), peak.get("cache_bytes"), tensors.get("matmul_bytes")
    if not _positive(flops) or not _positive(parameters):
        return None
    assert flops is not None and parameters is not None
    memory = None
    if _positive(speed) and _positive(size) and _positive(cache) and size > cache:  # type: ignore[operator]
        memory = (1 + draft_depth) * speed / size  # type: ignore[operator]
    return Ceiling(flops / (2 * parameters), memory)


def check_ceiling(plan: Plan, good: Mapping[str, Judged], servers: Mapping[str, Server], found: Found) -> None:
    """Every rate of every record in use. Where nothing is declared it says so, once."""
    peak = plan.limits.get("peak")
    if not isinstance(peak, dict):
        found.note(f"rates: no ceiling declared by host profile {plan.host!r}: not checked")
        return
    found.need("L4", "rates under a ceiling")
    for item, judged in good.items():
        server = servers.get(judged.session)
        model = server.identity.get("model") if server else None
        tensors = model.get("tensors") if isinstance(model, dict) else None
        arm = plan.arm(judged.arm)
        ceiling = ceiling_of(peak, tensors, arm.draft_depth) if isinstance(tensors, dict) else None
        if ceiling is None:
            found.fail("L4", f"{item}: a ceiling is declared, but the parameters of its weights are not recorded")
            continue
        for where, rate, streams in _rates(judged):
            found.count("rates under a ceiling")
            limit = ceiling.operations if ceiling.memory is None else min(ceiling.operations, streams * ceiling.memory)
            if rate > limit:
                found.fail(
                    "L4",
                    f"{item}: {where}: {rate:.1f} tokens/s, above what the host can do ({limit:.1f}; {peak.get('source')})",
                )


def _rates(judged: Judged) -> list[tuple[str, float, int]]:
    """Name, rate and number of streams of everything that a point may be made from."""
    made = [(f"{r.batch}/{r.key}", r.decode_rate, 1) for r in judged.requests if r.decode_rate is not None]
    return made + [(b.batch, b.aggregate, b.concurrency) for b in judged.batches if b.aggregate is not None]


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
