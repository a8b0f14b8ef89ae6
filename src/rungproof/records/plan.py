"""The resolved plan of a campaign: plain records, so that it can be written, hashed and read again."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Literal

SESSION = re.compile(r"^(r\d{3,})\.([a-z0-9][a-z0-9_-]*)\.([a-z])$")


@dataclass(frozen=True, slots=True)
class Item:
    """One attempt's worth: a strict suite, a depth or a rung on one seat. `spec` is what is sent; `rules` how it is judged."""

    arm: str
    replicate: str
    workload: str
    item: str
    spec: dict[str, Any]
    spec_sha256: str
    rules: dict[str, Any]

    @property
    def seat(self) -> str:
        """<arm>.<replicate>"""
        return f"{self.arm}.{self.replicate}"

    @property
    def id(self) -> str:
        """<arm>.<replicate>/<workload>/<item>"""
        return f"{self.seat}/{self.workload}/{self.item}"


@dataclass(frozen=True, slots=True)
class ArmPlan:
    """One arm: its launch, hashed without any path of a machine. `canary`: its suite among the plan's canaries; relative_cost:
    of a token and of prefill, in those of the host, for the estimate alone; `note`: what its numbers do not say, for the page."""

    name: str
    title: str
    lane: str
    model: str
    environment: str
    engine: str
    draft_depth: int
    oracle: str
    launch: dict[str, Any]
    launch_sha256: str
    canary: str
    relative_cost: float
    note: str


GateKind = Literal[
    "base_repeat", "draft_repeat", "draft_oracle", "ladder_rung", "depth_oracle", "short_oracle", "spread",
    "canaries", "configuration", "population", "cache_zero", "preemption_zero",
]  # fmt: skip
COUNTS: tuple[GateKind, ...] = ("canaries", "configuration", "population", "cache_zero", "preemption_zero")


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate: what it reads, its rule, and the points that it guards.

    A comparison holds the item of `subject` against that of `oracle` (the same where a rung brings its own oracle). A count, such
    as `cache_zero`, looks at all items of `subject` and has no oracle. `rule`: the numbers and words by which it judges.
    """

    id: str
    kind: GateKind
    title: str
    subject: tuple[str, ...]
    oracle: tuple[str, ...]
    guards: tuple[str, ...]
    rule: dict[str, Any] = field(default_factory=dict)

    def judgeable(self, recorded: Collection[str]) -> bool:
        """Whether there can be a verdict, given the items that have a record: a comparison needs both of its sides."""
        return not self.oracle or (self.subject[0] in recorded and self.oracle[0] in recorded)


@dataclass(frozen=True, slots=True)
class Unavailable:
    """An arm that this machine's processor cannot serve, and the arm planned in its place, if any."""

    arm: str
    title: str
    lane: str
    lacks: tuple[str, ...]
    instead: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole campaign as it will be measured and judged. `study` is the name of its results folder; `canaries`: by suite.
    `conditional`: seats that are measured only where the spread of the arm's two fresh servers passes its limit; `stopping`: when
    measuring ends and which record counts, in words, by name."""

    campaign: str
    study: str
    title: str
    purpose: str
    host: str
    host_title: str
    simulated: bool
    seed: int
    canaries: dict[str, dict[str, Any]]
    arms: tuple[ArmPlan, ...]
    items: tuple[Item, ...]
    seats: tuple[str, ...]
    gates: tuple[Gate, ...]
    suites: tuple[dict[str, Any], ...]
    unavailable: tuple[Unavailable, ...]
    limits: dict[str, Any]
    conditional: tuple[str, ...] = ()
    stopping: dict[str, str] = field(default_factory=dict)
    format: Literal["rungproof.plan/1"] = "rungproof.plan/1"

    @property
    def comparisons(self) -> tuple[Gate, ...]:
        """The gates that hold outputs against an oracle."""
        return tuple(gate for gate in self.gates if gate.oracle)

    def arm(self, name: str) -> ArmPlan:
        """The arm of that name. Raises KeyError."""
        return {arm.name: arm for arm in self.arms}[name]

    def item(self, key: str) -> Item:
        """The item of that id. Raises KeyError."""
        return {item.id: item for item in self.items}[key]


def split_session(name: str) -> tuple[str, str, str]:
    """Run, arm and replicate of a session's name. Raises ValueError for any other name."""
    found = SESSION.match(name)
    if not found:
        raise ValueError(f"{name!r} is not a session's name; expected rNNN.<arm>.<replicate>")
    return found[1], found[2], found[3]
