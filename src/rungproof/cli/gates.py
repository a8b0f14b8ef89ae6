"""Commands on gates: `gates` lists them with state, figures and reasons; `explain` tells why a point is what it is."""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

from rungproof.cli.words import add, clean, console, table
from rungproof.judge.stats import needed
from rungproof.publish.explain import explain as explained
from rungproof.publish.words import call_of
from rungproof.records.codec import plain, read, sha256
from rungproof.records.errors import ConfigError, EvidenceError
from rungproof.records.formats import Verdict
from rungproof.records.plan import Gate, Plan
from rungproof.records.shown import percent_down
from rungproof.records.summary import Summary

RULES = {
    "base_repeat": "every output identical on a fresh server",
    "draft_repeat": "every output identical on a fresh server",
    "draft_oracle": "every output identical to the base arm's",
    "depth_oracle": "every output identical to the base arm's",
    "short_oracle": "every output identical to the base arm's",
    "spread": "fresh servers near each other, or three of them",
    "ladder_rung": "identical to one at a time",
    "canaries": "all passed",
    "configuration": "all found",
    "population": "all complete",
    "cache_zero": "all 0",
    "preemption_zero": "all 0",
}  # fmt: skip

NOT_NEEDED = "not needed"


@dataclass(frozen=True, slots=True)
class Row:
    """One gate as it stands. state: that of its verdict, `missing` without one, `outdated` where a file that it was made from has changed."""

    gate: Gate
    state: str
    verdict: Verdict | None
    why: str


def add_options(to: argparse.ArgumentParser) -> None:
    """The options of gates beside those of plan and status."""
    to.add_argument(
        "--bound",
        type=float,
        default=95.0,
        metavar="PERCENT",
        help="tell what this lower bound would need (default: %(default)s)",
    )
    to.add_argument("--json", action="store_true", help="print the verdicts as JSON")


def gates(options: argparse.Namespace, plan: Plan, study: Path) -> int:
    """Print every gate of the plan with its state. Exit code 1 where one has not passed."""
    if not 0 < options.bound < 100:
        raise ConfigError(f"--bound {options.bound:g}: expected a number between 0 and 100, in per cent")
    rows = [_row(plan, gate, study) for gate in plan.gates]
    if options.json:
        made = [
            {
                "gate": r.gate.id,
                "state": r.state,
                "why": r.why,
                "planned": plain(r.gate),
                "verdict": plain(r.verdict) if r.verdict else None,
            }
            for r in rows
        ]
        print(json.dumps(made, indent=1, ensure_ascii=True))
    else:
        _print(rows, options.bound / 100)
    counted = [r for r in rows if r.state != NOT_NEEDED]
    return 0 if counted and all(r.state == "qualified" for r in counted) else 1


def _row(plan: Plan, gate: Gate, study: Path) -> Row:
    """As `row_of`; a gate on a third fresh server that was not called for is not needed."""
    row = row_of(gate, study)
    if row.state == "missing" and gate.oracle and plan.item(gate.subject[0]).seat in plan.conditional:
        return Row(gate, NOT_NEEDED, None, "a third fresh server was not called for")
    return row


def row_of(gate: Gate, study: Path) -> Row:
    """How a gate stands in a results folder: its verdict counts only while every file that it was made from is as it was."""
    path = study / "verdicts" / f"{gate.id}.json"
    if not path.exists():
        return Row(gate, "missing", None, "no verdict: a side of it has not been measured")
    try:
        verdict = read(Verdict, path)
    except EvidenceError as error:
        return Row(gate, "damaged", None, str(error))
    for source in verdict.inputs:
        file = study / source.path
        if not file.exists() or sha256(file.read_bytes()) != source.sha256:
            return Row(gate, "outdated", verdict, f"{source.path} is not the file that it was made from")
    return Row(gate, verdict.state, verdict, str(verdict.reasons[0]) if verdict.reasons else "")


def _print(rows: list[Row], bound: float) -> None:
    made = table(
        "",
        {
            "gate": False,
            "rule": False,
            "state": False,
            "sites": True,
            "at least": True,
            "outputs": True,
            "stops": True,
            "why": False,
        },
    )
    for r in rows:
        v = r.verdict
        figures = (
            (f"{v.sites_k}/{v.sites_n}", percent_down(v.bound) if v.bound is not None else "-", f"{v.k}/{v.n}")
            if v
            else ("-", "-", "-")
        )
        stops = len(v.stops) if v and r.state == v.state else len(r.gate.guards)
        add(made, r.gate.id, rule_words(r.gate), r.state, *figures, f"{stops}/{len(r.gate.guards)}", r.why)
    console().print(made)
    rows = [r for r in rows if r.state != NOT_NEEDED]
    passed = sum(r.state == "qualified" for r in rows)
    print(
        f"{passed} of {len(rows)} gates passed. `at least`: exact one-sided 95 % bound of the sites; `stops`: points stopped of those guarded."
    )
    print(
        f"Without a failure, {needed(bound)} sites would support at least {percent_down(bound)}; with one, {needed(bound, 1)}."
    )


def rule_words(gate: Gate) -> str:
    """The rule of a gate in a few words."""
    exact = gate.rule.get("exact")
    passes = f", pass {', '.join(map(str, exact))}" if isinstance(exact, list) else f", {exact}" if exact else ""
    return f"{RULES[gate.kind]}{passes}"


def add_explain_options(to: argparse.ArgumentParser) -> None:
    """The point of explain; the campaign is that of plan and status."""
    to.add_argument(
        "point", metavar="ARM/WORKLOAD/ITEM", help="a point, as status lists it, without the metric at its end"
    )


def explain(options: argparse.Namespace, study: Path) -> int:
    """Print why a point is what it is."""
    path = study / "summary.json"
    if not path.exists():
        raise ConfigError(f"{study}: no summary yet; run: {call_of(study.name)}")
    for line in explained(read(Summary, path), options.point):
        print(clean(line))
    return 0
