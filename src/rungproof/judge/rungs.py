"""Rung rules as data: which passes of a rung must be exact, and which number and which count stand for it.

Rules of a ladder, fixed in the plan before the run; passes are counted from 1:

exact   "every-pass": each pass must be exact. A list: these passes must be. "pooled": all outputs of all passes together.
shown   "last", "first" or a number: that pass. "pooled": tokens of all passes over the sum of their wall times. "median":
        of the passes' values.

Two public conventions: exact in both of two passes and the second shown is {passes 2, exact every-pass, shown last}; exact
pooled over four is {passes 4, exact pooled, shown pooled}.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rungproof.judge.rates import aggregate_rate
from rungproof.judge.stats import median


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of a rung: k of n outputs exact, its aggregate [tokens/s] and what that was made from; None: it has no aggregate."""

    k: int
    n: int
    value: float | None
    tokens: int = 0
    wall_ns: int = 0


@dataclass(frozen=True, slots=True)
class Rung:
    """What stands for a rung. k of n: outputs exact, of those that belong to the value shown."""

    exact: bool
    value: float | None
    k: int
    n: int


def rung_of(rules: Mapping[str, Any], passes: Sequence[Pass]) -> Rung:
    """Apply a ladder's rules to its passes, in order. Raises ValueError for a rule that names a pass which is not there.

    Without a pass, or where a required pass compared nothing, the rung is not exact. The count is that of the pass shown.
    With "pooled", or where the value is made from all passes, it is that of all. A shown pass that is itself exact never
    hides one that is not: then all required passes are counted.
    """
    if not passes:
        return Rung(False, None, 0, 0)
    needed = [passes[i] for i in required(rules, len(passes))]
    exact = all(p.n > 0 and p.k == p.n for p in needed)
    at = shown_index(rules, len(passes))
    counted = list(passes) if at is None or rules["exact"] == "pooled" else [passes[at]]
    if not exact and all(p.k == p.n for p in counted):
        counted = needed
    return Rung(exact, shown_value(rules, passes), sum(p.k for p in counted), sum(p.n for p in counted))


def required(rules: Mapping[str, Any], count: int) -> list[int]:
    """Places, from 0, of the passes that must be exact."""
    rule = rules["exact"]
    if rule in ("every-pass", "pooled"):
        return list(range(count))
    return [_place(number, count, "exact") for number in rule]


def shown_index(rules: Mapping[str, Any], count: int) -> int | None:
    """Place, from 0, of the pass whose value is shown; None where the value is made from all passes."""
    rule = rules["shown"]
    if rule in ("pooled", "median"):
        return None
    return {"first": 0, "last": count - 1}[rule] if isinstance(rule, str) else _place(rule, count, "shown")


def shown_value(rules: Mapping[str, Any], passes: Sequence[Pass]) -> float | None:
    """The value that the rules show [tokens/s]; None unless every pass has an aggregate."""
    values = [p.value for p in passes if p.value is not None]
    if not passes or len(values) != len(passes):
        return None
    if rules["shown"] == "median":
        return median(values)
    at = shown_index(rules, len(passes))
    if at is None:
        return aggregate_rate(sum(p.tokens for p in passes), sum(p.wall_ns for p in passes))
    return values[at]


def _place(number: int, count: int, rule: str) -> int:
    if not 1 <= number <= count:
        raise ValueError(f"the rule {rule!r} names pass {number}; the rung has {count}, counted from 1")
    return number - 1
