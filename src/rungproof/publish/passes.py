"""The passes of a rung as a point's detail holds them, for tables and page alike."""

from dataclasses import dataclass

from rungproof.judge.rungs import required, shown_index
from rungproof.records.formats import Point


@dataclass(frozen=True, slots=True)
class PassRow:
    """One pass, counted from 1: aggregate [tokens/s], k of n outputs identical (None: not compared), and what the rules make of it."""

    number: int
    value: float | None
    k: int | None
    n: int | None
    shown: bool
    required: bool


def passes_of(point: Point) -> tuple[PassRow, ...]:
    """All passes of a rung in order; none for a point that has no passes."""
    values, counts = point.detail.get("passes") or [], point.detail.get("passes_exact") or []
    rules = {"exact": point.detail.get("exact", "every-pass"), "shown": point.detail.get("shown", "last")}
    total = max(len(values), len(counts))
    if not total:
        return ()
    needed, at = required(rules, total), shown_index(rules, total)
    return tuple(
        PassRow(
            number=i + 1,
            value=values[i] if i < len(values) else None,
            k=counts[i][0] if i < len(counts) else None,
            n=counts[i][1] if i < len(counts) else None,
            shown=at is None or i == at,
            required=i in needed,
        )
        for i in range(total)
    )


def rule_words(point: Point) -> str:
    """The rung rule in words; empty for a point that has no passes."""
    rows = passes_of(point)
    if not rows:
        return ""
    exact = point.detail.get("exact", "every-pass")
    named = ", ".join(str(row.number) for row in rows if row.required)
    must = {"every-pass": f"exact in each of {len(rows)} passes", "pooled": f"exact over all {len(rows)} passes pooled"}
    shown = point.detail.get("shown", "last")
    what = {"last": "the last is shown", "first": "the first is shown", "median": "the median of the passes is shown"}
    what["pooled"] = "tokens of all passes over their wall times are shown"
    first = must.get(exact, "") if isinstance(exact, str) else f"exact in pass {named} of {len(rows)}"
    return f"{first}; {what[shown] if isinstance(shown, str) else f'pass {shown} is shown'}"
