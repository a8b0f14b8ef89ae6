"""`env.json`: what a server ran on, before and after, and what was seen while it ran. Each fact says how it may differ.

Kinds: `equal`: a difference makes two environments different; `tolerance`: a number that may differ by a share of the
greater one; `informative`: told, never compared. None is a fact that the host does not show: never 0, never a default.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["equal", "tolerance", "informative"]


@dataclass(frozen=True, slots=True)
class Fact:
    """One key: value, kind, the file or call it comes from, and which reader read it. tolerance: share, for its kind alone."""

    value: Any
    kind: Kind
    source: str
    reader: str
    tolerance: float | None = None


@dataclass(frozen=True, slots=True)
class Sampled:
    """One sampled figure over a session: how many samples had it, and their least, middle and greatest value."""

    n: int
    low: float
    median: float
    high: float
    unit: str


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy between the first and the last sample by a device's own counter; never that of the whole system.

    joules: None where the counter went back or was not there twice; `checked_joules`: the same from samples of power
    (trapezoids), None without them; `doubt`: why a reader may not use it.
    """

    joules: float | None
    seconds: float
    checked_joules: float | None
    source: str
    doubt: str


@dataclass(frozen=True, slots=True)
class Environment:
    """`sessions/<session>/env.json`. `after`: None until the session is closed, or where the server did not live to it."""

    session: str
    arm: str
    boot: str
    before_at: str
    before: dict[str, Fact]
    after_at: str | None = None
    after: dict[str, Fact] | None = None
    sampled: dict[str, Sampled] = field(default_factory=dict)
    energy: dict[str, Energy] = field(default_factory=dict)
    every_s: float = 1.0
    format: Literal["rungproof.env/1"] = "rungproof.env/1"


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of `env.samples.jsonl`: figures by key, at a moment of the monotonic clock [ns]. What was not shown is left out."""

    at_ns: int
    values: dict[str, float]
