"""Verdicts from judged records as they lie in a results folder: which record is in use, and which files a verdict was made from."""

from collections.abc import Mapping, Sequence

from rungproof.judge.gates import judge_gate, judge_spread
from rungproof.judge.soundness import SessionFiles, judge_count
from rungproof.judge.use import in_use
from rungproof.records.formats import Input, Judged, Verdict
from rungproof.records.plan import COUNTS, Gate

Lying = tuple[Input, Judged]  # a judged record and the file it lies in
Sessions = Mapping[str, tuple[SessionFiles, tuple[Input, ...]]]  # by name, each with the files it was read from


def gate_verdict(gate: Gate, records: Sequence[Lying], sessions: Sessions) -> Verdict:
    """The verdict of any gate. records: at least those of the items that it names, each item's newest first; the newest accepted
    one counts, else the newest. sessions: those that the records come from; only a counting gate looks at them."""
    wanted = {*gate.subject, *gate.oracle}
    used = in_use([lying for lying in records if item_id(lying[1]) in wanted])
    inputs = [place for place, _ in used]
    if gate.kind in COUNTS:
        names = sorted({judged.session for _, judged in used if judged.session in sessions})
        inputs += [place for name in names for place in sessions[name][1]]
        return judge_count(gate, [j for _, j in used], [sessions[name][0] for name in names], tuple(inputs))
    if gate.kind == "spread":
        return judge_spread(gate, [j for _, j in used], tuple(inputs))
    by_item = {item_id(judged): (place, judged) for place, judged in used}
    sides = [by_item.get(key) for key in (gate.subject[0], gate.oracle[0])]
    got, truth = (side[1] if side else None for side in sides)
    return judge_gate(gate, got, truth, tuple(dict.fromkeys(side[0] for side in sides if side)))


def item_id(judged: Judged) -> str:
    """The id of the item that a record is of."""
    return f"{judged.arm}.{judged.replicate}/{judged.workload}/{judged.item}"
