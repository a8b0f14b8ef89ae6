"""What a point says of itself: why it is no result, each place named once."""

from dataclasses import replace

from judge.plan_kit import arm, ladder, plan, rung_record, session, summary_of
from rungproof.records.formats import Reason

SEAT = "r001.base.a"
REASONS = (
    Reason("changed server", "2 boots", "1", SEAT),
    Reason("knob not in force", "float32", "bfloat16", f"{SEAT}: --dtype"),
    Reason("request lost", "timeout", "complete", "pass-1/p0"),
    Reason("canary after", "failed", "passed", f"{SEAT}b"),
)
SAID = (
    "changed server (found 2 boots; expected 1)",
    "--dtype: knob not in force (found float32; expected bfloat16)",
    "pass-1/p0: request lost (found timeout; expected complete)",
    f"{SEAT}b: canary after (found failed; expected passed)",
)


def test_a_place_is_said_once() -> None:
    """On the point with its session before each reason; in the rows of sessions and attempts, which name it themselves, without; and in
    the verdict of the gate, which names the item."""
    item = ladder("base.a", 2)
    bad = replace(rung_record(item, [(2, 40.0), (2, 40.0)]), state="invalid", reasons=REASONS)
    facts = session(SEAT)
    assert facts.closed is not None
    facts = replace(facts, closed=replace(facts.closed, sound=False, reasons=REASONS))
    made = summary_of(plan([arm("base")], [item]), [bad], [facts])
    assert made.points[0].reasons == tuple(f"{SEAT}: {words}" for words in SAID)
    assert made.history[0].reasons == made.sessions[0].reasons == SAID
    own = replace(bad, reasons=(Reason("no raw file", where=item.id),))
    rung = next(v for v in summary_of(plan([arm("base")], [item]), [own], [facts]).verdicts if v.kind == "ladder_rung")
    assert str(rung.reasons[0]) == f"{item.id}: nothing to compare (found invalid: no raw file)"
