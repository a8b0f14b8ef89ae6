"""Recomputes a results folder: every judged record, verdict and point again from raw bytes, compared with what the folder says.

Of the levels of verification this does L2 (numbers) and L3 (identity); L0 (bytes) and L1 (signer) need a signed pack. It
does not prove that the run was honest, only that what is shown follows from the files. It imports none of the rooms by
name: it loads `records` and `judge` from the package it lies in, so that a pack can carry it with a copy of those two.
"""

import dataclasses
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """ok: everything that could be recomputed agrees, and there was something. lines: what was compared, differences first."""

    ok: bool
    lines: tuple[str, ...]


def _room(name: str) -> Any:
    return importlib.import_module(f"rungproof.{name}")


def recompute(study: Path) -> Outcome:
    """Recompute `study` (results/<campaign>). A folder with nothing to compare is not ok. Raises EvidenceError for damaged records."""
    codec, formats, summary_room = _room("records.codec"), _room("records.formats"), _room("records.summary")
    summary = codec.read(summary_room.Summary, study / "summary.json")
    plan = _plan(study, summary.lock_sha256)
    differs: list[str] = []
    judged: dict[str, list[Any]] = {}
    counts = {"judged records": 0, "verdicts": 0, "points": 0}
    launches = {arm.name: arm.launch_sha256 for arm in plan.arms}
    for item in plan.items:
        for path in sorted(study.glob(f"sessions/*.{item.seat}/judged/{item.workload}.{item.item}.json"), reverse=True):
            said = codec.read(formats.Judged, path)
            if said.spec_sha256 != item.spec_sha256 or said.launch_sha256 != launches[item.arm]:
                continue  # of an earlier plan
            again = _room("judge.evidence").judge_from(
                _reader(study), said.session, item, launches[item.arm], said.judge_sha256
            )
            counts["judged records"] += 1
            if again != said:
                differs.append(f"differs: {path.relative_to(study)}: {_fields(said, again)}")
            judged.setdefault(item.id, []).append(again)
    pick, judge_gate = _room("judge.use").pick, _room("judge.gates").judge_gate
    verdicts = {v.gate: v for v in summary.verdicts}
    for gate in plan.gates:
        said = verdicts.get(gate.id)
        if said is None:
            continue
        sides = [pick(judged.get(key, [])) for key in (gate.subject[0], gate.oracle[0])]
        again = judge_gate(gate, sides[0], sides[1], said.inputs)
        counts["verdicts"] += 1
        if again != said:
            differs.append(f"differs: verdict {gate.id}: {_fields(said, again)}")
        verdicts[gate.id] = again
    findings = _room("judge.points").Findings(plan, judged, verdicts, {})
    said_points = {p.id: p for p in summary.points}
    for point in _room("judge.points").points_of(findings):
        if point.state == "missing":
            continue  # nothing lies behind it, so there is nothing to recompute
        counts["points"] += 1
        if said_points.get(point.id) != point:
            differs.append(f"differs: point {point.id}: {_fields(said_points.get(point.id), point)}")
    lines = [f"recomputed from raw files: {n} {what}" for what, n in counts.items()]
    if not all(counts.values()):
        differs.append(f"differs: {study}: nothing to compare; expected judged records, verdicts and points")
    return Outcome(not differs, tuple(differs + lines))


def _plan(study: Path, sha: str) -> Any:
    """The plan that the summary names by its digest."""
    codec, errors = _room("records.codec"), _room("records.errors")
    plan = codec.read(_room("records.plan").Plan, study / "plan.json")
    if codec.digest(plan) != sha:
        raise errors.EvidenceError(
            f"{study}/plan.json: its digest begins {codec.digest(plan)[:12]}; summary.json names {sha[:12]}. The plan was changed."
        )
    return plan


def _reader(study: Path) -> Any:
    def read(path: str) -> bytes | None:
        try:
            return (study / path).read_bytes()
        except FileNotFoundError:
            return None

    return read


def _fields(said: Any, again: Any) -> str:
    """Names of the fields that differ."""
    if said is None:
        return "is not in the summary"
    names = [f.name for f in dataclasses.fields(said) if getattr(said, f.name) != getattr(again, f.name)]
    shown = [f"{name}: says {getattr(said, name)!r:.80}, recomputed {getattr(again, name)!r:.80}" for name in names[:3]]
    return "; ".join(shown)
