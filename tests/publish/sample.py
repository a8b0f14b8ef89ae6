"""A campaign with everything that a page must cope with: three arms, every state of a point, and hostile text."""

from collections.abc import Sequence
from dataclasses import replace
from math import log2
from typing import Any

from rungproof.judge import behind
from rungproof.records.codec import build, plain
from rungproof.records.formats import (
    BatchResult,
    ClientCheck,
    Divergence,
    Input,
    Judged,
    Knob,
    Point,
    PointState,
    Reason,
    RequestResult,
    Verdict,
)
from rungproof.records.summary import ArmInfo, CanaryRow, Headline, HistoryRow, SessionInfo, StrictRow, Summary

HOSTILE = '<script>alert("x")</script> \' onload="y" \u202eevil\u2066 שלום \x00\x1b[31m =1+1 {{ 7*7 }} ]]> <!--'
ARMS = ("base", "draft3", "bf16")
DEPTHS = (512, 1024, 2048, 3072, 4096)
RUNGS = (1, 2, 4, 8, 16)
MORE_DEPTHS = (*DEPTHS, 6144, 8192, 16384, 24576, 32768)
MORE_RUNGS = (*RUNGS, 24, 32, 48, 64, 128)
SPEED = {"base": 33.912734, "draft3": 58.403311, "bf16": 21.041908}
PROMPTS = (
    ("operations", "ops-1"), ("operations", "ops-2"), ("operations", "ops-3"),
    ("analysis", "ana-1"), ("analysis", "ana-2"), ("analysis", "ana-3"),
    ("code", "code-1"), ("code", "code-2"), ("prose", "prose-1"), ("prose", "prose-2"),
    ("documentation", "doc-1"), ("structured writing", "struct-1"),
)  # fmt: skip


def sample(depths: Sequence[int] = DEPTHS, rungs: Sequence[int] = RUNGS) -> Summary:
    """The whole campaign. Nothing in it is simulated, one arm is withheld, text of every origin is hostile somewhere."""
    points = _points(depths, rungs)
    return filled(Summary(
        campaign="sample_v1",
        title="SmolLM2 135M W4A16 on a CPU host",
        purpose=f"Shows every state of a point. {HOSTILE}",
        host="cpu-2core",
        simulated=False,
        claim="Greedy output of the speculative arm equals that of its no-speculation oracle, token for token, at the points shown.",
        lossless_claim=True,
        rules={"ladder": {"kind": "ladder", "passes": 2, "shown": "last", "tokens": 128}, "strict": {"window": 100, "cap": 512}, HOSTILE: [HOSTILE, 3, None, True]},
        arms=tuple(_arm(name) for name in ARMS),
        sessions=tuple(_session(arm, seat) for arm in ARMS for seat in ("a", "b")),
        canaries=tuple(row for arm in ARMS for row in _canaries(arm)),
        headlines=(
            Headline("base", "tok/s", (("a", 33.412871), ("b", 33.2098)), 33.3113355, "qualified", 12, 12, ()),
            Headline("draft3", "tok/s", (("a", 56.120034), ("b", 55.7841)), 55.952067, "qualified", 12, 12, ()),
            Headline("bf16", "tok/s", (("a", 20.8), ("b", None)), 20.8, "withheld", 11, 12, (f"prompt ended early {HOSTILE}",)),
        ),
        strict=tuple(_strict(arm, seat, *prompt, index) for arm in ARMS for seat in ("a", "b") for index, prompt in enumerate(PROMPTS)),
        points=(*_strict_points(), *points),
        verdicts=_verdicts(points),
        history=_history(points),
        suites=({"id": "canary-tiny", "kind": "canary", "weak": f"asks for no sense {HOSTILE}"}, {"name": "strict-12", "sha256": "ab" * 32, "prompts": 12}, {"name": HOSTILE, "sha256": "cd" * 32, "prompts": 16}),
        missing=("draft3.b depth 8192: not measured yet; run the same command again", f"tie probe: {HOSTILE}"),
        lock_sha256="0123456789abcdef" * 4,
    ))  # fmt: skip


def filled(summary: Summary) -> Summary:
    """The summary with what the judge computes from its other parts."""
    off = sum(v.state != "qualified" for v in summary.verdicts) + len(summary.unjudged)
    sessions = tuple(
        replace(s, finer=behind.finer(s.session, s.client, summary.points), watts=behind.watts(s.env))
        for s in summary.sessions
    )
    return replace(
        summary, tally=behind.tally(summary.points), gates_off=off, client_wait_share=behind.longest_wait(summary.points),
        medians=behind.seat_medians(summary.strict), profiles=behind.profiles(summary.points), sessions=sessions,
        views=behind.views(summary.verdicts),
    )  # fmt: skip


def large() -> Summary:
    """The same campaign with 60 points, and plain words where the hostile ones were."""
    return calm(sample(MORE_DEPTHS, MORE_RUNGS))


def calm(summary: Summary) -> Summary:
    """A summary with plain words where hostile ones were."""
    return build(Summary, _calm(plain(summary)), "sample")


def _calm(value: Any) -> Any:
    if isinstance(value, dict):
        return {_calm(key): _calm(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_calm(item) for item in value]
    return value.replace(HOSTILE, "one output differs") if isinstance(value, str) else value


def empty() -> Summary:
    """A planned campaign before its first session."""
    return filled(replace(
        sample(), sessions=(), canaries=(), headlines=(), strict=(), points=(), verdicts=(), history=(), suites=(),
        lossless_claim=False, missing=("everything",), purpose="",
    ))  # fmt: skip


def accepted() -> tuple[Judged, ...]:
    """Two accepted items of small requests, one of them failed without a single token."""
    done = _request("pass1.c2", "pass1.c2.00", (5, 7, 11), 12.5)
    lost = replace(
        _request("pass1.c2", f"pass1.c2.01{HOSTILE}", (), None), state="timeout", ttft_ns=None, completion_tokens=None
    )
    batch = BatchResult(
        "pass1.c2", 2, 2, {"complete": 1, "timeout": 1}, 3, 10**9, None, "kernel", 2, 1, 120_000, 0, "fifo"
    )
    base = Judged(
        "base", "a", "ladder", "c2", "accepted", (), "r001.base.a", "b00t", "aa" * 32, "ab" * 32, "bb" * 32, {"tokens": 3},
        (Input("sessions/r001.base.a/attempts/ladder.c2.raw.jsonl.gz", "cc" * 32),), (done, lost), (batch,), {"preemptions": 0.0}, None, "dd" * 32,
    )  # fmt: skip
    return (base, replace(base, arm="draft3", session="r001.draft3.a"))


def _request(batch: str, key: str, ids: tuple[int, ...], rate: float | None) -> RequestResult:
    return RequestResult(
        batch, key, "complete", (), ids, len(ids), 20, 0, "length", HOSTILE, 1_000, 12_345_678, 99_000_000, rate, len(ids), 8_000_000,
        None, 0, 99_500_000,
    )  # fmt: skip


def _arm(name: str) -> ArmInfo:
    arguments = {"dtype": "bfloat16", "max-model-len": 8192, "enforce-eager": True}
    return ArmInfo(
        name, f"{name} arm", "smollm2-135m-w4a16", "smollm2-135m-w4a16", "vllm", 3 if name == "draft3" else 0,
        "base" if name == "draft3" else name, {"engine": "vllm", "arguments": arguments, "model": HOSTILE}, name.encode().hex() * 8,
        "canary-tiny" if name == "draft3" else "canary-v1", f"Random weights {HOSTILE}" if name == "draft3" else "",
    )  # fmt: skip


def _session(arm: str, seat: str) -> SessionInfo:
    knobs = (
        Knob("--dtype", "bfloat16", "bfloat16", "/proc/4711/cmdline", True),
        Knob("--max-model-len", "8192", "8192", "engine log", True),
        Knob("VLLM_CPU_KVCACHE_SPACE", "2", "2" if seat == "a" else None, "/proc/4711/environ", seat == "a"),
        Knob(HOSTILE, HOSTILE, HOSTILE, HOSTILE, True),
    )
    environment = {
        "cpu": {"model": "AMD EPYC 9B14", "cores": 2, "flags": ["avx2", "avx512f", "amx_bf16"]},
        "memory_bytes": 8_300_000_000, "kernel": "6.1.0-18-amd64", "python": "3.11.7", "vllm": "0.11.0", "odd": HOSTILE,
        "load_1min": 0.4 if seat == "a" else 0.9, "variables": {f"NAME_{n}": "kept by name" for n in range(40)},
    }  # fmt: skip
    return SessionInfo(
        f"r001.{arm}.{seat}", arm, seat, "5f1c" + seat, "ready", True, True, "passed", "passed", 41.72, 612.4,
        "2026-03-01T10:00:00Z", () if seat == "a" else (f"slow start {HOSTILE}",), knobs,
        {"pid_tree": "one", "kernel": "marlin"}, environment, "exit code 0 after SIGTERM",
        ClientCheck(f"r001.{arm}.{seat}", "5f1c" + seat, 16, 1.6, 3, 7500, 0.004, 0.0104, 0.31, 0.05, 8.7, 0.2, 80_000.0, 0.1, "lag", ("kernel",), (), "x"),
    )  # fmt: skip


def _canaries(arm: str) -> list[CanaryRow]:
    rows = []
    for when in ("before", "after"):
        rows.append(
            CanaryRow(f"r001.{arm}.a", when, "repeat", True, "Say the days of the week.", "Monday, Tuesday", 8, 1, ())
        )
        why = () if arm != "bf16" else (HOSTILE,)
        rows.append(CanaryRow(f"r001.{arm}.a", when, "json", arm != "bf16", f"Give JSON {HOSTILE}", HOSTILE, 1, 1, why))
    return rows


def _strict(arm: str, seat: str, kind: str, prompt: str, index: int) -> StrictRow:
    rate = SPEED[arm] * (1 + 0.01 * ((index * 7) % 5 - 2)) + (0.1 if seat == "b" else 0)
    lost = arm == "bf16" and prompt == "doc-1"
    return StrictRow(
        arm, seat, kind, prompt, None if lost else rate, 81.25 + index, 64 if lost else 220 + index, 29.4, 2.31 if arm == "draft3" else 1.0,
        None if arm == "base" and seat == "a" else not lost, "withheld" if lost else "qualified",
    )  # fmt: skip


def _points(depths: Sequence[int], rungs: Sequence[int]) -> tuple[Point, ...]:
    made = []
    for arm in ARMS:
        for depth in depths:
            rate = SPEED[arm] * (1 - 0.06 * log2(depth / 512))
            made.append(
                _point(arm, "depth", str(depth), "decode_rate", float(depth), rate, 3, _state(arm, "depth", depth))
            )
        for rung in rungs:
            rate = SPEED[arm] * rung / (1 + rung / (4 if arm == "draft3" else 14))
            made.append(
                _point(arm, "ladder", f"c{rung}", "aggregate", float(rung), rate, rung * 2, _state(arm, "ladder", rung))
            )
    return tuple(made)


def _state(arm: str, workload: str, x: int) -> PointState:
    special: dict[tuple[str, str, int], PointState] = {
        ("draft3", "ladder", 4): "invalid", ("draft3", "depth", 4096): "failed", ("base", "depth", 2048): "missing",
        ("bf16", "depth", 1024): "skipped", ("draft3", "ladder", 16): "withheld",
    }  # fmt: skip
    if arm == "bf16" and workload == "ladder" and x >= 2:
        return "withheld"
    return special.get((arm, workload, x), "qualified")


def _point(arm: str, workload: str, item: str, metric: str, x: float, value: float, n: int, state: PointState) -> Point:
    measured = state in ("qualified", "withheld", "invalid")
    detail: dict[str, Any] = {
        "stamp_source": ["kernel"], "scheduling": ["fifo"], "client_wait_share": 0.0004, "ttft_ms_median": 81.25, "step_ms_median": 29.4, "tokens_per_step": 1.0, "fewest_distinct_ids": 61,
    }  # fmt: skip
    if arm == "draft3":
        detail |= {"draft_tokens": 90.0, "accepted_tokens": 0.0 if item == "512" else 31.0}
        detail |= {
            "acceptance_length": 2.0333,
            "acceptance_by_position": [0.61, 0.3, 0.125],
            "client_lag_p99_ms": 0.0104,
        }
        detail |= {"in_flight": 16, "decoding": HOSTILE}
    folder = f"accepted/{arm}.a/{workload}/{item}.json"
    return Point(
        f"{arm}/{workload}/{item}/{metric}", arm, workload, item, metric, x, value if measured else None, "tok/s", state,
        (n if state == "qualified" else n - 1) if measured else 0, n if measured else 0,
        () if state == "qualified" else (f"{state}: see the record {HOSTILE}",), (f"{workload}.{arm}.{item}",), f"r001.{arm}.a",
        (folder, f"sessions/r001.{arm}.a/attempts/{workload}.{item}.raw.jsonl.gz") if measured else (),
        value * 0.97 if workload == "depth" and measured else None, value * 1.02 if workload == "depth" and measured else None,
        {**detail, "per_user": value / x if workload == "ladder" else None},
    )  # fmt: skip


def _strict_points() -> list[Point]:
    made = []
    for arm, value in (("base", 33.3113355), ("draft3", 55.952067), ("bf16", 20.8)):
        evidence = tuple(f"sessions/r001.{arm}.{seat}/attempts/strict.suite.raw.jsonl.gz" for seat in ("a", "b"))
        state: PointState = "withheld" if arm == "bf16" else "qualified"
        reasons = (f"prompt ended early {HOSTILE}",) if arm == "bf16" else ()
        made.append(
            Point(f"{arm}/strict/suite/decode_rate", arm, "strict", "suite", "decode_rate", None, value, "tok/s", state,
                  11 if arm == "bf16" else 12, 12, reasons, (f"base_repeat.{arm}",), f"r001.{arm}.a", evidence)
        )  # fmt: skip
    return made


def _verdicts(points: Sequence[Point]) -> tuple[Verdict, ...]:
    off: tuple[Divergence, ...] = (Divergence("doc-1", "b", 17, 311, 297, 64, 220),)
    why = (Reason("diverged", HOSTILE, "equal", "doc-1"),)
    made = [
        _verdict(
            "base_repeat.base", "base_repeat", "base repeats itself on a fresh server", "qualified", 12, 12, 0.7790778
        ),
        _verdict(
            "draft_oracle.draft3", "draft_oracle", "draft depth 3 equals its oracle", "qualified", 24, 24, 0.8826538
        ),
        _verdict(
            "base_repeat.bf16", "base_repeat", f"bf16 repeats itself {HOSTILE}", "withheld", 11, 12, 0.6613, why, off
        ),
    ]
    off = (
        Divergence(f"p07{HOSTILE}", "pass2", 41, 1203, None, 41, 128),
        Divergence("p03", "pass1", 93, 8, 9, 128, 128),
    )
    why = (Reason("diverged", "41", "128", "p07"),)
    for p in points:
        if p.state in ("qualified", "withheld", "invalid"):
            bad = p.state != "qualified"
            title = f"{p.workload} {p.item} of {p.arm}"
            made.append(
                _verdict(p.gates[0], p.workload, title, p.state, p.k, p.n, 0.5, why if bad else (), off if bad else ())
            )
    return tuple(made)


def _verdict(
    gate: str,
    kind: str,
    title: str,
    state: Any,
    k: int,
    n: int,
    bound: float,
    why: tuple[Reason, ...] = (),
    off: tuple[Divergence, ...] = (),
) -> Verdict:
    passes = ((k // 2, n // 2), (k - k // 2, n - n // 2))
    return Verdict(
        gate, kind, title, state, k, n, k, n, bound, why, off, passes, 0.0 if kind == "base_repeat" else None, (), (), (), bound,
    )  # fmt: skip


def _history(points: Sequence[Point]) -> tuple[HistoryRow, ...]:
    rows = [_attempt(p.arm, "a", p.workload, p.item, p.value, p.k, p.n) for p in points if p.value is not None]
    rows += [_attempt(arm, seat, "strict", "suite", None, 12, 12) for arm in ARMS for seat in ("a", "b")]
    first = replace(
        rows[1],
        session="r000.base.a",
        current=False,
        status="failed",
        value=None,
        k=0,
        n=0,
        reasons=(f"server died {HOSTILE}",),
        raw="",
    )
    again = replace(
        rows[8], session="r002.base.a", current=False, status="accepted", k=15, n=16, reasons=("asked again",)
    )
    return (*rows, first, again)


def _attempt(arm: str, seat: str, workload: str, item: str, value: float | None, k: int, n: int) -> HistoryRow:
    raw = f"sessions/r001.{arm}.{seat}/attempts/{workload}.{item}.raw.jsonl.gz"
    return HistoryRow(arm, seat, workload, item, f"r001.{arm}.{seat}", True, "accepted", value, "tok/s", k, n, (), raw)
