"""Verdicts from judged records as they lie in a results folder: which record is in use, and which files a verdict was made from."""

from collections.abc import Mapping, Sequence

from rungproof.judge.gates import judge_gate
from rungproof.judge.soundness import SessionFiles, soundness
from rungproof.judge.use import in_use
from rungproof.records.formats import Input, Judged, Verdict
from rungproof.records.plan import Gate

Lying = tuple[Input, Judged]  # a judged record and the file it lies in


def gate_verdict(gate: Gate, subject: Sequence[Lying], oracle: Sequence[Lying]) -> Verdict:
    """One gate. subject, oracle: the records of each side's item, newest first; the newest accepted one counts."""
    sides = [in_use(side)[:1] for side in (subject, oracle)]
    inputs = tuple(dict.fromkeys(lying[0] for side in sides for lying in side))
    got, truth = (side[0][1] if side else None for side in sides)
    return judge_gate(gate, got, truth, inputs)


def soundness_verdicts(
    records: Sequence[Lying], sessions: Mapping[str, tuple[SessionFiles, tuple[Input, ...]]]
) -> tuple[Verdict, ...]:
    """The five campaign-wide counts. records: those of all items, each item's newest first; sessions: by name, with their files."""
    used = in_use(records)
    names = sorted({judged.session for _, judged in used if judged.session in sessions})
    inputs = [place for place, _ in used] + [place for name in names for place in sessions[name][1]]
    return soundness([judged for _, judged in used], [sessions[name][0] for name in names], tuple(inputs))
