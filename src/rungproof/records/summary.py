"""`summary.json`: everything a campaign's tables and page show, made from accepted records, verdicts and session files alone."""

from dataclasses import dataclass, field
from typing import Any, Literal

from rungproof.records.environment import Environment
from rungproof.records.formats import ClientCheck, Knob, Point, PointState, Verdict


@dataclass(frozen=True, slots=True)
class ArmInfo:
    """One arm as planned. `oracle`: the arm whose tokens it must equal; its own name: it is the base of its lane.
    `canary`: suite of its canary checks; `note`: what a reader of its numbers must know, may be empty."""

    name: str
    title: str
    lane: str
    model: str
    engine: str
    draft_depth: int
    oracle: str
    launch: dict[str, Any]
    launch_sha256: str
    canary: str
    note: str


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One fresh server. `current`: at least one accepted item comes from it; `env`: its env.json, where there is one;
    finer: shortest step time measured on it over the p99 lag of the client's stamps; watts: mean power of each device [W];
    registered: when the plan that it was started for was registered (UTC), "" where nothing says that it was, before its server."""

    session: str
    arm: str
    replicate: str
    boot: str
    status: str
    current: bool
    sound: bool
    canary_before: str
    canary_after: str
    ready_s: float | None
    lived_s: float | None
    at: str
    reasons: tuple[str, ...]
    knobs: tuple[Knob, ...]
    identity: dict[str, Any]
    environment: dict[str, Any]
    exit: str
    client: ClientCheck | None
    env: Environment | None = None
    finer: float | None = None
    watts: dict[str, float | None] = field(default_factory=dict)
    registered: str = ""


@dataclass(frozen=True, slots=True)
class CanaryRow:
    """One canary check on one server; `answers`: how many different answers its repeats gave."""

    session: str
    when: str
    name: str
    passed: bool
    prompt: str
    text: str
    requests: int
    answers: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Headline:
    """Strict headline of an arm: per fresh server the median of the class medians of the decode rate, and their mean.

    low, high: what so many servers allow, which `kind` names (judge/stats.py); flagged: servers whose value is an outlier, kept.
    """

    arm: str
    unit: str
    servers: tuple[tuple[str, float | None], ...]
    center: float | None
    state: PointState
    k: int
    n: int
    reasons: tuple[str, ...]
    low: float | None = None
    high: float | None = None
    kind: str = ""
    flagged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RatioRow:
    """Decode rate of an arm over that of its base, both headlines qualified. `servers`: of the arm, of the base; `claim`: the servers
    are enough for a claim of difference, and the interval leaves 1 out."""

    arm: str
    base: str
    value: float
    low: float
    high: float
    kind: str
    pairing: str
    servers: tuple[int, int]
    confidence: float | None
    claim: bool


@dataclass(frozen=True, slots=True)
class MarginRow:
    """How close the two likeliest tokens were where an output left its oracle [nats], by a tie probe.

    margin None: not known, and `note` says why. usual: median over `ordinary` other positions of the probe; closer: share of
    those whose margin is no greater.
    """

    arm: str
    gate: str
    site: str
    batch: str
    index: int
    margin: float | None
    usual: float | None
    ordinary: int
    closer: float | None
    note: str


@dataclass(frozen=True, slots=True)
class StrictRow:
    """One strict prompt on one server; rate None: the answer ended before the window was full."""

    arm: str
    replicate: str
    prompt_class: str
    prompt: str
    rate: float | None
    ttft_ms: float | None
    tokens: int
    step_ms: float | None
    tokens_per_step: float | None
    identical: bool | None
    state: str


@dataclass(frozen=True, slots=True)
class ClassMedian:
    """Median decode rate [tokens/s] of a class of prompts on one server, with the slowest and fastest prompt; None where one of
    `prompts` has no rate."""

    prompt_class: str
    rate: float | None
    low: float | None
    high: float | None
    prompts: int


@dataclass(frozen=True, slots=True)
class SeatMedians:
    """Medians of the strict suite on one server. headline: of the class medians [tokens/s]; tokens: length of the answers."""

    arm: str
    replicate: str
    classes: tuple[ClassMedian, ...]
    headline: float | None
    ttft_ms: float | None
    step_ms: float | None
    tokens_per_step: float | None
    tokens: float | None


@dataclass(frozen=True, slots=True)
class Profile:
    """What stands behind the sound points of one arm over one axis.

    drafted, accepted: draft tokens over all these points, None where the server does not draft or did not say; none_at: places
    where no draft was accepted, so that identity says nothing about drafts; fewest_distinct: token ids of the poorest answer.
    """

    arm: str
    workload: str
    metric: str
    drafted: float | None
    accepted: float | None
    accepted_share: float | None
    none_at: tuple[float, ...]
    fewest_distinct: int | None


@dataclass(frozen=True, slots=True)
class View:
    """What the outputs of one gate say without an oracle, in numbers (`Agreement` in formats.py has the names).

    bistable, unstable, minority: prompts with two different outputs, with more, and whose oracle's output is not the most common
    one; groups, split: groups of byte-identical requests in one batch, and those with different outputs; collisions: pairs.
    """

    gate: str
    prompts: int
    bistable: int
    unstable: int
    minority: int
    groups: int
    split: int
    collisions: int


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One attempt of one item, whether or not it is the one accepted; k of n identical to its oracle, where it has its own."""

    arm: str
    replicate: str
    workload: str
    item: str
    session: str
    current: bool
    status: str
    value: float | None
    unit: str
    k: int
    n: int
    reasons: tuple[str, ...]
    raw: str


@dataclass(frozen=True, slots=True)
class Summary:
    """The whole campaign. `simulated`: no server of a model ran, so no number in it was measured on one. `unjudged`: planned
    gates that have no verdict. tally: points by state; gates_off: gates that gave no qualified verdict; client_wait_share:
    largest share of a batch's time in which the client waited for a processor."""

    campaign: str
    title: str
    purpose: str
    host: str
    simulated: bool
    claim: str
    lossless_claim: bool
    rules: dict[str, Any]
    arms: tuple[ArmInfo, ...]
    sessions: tuple[SessionInfo, ...]
    canaries: tuple[CanaryRow, ...]
    headlines: tuple[Headline, ...]
    strict: tuple[StrictRow, ...]
    points: tuple[Point, ...]
    verdicts: tuple[Verdict, ...]
    history: tuple[HistoryRow, ...]
    suites: tuple[dict[str, Any], ...]
    missing: tuple[str, ...]
    lock_sha256: str
    ratios: tuple[RatioRow, ...] = ()
    unjudged: tuple[str, ...] = ()
    margins: tuple[MarginRow, ...] = ()
    tally: dict[str, int] = field(default_factory=dict)
    gates_off: int = 0
    client_wait_share: float | None = None
    medians: tuple[SeatMedians, ...] = ()
    profiles: tuple[Profile, ...] = ()
    views: tuple[View, ...] = ()
    format: Literal["rungproof.summary/1"] = "rungproof.summary/1"
