"""The records that rungproof writes, one dataclass a file format. docs/records.md tells where each one lies.

Every time that ends in `_ns` is on the monotonic clock of the measuring host [ns]; every `at` is UTC, ISO 8601,
for people only: no number is computed from it. Paths are relative to the campaign's results folder.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

PointState = Literal["qualified", "withheld", "invalid", "failed", "skipped", "missing"]
RequestState = Literal["complete", "error_in_band", "truncated", "http_error", "timeout", "client_error", "cancelled"]
REQUEST_STATES: tuple[RequestState, ...] = (
    "complete", "error_in_band", "truncated", "http_error", "timeout", "client_error", "cancelled",
)  # fmt: skip
EndKind = Literal["framed", "eof", "reset", "timeout", "refused", "cancelled", "oversize", "client_error"]


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that was not as it must be. `what` is a fixed short word; `where` names file, request or knob."""

    what: str
    found: str = ""
    expected: str = ""
    where: str = ""

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        if self.found:
            text += f" (found {self.found}" + (f"; expected {self.expected})" if self.expected else ")")
        return text

    def after(self, place: str) -> str:
        """The reason in words that follow the name of a place, which is not said a second time."""
        if self.where != place and not self.where.startswith(f"{place}: "):
            return str(self)
        return str(replace(self, where=self.where.removeprefix(place).removeprefix(": ")))


@dataclass(frozen=True, slots=True)
class Input:
    """A file that a verdict or record was made from."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Knob:
    """One requested argument or variable, and what the running server shows of it."""

    name: str
    asked: str
    found: str | None
    source: str
    ok: bool


@dataclass(frozen=True, slots=True)
class Server:
    """`server.json`: one fresh server process, as asked and as found. `boot` is its nonce, also in `model`; lock_sha256: digest of
    the plan it was started for, "" where none was kept (records from before plans were registered)."""

    session: str
    arm: str
    replicate: str
    status: Literal["ready", "failed", "skipped"]
    reasons: tuple[Reason, ...]
    boot: str
    url: str
    model: str
    launch: dict[str, Any]
    launch_sha256: str
    knobs: tuple[Knob, ...]
    identity: dict[str, Any]
    environment: dict[str, Any]
    pid: int | None
    at: str
    ready_s: float | None
    lock_sha256: str = ""
    format: Literal["rungproof.server/1"] = "rungproof.server/1"


@dataclass(frozen=True, slots=True)
class Registered:
    """`runs/<run>/registered.json`: the plan of a call, by its digest, before the first request of that call.

    `at_ns` is on the monotonic clock of the boot `boot_id`, as the stamps of requests are. `supersedes`: digest of the last
    other plan that was registered in this results folder, "" where there is none.
    """

    plan_sha256: str
    at: str
    at_ns: int
    boot_id: str
    supersedes: str = ""
    format: Literal["rungproof.registered/1"] = "rungproof.registered/1"


@dataclass(frozen=True, slots=True)
class CanaryCheck:
    """One check of a canary; `token_ids` one list a request."""

    name: str
    passed: bool
    prompt: str
    token_ids: tuple[tuple[int, ...], ...]
    text: str
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Canary:
    """`canary_before.json`, `canary_after.json`."""

    session: str
    boot: str
    when: Literal["before", "after"]
    by: Literal["job", "supervisor"]
    status: Literal["passed", "failed", "no_server", "skipped"]
    reasons: tuple[Reason, ...]
    checks: tuple[CanaryCheck, ...]
    raw: Input | None
    at: str
    format: Literal["rungproof.canary/1"] = "rungproof.canary/1"


@dataclass(frozen=True, slots=True)
class ClientCheck:
    """`client.json`: the client held against the burst server of this host, whose events carry its own send stamps.

    lag: the client's stamp of an event minus the server's [ms]; p50, p99 and cpu_us_event (processor time of the client an
    event) are the medians of `rounds`, lag_max_ms is of all. late_p99_ms: how late the server's own ticks were. rate_events_s:
    the highest rate at which the lag's p99 stayed below `rate_lag_ms`; rate_ended_by: what ended the search. None: not known.
    """

    session: str
    boot: str
    streams: int
    interval_ms: float
    rounds: int
    events: int
    lag_p50_ms: float | None
    lag_p99_ms: float | None
    lag_max_ms: float | None
    ttft_error_p99_ms: float | None
    cpu_us_event: float | None
    late_p99_ms: float | None
    rate_events_s: float | None
    rate_lag_ms: float
    rate_ended_by: Literal["lag", "server", "lost", "not searched"]
    stamp_source: tuple[str, ...]
    reasons: tuple[Reason, ...]
    at: str
    format: Literal["rungproof.client/1"] = "rungproof.client/1"


@dataclass(frozen=True, slots=True)
class Attempt:
    """`attempts/<workload>.<item>.json`: one measuring of one item in one session; always written."""

    campaign: str
    session: str
    boot: str
    arm: str
    replicate: str
    workload: str
    item: str
    spec: dict[str, Any]
    spec_sha256: str
    status: Literal["measured", "failed", "skipped"]
    reasons: tuple[Reason, ...]
    raw: Input | None
    began: str
    ended: str
    seconds: float
    format: Literal["rungproof.attempt/1"] = "rungproof.attempt/1"


@dataclass(frozen=True, slots=True)
class Closed:
    """`closed.json`: how a session ended. `sound`: both canaries passed on one boot and the server lived to the end."""

    session: str
    boot: str
    by: Literal["job", "supervisor", "repair"]
    sound: bool
    reasons: tuple[Reason, ...]
    exit: str
    leftovers: tuple[str, ...]
    at: str
    lived_s: float | None
    format: Literal["rungproof.closed/1"] = "rungproof.closed/1"


@dataclass(frozen=True, slots=True)
class RequestResult:
    """What the raw bytes of one request say. Rates are in tokens a second, None where the window was not reached.

    ttft_ns: first token of any channel; content_ttft_ns: first one that is not reasoning; reasoning_tokens: ids of events
    that carried reasoning alone; end_ns: when the exchange ended, which may be long after the last token. body_sha256: of the
    body as it was sent, so that byte-identical requests are known as such. margins: of a tie probe alone, one a token
    (judge/margins.py).
    """

    batch: str
    key: str
    state: RequestState
    reasons: tuple[Reason, ...]
    token_ids: tuple[int, ...]
    completion_tokens: int | None
    prompt_tokens: int | None
    cached_tokens: int | None
    finish_reason: str | None
    text: str
    sent_ns: int
    ttft_ns: int | None
    last_token_ns: int | None
    decode_rate: float | None
    steps: int
    step_median_ns: int | None
    content_ttft_ns: int | None
    reasoning_tokens: int
    end_ns: int
    body_sha256: str = ""
    margins: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchResult:
    """One barrier's worth of requests. aggregate = completion_tokens / wall [tokens/s]; None where a request did not complete.

    in_flight: most requests that were sent and not over at one moment; decoding: most that were between their first and
    last token, which a server that queues keeps low; dispatch_ns: from the first send to the last, None with no send.
    wait_ns, scheduling: how long the client waited for a processor, and with which claim to it; see raw.Batch.
    """

    batch: str
    concurrency: int
    planned: int
    states: dict[str, int]
    completion_tokens: int
    wall_ns: int
    aggregate: float | None
    stamp_source: Literal["kernel", "user"]
    in_flight: int
    decoding: int
    dispatch_ns: int | None
    wait_ns: int | None
    scheduling: Literal["fifo", "ordinary"]


@dataclass(frozen=True, slots=True)
class Judged:
    """`sessions/<session>/judged/<workload>.<item>.json`: what one attempt's raw bytes say; also, when it is sound, a copy at
    `accepted/<arm>.<replicate>/<workload>/<item>.json`. Only state "accepted" carries numbers that may be shown.
    `identity_parts`: what an oracle is bound to, by name, each as a digest; `identity_sha256` is over all of them."""

    arm: str
    replicate: str
    workload: str
    item: str
    state: Literal["accepted", "invalid", "failed", "skipped"]
    reasons: tuple[Reason, ...]
    session: str
    boot: str
    launch_sha256: str
    identity_sha256: str
    spec_sha256: str
    spec: dict[str, Any]
    inputs: tuple[Input, ...]
    requests: tuple[RequestResult, ...]
    batches: tuple[BatchResult, ...]
    counters: dict[str, float | None]
    client: ClientCheck | None
    judge_sha256: str
    identity_parts: dict[str, str] = field(default_factory=dict)
    format: Literal["rungproof.judged/1"] = "rungproof.judged/1"


Alignment = Literal["substitution", "insertion", "deletion", "end", "none"]


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where one output left its oracle: the first index (from 0) at which they differ, and the ids on each side.

    `got_ids`, `oracle_ids`: at most eight from there on. `alignment`: how the outputs go on from there (judge/identity.py);
    under it `rejoined` of `compared` later tokens are equal.
    """

    site: str
    batch: str
    index: int
    got: int | None
    oracle: int | None
    got_length: int
    oracle_length: int
    got_ids: tuple[int, ...] = ()
    oracle_ids: tuple[int, ...] = ()
    alignment: Alignment = "none"
    rejoined: int = 0
    compared: int = 0


@dataclass(frozen=True, slots=True)
class CopyGroup:
    """Byte-identical requests of one batch, and how many different outputs they gave; more than 1: the place in the batch matters."""

    batch: str
    sites: tuple[str, ...]
    answers: int


@dataclass(frozen=True, slots=True)
class Collision:
    """Two requests of different prompts with one and the same complete output: twins, or requests that were mixed up (judge/gates.py)."""

    site: str
    batch: str
    other_site: str
    other_batch: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """The view that needs no oracle, over all outputs of a comparison, the oracle's own among them.

    bistable: prompts with exactly two different outputs; unstable: with more. oracle_minority: prompts whose oracle's output
    is not among their most common ones.
    """

    prompts: int
    samples: int
    bistable: tuple[str, ...]
    unstable: tuple[str, ...]
    oracle_minority: tuple[str, ...]
    copies: tuple[CopyGroup, ...]
    collisions: tuple[Collision, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`verdicts/<gate>.json`. k of n compared outputs were identical; a site is one prompt over all its repeats.

    `bound`, `repeats_bound`: exact one-sided 95 % lower bounds of the share of sites and of outputs. `guards`: points that the
    gate may stop; `stops`: those that this verdict does stop.
    """

    gate: str
    kind: str
    title: str
    state: Literal["qualified", "withheld", "invalid", "skipped"]
    k: int
    n: int
    sites_k: int
    sites_n: int
    bound: float | None
    reasons: tuple[Reason, ...]
    divergences: tuple[Divergence, ...]
    passes: tuple[tuple[int, int], ...]
    minority_share: float | None
    guards: tuple[str, ...]
    inputs: tuple[Input, ...]
    stops: tuple[str, ...] = ()
    repeats_bound: float | None = None
    agreement: Agreement | None = None
    rule: dict[str, Any] = field(default_factory=dict)
    format: Literal["rungproof.verdict/1"] = "rungproof.verdict/1"


@dataclass(frozen=True, slots=True)
class Point:
    """One publishable number: `id` is <arm>/<workload>/<item>/<metric>; withheld ones keep their value for the table."""

    id: str
    arm: str
    workload: str
    item: str
    metric: str
    x: float | None
    value: float | None
    unit: str
    state: PointState
    k: int
    n: int
    reasons: tuple[str, ...]
    gates: tuple[str, ...]
    session: str
    evidence: tuple[str, ...]
    low: float | None = None
    high: float | None = None
    detail: dict[str, Any] = field(default_factory=dict)
