"""From a closed session's files to judged and accepted records, and from those to verdict files."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rungproof.judge.evidence import judge_from
from rungproof.judge.study import read_sessions
from rungproof.judge.use import pick
from rungproof.judge.verdicts import gate_verdict
from rungproof.measure.store import Folder
from rungproof.records.codec import canonical, parse, read, sha256
from rungproof.records.errors import EvidenceError
from rungproof.records.files import write_atomic
from rungproof.records.formats import Input, Judged, Verdict
from rungproof.records.plan import Gate, Item, Plan


def judge_item(study: Path, session: str, item: Item, launch_sha256: str, judge_sha256: str) -> Judged:
    """Judge one attempt of a closed session and write `judged/`. Damaged evidence is a judged record too: state invalid."""
    judged = judge_evidence(study, session, item, launch_sha256, judge_sha256)
    write_atomic(Folder(study).judged(session, item), canonical(judged))
    return judged


def judge_evidence(study: Path, session: str, item: Item, launch_sha256: str, judge_sha256: str) -> Judged:
    """`judge_item` without writing. Raises EvidenceError when the session has no readable server, closing or attempt record."""

    return judge_from(reader(study), session, item, launch_sha256, judge_sha256)


def accept(judged_files: Sequence[Path], to: Path) -> Judged:
    """Copy the record in use to `accepted/`. Raises EvidenceError, and writes nothing, where none was accepted or skipped."""
    judged = pick([read(Judged, path) for path in judged_files])
    if judged is None:
        raise EvidenceError(f"{to}: there is no judged record to accept")
    if judged.state not in ("accepted", "skipped"):
        why = "\n  ".join(r.after(judged.session) for r in judged.reasons[:12])
        raise EvidenceError(
            f"{judged.arm}.{judged.replicate}/{judged.workload}/{judged.item} is {judged.state} in session {judged.session}:\n  {why}\n"
            "Its records are kept. The next call of the same command measures it again on a fresh server."
        )
    write_atomic(to, canonical(judged))
    return judged


def remeasured(newest: Path) -> None:
    """Raises EvidenceError when an item that was measured again on purpose came out worse than accepted; the old record stays in use."""
    judged = read(Judged, newest)
    if judged.state != "accepted":
        why = "; ".join(str(r) for r in judged.reasons[:5])
        raise EvidenceError(
            f"{newest}: the new measurement is {judged.state} ({why}). Nothing changes: the record accepted before stays in use."
        )
    print(f"{newest}: accepted", file=sys.stderr)


def write_gates(
    study: Path, gates: Sequence[Gate], judged_files: Sequence[Path], to: Mapping[str, Path]
) -> list[Verdict]:
    """Judge several gates from the same records and write one verdict file each."""
    records = _lying(study, judged_files)
    sessions = read_sessions(reader(study), {judged.session for _, judged in records})
    files = {name: (s.files, s.inputs) for name, s in sessions.items()}
    made = [gate_verdict(gate, records, files) for gate in gates]
    for verdict in made:
        write_atomic(to[verdict.gate], canonical(verdict))
    return made


def base_gate(
    study: Path, plan: Plan, gate: Gate, sessions: dict[str, list[str]], judge_sha256: str, to: Path
) -> Verdict:
    """The base-repeat gate straight from the evidence, before an arm that depends on it starts a server.

    sessions: item id -> sessions that measured it, newest first. Never fails: no evidence is a verdict too.
    """
    found: list[tuple[Input, Judged]] = []
    for key in (gate.subject[0], gate.oracle[0]):
        item = plan.item(key)
        for session in sessions.get(key, []):
            try:
                judged = judge_evidence(study, session, item, plan.arm(item.arm).launch_sha256, judge_sha256)
            except EvidenceError:
                continue
            found.append((Input(f"sessions/{session}", judged.boot), judged))
    verdict = gate_verdict(gate, found, {})
    write_atomic(to, canonical(verdict))
    return verdict


def reader(study: Path) -> Callable[[str], bytes | None]:
    """Reads files of a results folder by their path in it; None for one that is not there."""

    def read_file(path: str) -> bytes | None:
        try:
            return (study / path).read_bytes()
        except FileNotFoundError:
            return None

    return read_file


def _lying(study: Path, files: Sequence[Path]) -> list[tuple[Input, Judged]]:
    found = []
    for path in files:
        data = path.read_bytes()
        found.append((Input(path.relative_to(study).as_posix(), sha256(data)), parse(Judged, data, str(path))))
    return found
