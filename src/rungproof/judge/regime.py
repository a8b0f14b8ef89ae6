"""Whether a rung runs in captured graphs: the rows of its batch against the largest size that the server has captured."""

from typing import Any, Literal

Regime = Literal["captured", "not captured", "unknown"]


def largest_captured_rung(max_captured: int, draft_depth: int) -> int:
    """The largest concurrency whose batch is captured: a request has 1 + draft depth rows a step (design, section 6)."""
    return max_captured // (1 + draft_depth)


def regime(max_captured: int | None, draft_depth: int, concurrency: int) -> Regime:
    """Regime of one rung. max_captured [rows]: 0 where nothing is captured, None where the server does not say."""
    if max_captured is None:
        return "unknown"
    return "captured" if concurrency <= largest_captured_rung(max_captured, draft_depth) else "not captured"


def max_captured(identity: dict[str, Any]) -> int | None:
    """Largest captured batch [rows] that a server's identity states; None where it states none."""
    found = str(identity.get("max_captured", ""))
    return int(found) if found.isdecimal() and len(found) < 10 else None
