"""What a publisher signs: every point of a summary with its state, the withheld ones among them. docs/predicate.md tells the fields."""

from collections import Counter
from typing import Any

from rungproof.records.proof import exact
from rungproof.records.summary import Summary

POINT = ("id", "state", "value", "unit", "k", "n", "low", "high", "gates", "evidence", "session")
HEADLINE = ("arm", "state", "center", "unit", "k", "n", "low", "high", "kind")
RATIO = ("arm", "base", "value", "low", "high", "kind", "claim")


def measurement(summary: Summary) -> dict[str, Any]:
    """The predicate of a measurement statement: numbers as decimal strings, counts as integers."""
    states = Counter(point.state for point in summary.points)
    made = {
        "campaign": summary.campaign,
        "host": summary.host,
        "simulated": summary.simulated,
        "plan": {"sha256": summary.lock_sha256},
        "registered": all(session.registered for session in summary.sessions) and bool(summary.sessions),
        "lossless_claim": summary.lossless_claim,
        "states": dict(sorted(states.items())),
        "claims": [{name: getattr(point, name) for name in POINT} for point in summary.points],
        "headlines": [{name: getattr(row, name) for name in HEADLINE} for row in summary.headlines],
        "ratios": [{name: getattr(row, name) for name in RATIO} for row in summary.ratios],
        "verdicts": [{name: getattr(row, name) for name in ("gate", "state", "k", "n")} for row in summary.verdicts],
    }
    held: dict[str, Any] = exact(made)
    return held
