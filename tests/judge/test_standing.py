"""The state of a pack follows from its proof lines alone, and nothing that is forged, foreign or empty moves it."""

from dataclasses import replace
from typing import Any

import pytest

from rungproof.judge.standing import standing
from rungproof.records.standing import ProofLine

PACK, LAB, OTHER = "a" * 64, "ed25519:lab", "ed25519:other"
CLAIMED = ("base.a/strict/suite", "base.a/ladder/c1")
LEVELS = dict.fromkeys(("L0", "L1", "L2", "L3", "L4"), "ok")
PREDICATE: dict[str, Any] = {
    "levels": LEVELS,
    "tokens": {"items": [{"item": item, "k": 12, "n": 12} for item in CLAIMED]},
    "rates": {"points": [{"point": "base/strict/suite/decode_rate", "state": "within"}]},
    "host": {"comparable": True},
    "at": "2026-01-01T00:00:00Z",
}
MEASURED = ProofLine("measurement", LAB, True, PACK)
REPLAY = ProofLine("replay", OTHER, True, PACK, PREDICATE)


def said(**changes: Any) -> ProofLine:
    """The replay line with parts of its predicate changed."""
    return replace(REPLAY, predicate={**PREDICATE, **changes})


CASES: dict[str, tuple[list[ProofLine], str]] = {
    "no line but the publisher's": ([], "Lab-measured"),
    "a recompute line by another key": ([ProofLine("recompute", OTHER, True, PACK, {"levels": LEVELS})], "Recomputed"),
    "a recompute line by the publisher": (
        [ProofLine("recompute", LAB, True, PACK, {"levels": LEVELS})],
        "Lab-measured",
    ),
    "a recompute line that left a level out": (
        [ProofLine("recompute", OTHER, True, PACK, {"levels": {**LEVELS, "L4": "failed"}})],
        "Lab-measured",
    ),
    "a replay by another key": ([REPLAY], "Replicated"),
    "a replay by the publisher": ([replace(REPLAY, keyid=LAB)], "Replayed"),
    "a forged replay": ([replace(REPLAY, holds=False)], "Lab-measured"),
    "a replay of another pack": ([replace(REPLAY, subject="b" * 64)], "Lab-measured"),
    "another host": ([said(host={"comparable": False})], "Replayed"),
    "a rate that differs": ([said(rates={"points": [{"state": "within"}, {"state": "differs"}]})], "Replayed"),
    "no rate at all": ([said(rates={"points": []})], "Replayed"),
    "a token that differs": (
        [said(tokens={"items": [{"item": CLAIMED[0], "k": 12, "n": 12}, {"item": CLAIMED[1], "k": 11, "n": 12}]})],
        "Recomputed",
    ),
    "an item that was left out": ([said(tokens={"items": [{"item": CLAIMED[0], "k": 12, "n": 12}]})], "Recomputed"),
    "an item with nothing compared": (
        [said(tokens={"items": [{"item": item, "k": 0, "n": 0} for item in CLAIMED]})],
        "Recomputed",
    ),
    "counts that are no counts": (
        [said(tokens={"items": [{"item": item, "k": "12", "n": "12"} for item in CLAIMED]})],
        "Recomputed",
    ),
    "a replay that verified nothing": ([said(levels={})], "Lab-measured"),
    "rubbish": ([replace(REPLAY, predicate={"tokens": [], "levels": 3, "host": "x", "at": 5})], "Lab-measured"),
    "the best of several": ([replace(REPLAY, holds=False), replace(REPLAY, keyid=LAB), REPLAY], "Replicated"),
}


@pytest.mark.parametrize(("lines", "state"), CASES.values(), ids=CASES)
def test_a_line_moves_the_state_only_as_far_as_it_shows(lines: list[ProofLine], state: str) -> None:
    """Each kind of line, and each way in which one may be worth less than it says."""
    made = standing([MEASURED, *lines], PACK, LAB, CLAIMED)
    assert made.state == state
    assert made.signed
    assert len(made.lines) == 1 + len(lines)
    assert all(row.says for row in made.lines)


def test_an_unsigned_pack_never_passes_replayed() -> None:
    """Without a publisher's key nobody can be told from the publisher."""
    lines = [ProofLine("recompute", OTHER, True, PACK, {"levels": LEVELS})]
    assert standing(lines, PACK, "", CLAIMED).state == "Lab-measured"
    unchecked = said(levels={**LEVELS, "L1": "not checked"})
    made = standing([*lines, unchecked], PACK, "", CLAIMED)
    assert made.state == "Replayed"
    assert not made.signed
    assert standing([MEASURED, unchecked], PACK, LAB, CLAIMED).state == "Lab-measured"


def test_a_pack_that_claims_nothing_cannot_be_replayed() -> None:
    """Nothing to compare is no pass."""
    assert standing([REPLAY], PACK, LAB, ()).state == "Recomputed"


def test_a_publishers_line_whose_signature_does_not_hold_is_told_so() -> None:
    """It neither counts nor makes the pack a signed one, whatever key it names; the same line with its signature does both."""
    broken = standing([replace(MEASURED, holds=False)], PACK, LAB, CLAIMED)
    assert not broken.signed
    assert [(row.counts, row.says) for row in broken.lines] == [(False, "not signed by the publisher")]
    assert [row.counts for row in standing([MEASURED], PACK, LAB, CLAIMED).lines] == [True]
