"""From a closed session's files to judged and accepted records, and from those to verdict files."""

import sys
from collections.abc import Sequence
from pathlib import Path

from rungproof.judge.evidence import judge_from
from rungproof.judge.gates import judge_gate
from rungproof.judge.soundness import SessionFiles, soundness
from rungproof.judge.use import in_use, pick
from rungproof.measure.store import Folder
from rungproof.records.codec import canonical, read, sha256
from rungproof.records.errors import EvidenceError
from rungproof.records.files import write_atomic
from rungproof.records.formats import Canary, Input, Judged, Verdict
from rungproof.records.plan import Gate, Item, Plan


def judge_item(study: Path, session: str, item: Item, launch_sha256: str, judge_sha256: str) -> Judged:
    """Judge one attempt of a closed session and write `judged/`. Damaged evidence is a judged record too: state invalid."""
    judged = judge_evidence(study, session, item, launch_sha256, judge_sha256)
    write_atomic(Folder(study).judged(session, item), canonical(judged))
    return judged


def judge_evidence(study: Path, session: str, item: Item, launch_sha256: str, judge_sha256: str) -> Judged:
    """`judge_item` without writing. Raises EvidenceError when the session has no readable server, closing or attempt record."""

    def read_file(path: str) -> bytes | None:
        try:
            return (study / path).read_bytes()
        except FileNotFoundError:
            return None

    return judge_from(read_file, session, item, launch_sha256, judge_sha256)


def _canary(home: Path, when: str) -> Canary | None:
    path = home / f"canary_{when}.json"
    try:
        return read(Canary, path) if path.exists() else None
    except EvidenceError:
        return None


def _input(folder: Folder, path: Path) -> Input:
    return Input(folder.relative(path), sha256(path.read_bytes()))


def accept(judged_files: Sequence[Path], to: Path) -> Judged:
    """Copy the record in use to `accepted/`. Raises EvidenceError, and writes nothing, where none was accepted or skipped."""
    judged = pick([read(Judged, path) for path in judged_files])
    if judged is None:
        raise EvidenceError(f"{to}: there is no judged record to accept")
    if judged.state not in ("accepted", "skipped"):
        why = "\n  ".join(str(r) for r in judged.reasons[:12])
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


def write_gate(study: Path, gate: Gate, subject: Sequence[Path], oracle: Sequence[Path], to: Path) -> Verdict:
    """Judge one gate from the judged records of both sides (newest first) and write its verdict."""
    folder = Folder(study)
    sides = []
    inputs: list[Input] = []
    for files in (subject, oracle):
        read_files = [(path, read(Judged, path)) for path in files]
        judged = pick([j for _, j in read_files])
        sides.append(judged)
        inputs += [_input(folder, path) for path, j in read_files if j is judged]
    verdict = judge_gate(gate, sides[0], sides[1], tuple(dict.fromkeys(inputs)))
    write_atomic(to, canonical(verdict))
    return verdict


def write_soundness(study: Path, judged_files: Sequence[Path], to: dict[str, Path]) -> None:
    """Count canaries, configuration, population, cache and preemption over the records in use; one verdict file each.

    judged_files: of all items, each item's newest first.
    """
    folder = Folder(study)
    used = in_use([(path, read(Judged, path)) for path in judged_files])
    names = sorted({j.session for _, j in used})
    sessions = [
        SessionFiles(
            folder.server(name), _canary(folder.session(name), "before"), _canary(folder.session(name), "after")
        )
        for name in names
    ]
    inputs = [_input(folder, path) for path, _ in used]
    for name in names:
        inputs += [
            _input(folder, p)
            for n in ("server", "canary_before", "canary_after")
            if (p := folder.session(name) / f"{n}.json").exists()
        ]
    for verdict in soundness([j for _, j in used], sessions, tuple(inputs)):
        write_atomic(to[verdict.gate], canonical(verdict))


def base_gate(study: Path, plan: Plan, gate: Gate, sessions: dict[str, str], judge_sha256: str, to: Path) -> Verdict:
    """The base-repeat gate straight from the evidence, before an arm that depends on it starts a server. Never fails: no evidence is a verdict."""
    sides: list[Judged | None] = []
    for key in (gate.subject[0], gate.oracle[0]):
        item = plan.item(key)
        try:
            sides.append(judge_evidence(study, sessions[key], item, plan.arm(item.arm).launch_sha256, judge_sha256))
        except (EvidenceError, KeyError):
            sides.append(None)
    inputs = tuple(i for j in sides if j for i in j.inputs)
    verdict = judge_gate(gate, sides[0], sides[1], inputs)
    write_atomic(to, canonical(verdict))
    return verdict
