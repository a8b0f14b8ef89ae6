"""Emitted tokens held against the checkpoint's own likeliest ones: what a server invented cannot be what its weights say.

The gap of a token is the largest logit minus its own, with prompt and all tokens before it given (`recipes/teacher_force.py`). A
greedy server emits a token of gap 0 up to rounding: its numbers are coarser than those of the check, so of two nearly equal
logits it may take the other. Arms with drafts are greedy, too.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

# Largest gap that rounding explains, by the numbers a lane computes in [logits]. Logits of a language model lie around 16 to 32,
# where bfloat16 has steps of 0.125 and float16 of 0.016: four steps of each, since rounding adds up over the layers. float32 has
# steps of 2e-6; a thousand of them are far less than what parts two tokens that are not all but equal.
MARGINS = {"float32": 0.01, "float16": 0.0625, "bfloat16": 0.5}


@dataclass(frozen=True, slots=True)
class Forced:
    """One answer: of `tokens`, how many are the likeliest, within the margin, and beyond it; the largest gap [logits] and where
    it is, from 0. `requests`: how many requests gave just this answer to just this prompt. failed: more beyond than allowed."""

    arm: str
    item: str
    batch: str
    key: str
    requests: int
    state: Literal["ok", "failed"]
    tokens: int
    likeliest: int
    ties: int
    beyond: int
    worst: float
    at: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class ArmForced:
    """The answers of one arm together; `skipped`: requests that were not looked at."""

    arm: str
    answers: int
    requests: int
    failed: int
    skipped: int
    tokens: int
    likeliest: int
    ties: int
    beyond: int
    worst: float


def forced(
    arm: str, item: str, batch: str, key: str, gaps: Sequence[float], margin: float, most: float, requests: int = 1
) -> Forced:
    """Count the gaps of one answer. most: largest share of its tokens that may lie beyond `margin` [logits]. An answer without a
    token fails, and so does a gap that is no number."""
    beyond = sum(not gap <= margin for gap in gaps)
    likeliest = sum(gap <= 0 for gap in gaps)
    worst, at = max(
        ((gap if gap == gap else float("inf"), -i) for i, gap in enumerate(gaps)), default=(float("inf"), 0)
    )
    bad = not gaps or beyond > most * len(gaps)
    why = "no token was emitted" if not gaps else f"{beyond} of {len(gaps)} tokens beyond the margin" if bad else ""
    return Forced(
        arm, item, batch, key, requests, "failed" if bad else "ok", len(gaps), likeliest, len(gaps) - likeliest - beyond, beyond, worst, -at, why
    )  # fmt: skip


def by_arm(rows: Iterable[Forced], skipped: Mapping[str, int]) -> tuple[ArmForced, ...]:
    """Sums of each arm, in the order in which arms first come. An arm of which everything was skipped is a row of zeros."""
    held: dict[str, list[Forced]] = {}
    for row in rows:
        held.setdefault(row.arm, []).append(row)
    return tuple(
        ArmForced(
            arm, len(of), sum(r.requests for r in of), sum(r.state == "failed" for r in of), skipped.get(arm, 0),
            sum(r.tokens for r in of), sum(r.likeliest for r in of), sum(r.ties for r in of), sum(r.beyond for r in of),
            max((r.worst for r in of), default=0.0),
        )
        for arm in dict.fromkeys([*held, *skipped])
        for of in [held.get(arm, [])]
    )  # fmt: skip


def good(arms: Sequence[ArmForced]) -> bool:
    """Nothing failed, and of each arm there was something to look at."""
    return bool(arms) and all(arm.answers and not arm.failed for arm in arms)


def chosen(names: Sequence[str], count: int, seed: str) -> tuple[str, ...]:
    """`count` of the names, by the order of sha256 over seed and name: nobody picks them, and everybody gets the same ones."""
    ranked = sorted(names, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())
    taken = set(ranked[:count])
    return tuple(name for name in names if name in taken)
