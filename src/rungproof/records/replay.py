"""`replay.json`: what measuring a published plan again gave beside what was published. A page, a signed line and a test read it."""

from dataclasses import dataclass
from typing import Any, Literal

from rungproof.records.formats import Divergence

TokensState = Literal["identical", "different", "not compared"]
RateState = Literal["equivalent", "differs", "undecided", "within", "beyond", "not compared"]
GOOD_RATES = ("equivalent", "within")


@dataclass(frozen=True, slots=True)
class ItemTokens:
    """One item: k of its n published outputs came again, token for token. `claimed`: a published claim rests on it, so it counts;
    `session`, `again`: the servers on both sides; `why`: of "not compared"."""

    item: str
    claimed: bool
    state: TokensState
    k: int
    n: int
    first: Divergence | None
    session: str
    again: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class RateRow:
    """One qualified point: the value of each fresh server on both sides, and what is said of their ratio (judge/equivalence.py)."""

    point: str
    unit: str
    state: RateState
    published: tuple[float, ...]
    again: tuple[float, ...]
    ratio: float | None
    low: float | None
    high: float | None
    kind: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class HostRow:
    """One fact of both hosts. `decides`: hosts are comparable only where these are equal."""

    key: str
    decides: bool
    state: str
    published: Any
    again: Any


@dataclass(frozen=True, slots=True)
class Replay:
    """One replay, or with `kind` "recompute" the levels of verification alone.

    pack: sha256 of the manifest; levels: L0 to L4 to "ok" or what failed; tokens, rates: the worst of what is claimed, and
    `compared` items and points behind them; results: digest of the replay's own files, and how many they are.
    """

    kind: Literal["replay", "recompute"]
    pack: str
    study: str
    title: str
    simulated: bool
    plan_sha256: str
    levels: dict[str, str]
    tokens: TokensState
    items: tuple[ItemTokens, ...]
    comparable: bool
    host_words: str
    host: tuple[HostRow, ...]
    rates: RateState
    limit: float
    points: tuple[RateRow, ...]
    results_sha256: str
    results_files: int
    at: str
    format: Literal["rungproof.replay/1"] = "rungproof.replay/1"

    @property
    def claimed(self) -> tuple[ItemTokens, ...]:
        """The items that count."""
        return tuple(row for row in self.items if row.claimed)
