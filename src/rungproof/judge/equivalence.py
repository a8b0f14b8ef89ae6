"""Whether two rates are the same within a limit: two one-sided tests where fresh servers are enough for them, else the range, called so."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rungproof.judge.stats import CONFIDENCE, T_LEAST, Refused, rate_ratio

LIMIT = 0.02
State = Literal["equivalent", "differs", "undecided", "within", "beyond"]
WORDS: dict[State, str] = {
    "equivalent": "shown to be the same within the limit",
    "differs": "shown to differ by more than the limit",
    "undecided": "neither shown to be the same within the limit nor to differ",
    "within": "each server within the limit of each other, no test",
    "beyond": "some servers differ by more than the limit, no test",
}


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Rate of one side over that of the other, and what is said of it. `kind`: of low to high; n: fresh servers of each side."""

    state: State
    ratio: float
    low: float
    high: float
    kind: str
    n: tuple[int, int]
    limit: float


def equivalence(got: Sequence[float], base: Sequence[float], limit: float = LIMIT) -> Equivalence | Refused:
    """Are the rates `got` those of `base` within `limit` (a share; the ratio lies from 1 / (1 + limit) to 1 + limit)?

    From 4 fresh servers a side by two one-sided t tests at 5 % each (Schuirmann, J. Pharmacokinet. Biopharm. 15, 1987) on the
    logarithms, unpaired, with Welch's degrees of freedom: both reject where the 90 % interval of the ratio lies within the limit.
    Below that no spread can be estimated, so nothing is tested: the lowest and highest ratio of any two servers are held against
    the limit, which is stricter than any mean. Refused for nothing to compare and for rates that are not above 0.
    Raises ValueError for a limit that is not above 0.
    """
    if not limit > 0:
        raise ValueError(f"found limit {limit}; expected a share above 0")
    found = rate_ratio(got, base, confidence=2 * CONFIDENCE - 1)
    if isinstance(found, Refused):
        return found
    interval, edges = found.interval, (-math.log1p(limit), math.log1p(limit))
    low, high = math.log(interval.low), math.log(interval.high)
    inside, outside = edges[0] <= low and high <= edges[1], high < edges[0] or low > edges[1]
    state: State
    if min(found.n) < T_LEAST:
        state = "within" if inside else "beyond"
    else:
        state = "equivalent" if inside else "differs" if outside else "undecided"
    return Equivalence(state, interval.center, interval.low, interval.high, interval.kind, found.n, limit)
