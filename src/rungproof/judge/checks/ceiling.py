"""Rates under the physical ceiling of the host: the one that its profile declares, else what no processor of its kind can do.

Each token needs at least one multiply and one add (2 operations) with every parameter of the matrices that it passes, whatever
the batch and whether or not it was drafted; and each step reads those weights once from memory, where they do not fit the
caches. A step gives a stream at most 1 + draft depth tokens. Source: Kaplan et al. 2020 (arXiv 2001.08361), section 2.1, for
operations a token; the roofline model (Williams, Waterman, Patterson 2009) for the two ceilings.

Where nothing is declared and the server's environment shows processors alone, the ceiling follows from their flags and number. It is
generous on purpose, so that no honest machine is above it: each processor counts as a core of its own at 7 GHz (the fastest rated clock
is 6.2 GHz, Intel Core i9-14900KS) with the 8-bit dot products of its widest instructions every cycle, and the whole has the memory
of the fastest machine there is. Sources: Intel 64 and IA-32 Architectures Optimization Reference Manual, chapter on AMX (2,048 8-bit
operations a cycle and core, doubled here for what comes after); Software Optimization Guide for AMD Zen 5 (two multiply pipes of 512 bits);
T-MAC (arXiv 2407.00088): weights below a byte may be looked up in tables, so they count four times; Azure HBv5 (6.9 TB/s);
AMD EPYC 9684X (1,152 MB of cache a socket).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rungproof.judge.checks.found import Found
from rungproof.records.formats import Judged, Server
from rungproof.records.plan import Plan

# Flag of /proc/cpuinfo -> operations of 8 bits that a core can do in a cycle at most: two units, a multiply and an add a byte.
OPERATIONS = {"amx_tile": 4096, "avx512f": 2 * 2 * 64, "avx2": 2 * 2 * 32, "sse2": 2 * 2 * 16}
CLOCK_HZ, BYTES_S, CACHE_BYTES = 7e9, 8e12, 4 * 2**30
BELOW_A_BYTE = 4  # how many of them a look-up may stand for
DEVICE = re.compile(r"gpu\d+\.")


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


def peak_of(environment: Mapping[str, Any], tensors: Mapping[str, Any]) -> dict[str, Any] | None:
    """What no machine with these processors can pass, in the form that a host profile declares; None where the environment shows an
    accelerator, or not the flags and number of x86-64 processors, or the weights are not known. tensors: as `ceiling_of` has them."""
    flags, cpus = environment.get("cpu_flags"), environment.get("cpus_online")
    parameters, size = tensors.get("matmul_parameters"), tensors.get("matmul_bytes")
    known = set(flags.split()) if isinstance(flags, str) else set()
    widest = next((flag for flag in OPERATIONS if flag in known), None)
    if widest is None or not _positive(cpus) or not _positive(parameters) or not _positive(size):
        return None
    if any(DEVICE.match(key) for key in environment):
        return None
    few_bits = BELOW_A_BYTE if size < parameters else 1  # type: ignore[operator]
    return {
        "flops": OPERATIONS[widest] * few_bits * cpus * CLOCK_HZ,  # type: ignore[operator]
        "bytes_s": BYTES_S,
        "cache_bytes": CACHE_BYTES,
        "source": f"{cpus} processors with {widest} at {CLOCK_HZ / 1e9:g} GHz, which no machine passes",
    }


def check_ceiling(plan: Plan, good: Mapping[str, Judged], servers: Mapping[str, Server], found: Found) -> None:
    """Every rate of every record in use. What the ceiling is made from is told where the host declares none, and so is where none
    can be made."""
    declared = isinstance(plan.limits.get("peak"), dict)
    silent = f"rates: no ceiling declared by host profile {plan.host!r}"
    if declared:
        found.need("L4", "rates under a ceiling")
    for item, judged in good.items():
        peak, tensors = _bound(plan, servers.get(judged.session))
        ceiling = ceiling_of(peak, tensors, plan.arm(judged.arm).draft_depth)
        if ceiling is None and declared:
            found.fail("L4", f"{item}: a ceiling is declared, but the parameters of its weights are not recorded")
        elif ceiling is None:
            found.note(f"{silent}, and none follows from what is recorded of {judged.arm}: not checked")
        else:
            if not declared:
                found.note(f"{silent}: held against {peak['source']}")
            _compare(item, judged, ceiling, peak.get("source"), found)


def _bound(plan: Plan, server: Server | None) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Peak and tensors of a server, as `ceiling_of` takes them; {} where they are not known."""
    model = server.identity.get("model") if server else None
    tensors = model.get("tensors") if isinstance(model, dict) else None
    tensors = tensors if isinstance(tensors, dict) else {}
    if isinstance(declared := plan.limits.get("peak"), dict):
        return declared, tensors
    alone = server is not None and not plan.limits.get("devices")
    return (peak_of(server.environment, tensors) if alone and server else None) or {}, _least(tensors)


def _compare(item: str, judged: Judged, ceiling: Ceiling, source: Any, found: Found) -> None:
    for where, rate, streams in _rates(judged):
        found.count("rates under a ceiling")
        limit = ceiling.operations if ceiling.memory is None else min(ceiling.operations, streams * ceiling.memory)
        if rate > limit:
            found.fail(
                "L4", f"{item}: {where}: {rate:.1f} tokens/s, above what the host can do ({limit:.1f}; {source})"
            )


def _least(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The same weights as small as an engine may have made them while it loaded them: four bits each."""
    parameters, size = tensors.get("matmul_parameters"), tensors.get("matmul_bytes")
    if not _positive(parameters) or not _positive(size):
        return {}
    return {**tensors, "matmul_bytes": min(size, parameters / 2)}  # type: ignore[operator,type-var]


def _rates(judged: Judged) -> list[tuple[str, float, int]]:
    """Name, rate and number of streams of everything that a point may be made from."""
    made = [(f"{r.batch}/{r.key}", r.decode_rate, 1) for r in judged.requests if r.decode_rate is not None]
    return made + [(b.batch, b.aggregate, b.concurrency) for b in judged.batches if b.aggregate is not None]


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
