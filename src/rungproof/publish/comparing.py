"""Packs or results folders beside each other: read without trust, compared by the judge, conditions that differ told first."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rungproof.judge.comparing import Beside, Comparison, Difference, compare_summaries
from rungproof.publish.pages.text import csv_cell
from rungproof.publish.reading import listed, read_bounded
from rungproof.publish.site.history import differing
from rungproof.records.codec import parse, sha256
from rungproof.records.errors import ConfigError, EvidenceError
from rungproof.records.summary import Summary

COLUMNS = {
    "reference": "the pack that ratios are over",
    "other": "the pack whose rate is above",
    "arm_reference": "arm in the reference", "arm_other": "arm in the other",
    "workload": "what was measured", "item": "which part of the workload", "metric": "which number",
    "unit": "unit of both values",
    "value_reference_in_unit": "point of the reference, whatever its state", "state_reference": "only qualified is a claim",
    "value_other_in_unit": "point of the other, whatever its state", "state_other": "only qualified is a claim",
    "ratio": "rate of other over reference; empty where not compared",
    "ratio_low": "lower end of what the servers allow", "ratio_high": "upper end", "interval": "what low and high are",
    "confidence": "of the interval; empty for a range, from which nothing is claimed",
    "servers_reference": "fresh servers behind the ratio", "servers_other": "fresh servers behind the ratio",
    "difference_claimed": "true: the interval leaves 1 out and the servers are enough to say so",
    "not_compared_because": "why there is no ratio",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Side:
    """One pack or results folder. `date`: start of its newest session [UTC]; `pack`: id, "" of a results folder."""

    folder: Path
    name: str
    pack: str
    summary: Summary
    date: str


@dataclass(frozen=True, slots=True)
class Pair:
    """The first side and another. `launches`: what differs in how their servers were launched."""

    reference: Side
    other: Side
    found: Comparison
    launches: tuple[Difference, ...]


def read_side(folder: Path) -> Side:
    """One side. Raises EvidenceError where there is no summary, it is damaged, or a pack's manifest names another one."""
    path, manifest, pack = folder / "summary.json", folder / "MANIFEST.sha256", ""
    data = read_bounded(path)
    if manifest.exists():
        held = read_bounded(manifest)
        pack = sha256(held)[:12]
        if not listed(held, "summary.json", data):
            raise EvidenceError(f"{path}: is not the file that MANIFEST.sha256 names; the pack was changed")
    summary = parse(Summary, data, str(path))
    whole = folder.resolve()
    name = f"{whole.parent.name}/{whole.name}" if pack else whole.name
    return Side(folder, name, pack, summary, max((s.at for s in summary.sessions), default=""))


def pairs_of(sides: Sequence[Side], arms: Sequence[tuple[str, str]] = ()) -> list[Pair]:
    """Each side after the first beside the first. Raises ConfigError for fewer than two sides, or an arm that is not there."""
    if len(sides) < 2:
        raise ConfigError("at least two packs or results folders are compared; name another")
    made = []
    for other in sides[1:]:
        for one, two in arms:
            for arm, side in ((one, sides[0]), (two, other)):
                if arm not in {a.name for a in side.summary.arms}:
                    known = ", ".join(a.name for a in side.summary.arms)
                    raise ConfigError(f"{side.name}: has no arm {arm}; it has {known}")
        found = compare_summaries(sides[0].summary, other.summary, arms)
        made.append(Pair(sides[0], other, found, tuple(_launches(sides[0], other, arms))))
    return made


def _launches(a: Side, b: Side, arms: Sequence[tuple[str, str]]) -> list[Difference]:
    left, right = ({arm.name: arm for arm in side.summary.arms} for side in (a, b))
    made = []
    for one, two in arms or [(name, name) for name in left if name in right]:
        made += [
            Difference("launch", f"{two} {key}", *values)
            for key, *values in differing(left[one].launch, right[two].launch)
        ]
        versions = [_version(side, arm) for side, arm in ((a, one), (b, two))]
        if versions[0] != versions[1]:
            made.append(Difference("engine", f"{two} engine version", *versions))
    return made


def _version(side: Side, arm: str) -> str:
    found = next(
        (
            s.identity.get("engine_version")
            for s in side.summary.sessions
            if s.arm == arm and s.identity.get("engine_version")
        ),
        None,
    )
    return str(found) if found is not None else "not told"


def differences(pair: Pair) -> list[Difference]:
    """Every condition that differs: host, suites and rules, launches, environment."""
    order = {"host": 0, "suite": 1, "rule": 2, "engine": 3, "launch": 4, "environment": 5}
    return sorted((*pair.found.differences, *pair.launches), key=lambda one: order[one.kind])


def rows_of(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """One row a point of each pair, in the columns of the twins."""
    return [_row(pair, row) for pair in pairs for row in pair.found.rows]


def _row(pair: Pair, row: Beside) -> dict[str, Any]:
    r = row.ratio
    values = (
        *(pair.reference.name, pair.other.name, row.arm_a, row.arm_b, row.workload, row.item, row.metric, row.unit),
        *(row.a.value if row.a else None, row.a.state if row.a else "missing"),
        *(row.b.value if row.b else None, row.b.state if row.b else "missing"),
        *(
            (r.interval.center, r.interval.low, r.interval.high, r.interval.kind, r.interval.confidence)
            if r
            else (None,) * 5
        ),
        *((r.n[1], r.n[0], r.claim) if r else (len(row.values_a), len(row.values_b), False)),
        row.why,
    )
    return dict(zip(COLUMNS, values, strict=True))


def compare_csv(pairs: Sequence[Pair]) -> bytes:
    """The rows as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows_of(pairs):
        writer.writerow([csv_cell(value) for value in row.values()])
    return out.getvalue().encode("utf-8", "replace")


def compare_json(pairs: Sequence[Pair]) -> bytes:
    """Conditions and rows as JSON."""
    made = {
        "format": "rungproof.compare/1",
        "columns": COLUMNS,
        "pairs": [
            {
                "reference": pair.reference.name, "other": pair.other.name, "refused": pair.found.refused, "host": pair.found.host,
                "same_host_class": pair.found.same_host, "simulated": [pair.reference.summary.simulated, pair.other.summary.simulated],
                "conditions": [{"kind": d.kind, "what": d.what, "reference": d.a, "other": d.b} for d in differences(pair)],
                "rows": [_row(pair, row) for row in pair.found.rows],
            }
            for pair in pairs
        ],
    }  # fmt: skip
    return json.dumps(made, indent=1, ensure_ascii=True, allow_nan=False).encode() + b"\n"
