"""What `rungproof measure` found, as a record (`report.json`, and what --json prints)."""

from dataclasses import dataclass
from typing import Literal

from rungproof.records.formats import BatchResult, Divergence, Input, Reason, RequestResult


@dataclass(frozen=True, slots=True)
class Identity:
    """Passes against the one-at-a-time answers of the same server. `cannot`: why nothing was compared, "" if it was.

    k of n compared outputs were identical; a site is one prompt over all its passes; `minority_share` is the share of
    all samples off their prompt's most common answer.
    """

    k: int
    n: int
    sites_k: int
    sites_n: int
    minority_share: float | None
    divergences: tuple[Divergence, ...]
    cannot: str


@dataclass(frozen=True, slots=True)
class PassFigures:
    """One batch of requests at once. Rates in tokens a second, times in milliseconds; None where they mean nothing.

    aggregate = completion tokens / wall time; per_user = aggregate / concurrency; decode_rate is the median over the
    requests and needs token ids. `identical` of `compared` outputs equal their oracle.
    """

    batch: str
    complete: int
    planned: int
    completion_tokens: int
    aggregate: float | None
    per_user: float | None
    decode_rate: float | None
    ttft_ms_median: float | None
    ttft_ms_max: float | None
    identical: int
    compared: int


@dataclass(frozen=True, slots=True)
class RungReport:
    """One concurrency: its oracle requests, its passes and every request of them.

    state complete: every planned request was sent and is complete. `states` counts the requests that were sent by state;
    planned - sum(states) were not sent. `doubts`: what speaks against these figures. aggregate, per_user, decode_rate
    and ttft_ms_median are those of the last pass, where every pass gave an aggregate.
    """

    concurrency: int
    state: Literal["complete", "incomplete", "not measured"]
    planned: int
    states: dict[str, int]
    aggregate: float | None
    per_user: float | None
    decode_rate: float | None
    ttft_ms_median: float | None
    passes: tuple[PassFigures, ...]
    identity: Identity
    doubts: tuple[Reason, ...]
    counters: dict[str, float | None]
    batches: tuple[BatchResult, ...]
    requests: tuple[RequestResult, ...]
    raw: Input | None


@dataclass(frozen=True, slots=True)
class Report:
    """The whole measurement. `refused`: the server's words where it refused the requests, with `refused_status`.

    `qualified` is always False: see the package. `exact_length`: each answer was asked to go on to `tokens`.
    """

    url: str
    model: str
    plain: bool
    exact_length: bool
    prompts: str
    prompts_sha256: str
    tokens: int
    passes: int
    seed: int
    window: int
    at: str
    client: str
    complete: bool
    qualified: Literal[False]
    why_not_qualified: str
    refused: str
    refused_status: int | None
    rungs: tuple[RungReport, ...]
    format: Literal["rungproof.external/1"] = "rungproof.external/1"
