"""Gates: exact, and never satisfied by nothing."""

from dataclasses import replace

import pytest

from judge.evidence_kit import LAUNCH, Kit, ladder_item, strict_item
from rungproof.judge.attempt import judge_attempt
from rungproof.judge.gates import judge_gate
from rungproof.judge.numbers import detail_of
from rungproof.judge.points import Findings, _earlier
from rungproof.judge.soundness import SessionFiles, judge_count
from rungproof.judge.use import in_use, pick
from rungproof.records.formats import Judged, Reason, Verdict
from rungproof.records.plan import COUNTS, Gate, Item

RUNG = Gate(
    "rung.base.a.ladder.c2", "ladder_rung", "t", ("base.a/ladder/c2",), ("base.a/ladder/c2",), ("base/ladder/c2",)
)
REPEAT = Gate(
    "base-repeat.base.b.strict",
    "base_repeat",
    "t",
    ("base.b/strict/suite",),
    ("base.a/strict/suite",),
    ("base/strict/suite",),
)


def judged(item: Item, flips: dict[str, list[str]] | None = None) -> Judged:
    """A judged attempt with some answers changed."""
    kit = Kit(item, flips)
    return judge_attempt(item, LAUNCH, kit.expected, kit.evidence(), "judge")


def test_an_exact_rung_qualifies_with_its_bound() -> None:
    """All passes identical: qualified, with sites and repeats apart and the exact one-sided bound of the sites."""
    j = judged(ladder_item())
    v = judge_gate(RUNG, j, j, ())
    assert (v.state, v.k, v.n, v.sites_k, v.sites_n, v.passes) == ("qualified", 4, 4, 2, 2, ((2, 2), (2, 2)))
    assert v.bound == pytest.approx(0.05 ** (1 / 2))
    assert v.minority_share == 0


def test_one_flipped_token_in_one_pass_withholds_the_rung() -> None:
    """The verdict names pass, prompt, first index and both ids."""
    j = judged(ladder_item(), {"pass-2": ["p1"]})
    v = judge_gate(RUNG, j, j, ())
    assert (v.state, v.k, v.n, v.sites_k, v.passes) == ("withheld", 3, 4, 1, ((2, 2), (1, 2)))
    (d,) = v.divergences
    assert (d.site, d.batch, d.index, d.got) == ("p1", "pass-2", 11, (d.oracle or 0) + 1)
    assert v.reasons[0].found == "3/4"


def test_a_rung_whose_oracle_alone_differs_is_withheld() -> None:
    """Identity has no favourite: an oracle answer that no pass repeats withholds as well."""
    j = judged(ladder_item(), {"oracle-00": ["p0"]})
    assert judge_gate(RUNG, j, j, ()).state == "withheld"


def test_strict_prompts_are_compared_one_by_one() -> None:
    """Fresh server b against a: every prompt, by its key."""
    a, b = judged(strict_item("a")), judged(strict_item("b"))
    assert judge_gate(REPEAT, b, a, ()).state == "qualified"
    off = judged(strict_item("b"), {"strict-01": ["p1"]})
    v = judge_gate(REPEAT, off, a, ())
    assert (v.state, v.k, v.n) == ("withheld", 1, 2)


NOTHING: dict[str, tuple[Judged | None, Judged | None]] = {
    "no subject": (None, judged(strict_item())),
    "no oracle": (judged(strict_item("b")), None),
    "an oracle without requests": (judged(strict_item("b")), replace(judged(strict_item()), requests=())),
    "neither has requests": (
        replace(judged(strict_item("b")), requests=()),
        replace(judged(strict_item()), requests=()),
    ),
    "a prompt is missing": (
        replace(judged(strict_item("b")), requests=judged(strict_item("b")).requests[:1]),
        judged(strict_item()),
    ),
    "a prompt stands twice": (
        replace(judged(strict_item("b")), requests=judged(strict_item("b")).requests * 2),
        judged(strict_item()),
    ),
    "an unsound oracle": (
        judged(strict_item("b")),
        replace(judged(strict_item()), state="invalid", reasons=(Reason("cache hit"),)),
    ),
    "a failed subject": (replace(judged(strict_item("b")), state="failed"), judged(strict_item())),
}


@pytest.mark.parametrize(("subject", "oracle"), NOTHING.values(), ids=NOTHING)
def test_a_gate_with_nothing_to_compare_never_qualifies(subject: Judged | None, oracle: Judged | None) -> None:
    """Missing, empty or unsound on either side: invalid, with the reason."""
    v = judge_gate(REPEAT, subject, oracle, ())
    assert v.state == "invalid"
    assert v.n == 0
    assert v.reasons


def test_equal_but_empty_answers_are_not_identical() -> None:
    """Two empty token lists prove nothing."""
    a, b = judged(strict_item("a")), judged(strict_item("b"))
    empty = [replace(j, requests=tuple(replace(r, token_ids=()) for r in j.requests)) for j in (a, b)]
    assert judge_gate(REPEAT, empty[1], empty[0], ()).state == "withheld"


def test_a_rung_with_a_pass_missing_is_invalid() -> None:
    """Two passes were planned; one is no proof."""
    j = judged(ladder_item())
    one = replace(j, requests=tuple(r for r in j.requests if r.batch != "pass-2"))
    assert judge_gate(RUNG, one, one, ()).state == "invalid"


def test_a_skipped_side_skips_the_gate() -> None:
    """What a gate left out is skipped, not failed."""
    j = replace(judged(ladder_item()), state="skipped", reasons=(Reason("gate"),))
    assert judge_gate(RUNG, j, j, ()).state == "skipped"


def counted(records: list[Judged], sessions: list[SessionFiles]) -> dict[str, Verdict]:
    """The verdicts of all counting gates over one rung."""
    gates = [Gate(kind, kind, "t", ("base.a/ladder/c2",), (), ("base/ladder/c2", "base/ladder/c4")) for kind in COUNTS]
    return {gate.id: judge_count(gate, records, sessions, ()) for gate in gates}


def test_counting_gates_count_and_find() -> None:
    """All of all where all is well; what is off is named and stops its own point; over nothing they are invalid and stop all they guard."""
    kit = Kit(ladder_item())
    good = judge_attempt(kit.item, LAUNCH, kit.expected, kit.evidence(), "judge")
    files = SessionFiles(kit.server, kit.before, kit.after)
    by_kind = counted([good], [files])
    assert {v.state for v in by_kind.values()} == {"qualified"}
    assert {v.stops for v in by_kind.values()} == {()}
    assert (by_kind["cache_zero"].k, by_kind["cache_zero"].n) == (6, 6)
    hit = replace(good, requests=(replace(good.requests[0], cached_tokens=None), *good.requests[1:]))
    assert (counted([hit], [files])["cache_zero"].k, counted([hit], [files])["cache_zero"].stops) == (
        5,
        ("base/ladder/c2",),
    )
    nothing = counted([], [])
    assert {v.state for v in nothing.values()} == {"invalid"}
    assert {v.stops for v in nothing.values()} == {("base/ladder/c2", "base/ladder/c4")}
    assert counted([good], [SessionFiles(kit.server, kit.before, None)])["canaries"].state == "invalid"
    bare = SessionFiles(replace(kit.server, knobs=()), kit.before, kit.after)
    assert counted([good], [bare])["configuration"].state == "invalid"


def test_only_a_counting_gate_counts() -> None:
    """A gate that compares is refused."""
    with pytest.raises(ValueError, match="expected one that counts"):
        judge_count(RUNG, [], [], ())


def test_the_newest_accepted_record_is_in_use() -> None:
    """A failed remeasure does not push out the accepted record; a good one does."""
    old = judged(ladder_item())
    bad, new = replace(old, state="invalid", session="r002.base.a"), replace(old, session="r003.base.a")
    assert pick([bad, old]) is old
    assert pick([new, bad, old]) is new
    assert pick([bad]) is bad
    assert pick([]) is None
    assert in_use([("x", bad), ("y", old)]) == [("y", old)]


def with_drafts(of: Judged, drafted: float, accepted: float) -> Judged:
    """The same record from a server that counts drafts."""
    return replace(
        of, counters={**of.counters, "drafts": drafted / 3, "draft_tokens": drafted, "accepted_tokens": accepted}
    )


@pytest.mark.parametrize("drafted", [0.0, 90.0])
def test_a_gate_in_which_no_draft_was_accepted_says_so(drafted: float) -> None:
    """Outputs are identical, but no draft was ever at stake: the gate qualifies and names it; with one accepted, or without speculation, it is silent."""
    a, b = judged(strict_item("a")), judged(strict_item("b"))
    v = judge_gate(REPEAT, with_drafts(b, drafted, 0.0), a, ())
    assert (v.state, v.k, v.n) == ("qualified", 2, 2)
    (remark,) = v.reasons
    assert "no draft was accepted" in remark.what
    assert remark.found == f"0 of {drafted:g} drafted tokens"
    assert judge_gate(REPEAT, with_drafts(b, 90.0, 1.0), a, ()).reasons == ()
    assert judge_gate(REPEAT, b, a, ()).reasons == ()
    rung = judged(ladder_item())
    assert "no draft was accepted" in judge_gate(RUNG, with_drafts(rung, drafted, 0.0), rung, ()).reasons[-1].what
    off = judge_gate(REPEAT, with_drafts(judged(strict_item("b"), {"strict-01": ["p1"]}), drafted, 0.0), a, ())
    assert off.state == "withheld"
    assert off.reasons[0].what == "not identical"


def test_a_record_tells_its_fewest_distinct_ids() -> None:
    """An answer that stands still shows: the detail of an item has the fewest distinct ids of any of its answers."""
    j = judged(strict_item())
    assert detail_of(strict_item(), j)["fewest_distinct_ids"] == 24
    still = replace(j, requests=(j.requests[0], replace(j.requests[1], token_ids=(5, 5, 6, 5))))
    assert detail_of(strict_item(), still)["fewest_distinct_ids"] == 2
    lost = replace(still, requests=(still.requests[0], replace(still.requests[1], state="truncated")))
    assert detail_of(strict_item(), lost)["fewest_distinct_ids"] == 24


def test_an_oracle_of_another_identity_is_stale() -> None:
    """Equal tokens from other weights, packages or another processor are no comparison."""
    a, b = judged(strict_item("a")), judged(strict_item("b"))
    v = judge_gate(REPEAT, replace(b, identity_sha256="other"), a, ())
    assert (v.state, v.n, v.reasons[0].what) == ("invalid", 0, "stale oracle")


def test_measuring_again_until_it_passes_makes_no_result() -> None:
    """A sound attempt that was not identical is told beside the later one that was; an unsound one, or one of another identity, is not."""
    good, bad = judged(ladder_item()), replace(judged(ladder_item(), {"pass-1": ["p1"]}), session="r000.base.a")
    key = RUNG.subject[0]
    for other, told in ((bad, 1), (replace(bad, state="invalid"), 0), (replace(bad, identity_sha256="other"), 0)):
        findings = Findings(None, {key: [good, other]}, {}, {})  # type: ignore[arg-type]
        assert len(_earlier(findings, [RUNG])) == told
