"""Words for the terminal: what came out of a call, and the call that makes a results folder."""

from pathlib import Path

from rungproof.records.codec import read
from rungproof.records.errors import EvidenceError
from rungproof.records.summary import Summary
from rungproof.records.text import clean

STATES = ("qualified", "withheld", "invalid", "failed", "skipped", "missing")
SHOWN = 12  # points that did not qualify, at most so many


def call_of(study: str) -> str:
    """The call that measures into a results folder of this name, `<campaign>` or `<campaign>@<host>`."""
    campaign, mark, host = study.partition("@")
    return f"snakemake {campaign} --cores 1{f' --config host={host}' if mark else ''}"


def closing(study: Path) -> str:
    """Counts by state, what did not qualify and why, and where the page is; empty where there is no summary."""
    try:
        summary = read(Summary, study / "summary.json")
    except EvidenceError:
        return ""
    counts = {state: sum(p.state == state for p in summary.points) for state in STATES}
    lines = [f"{study.name}: " + ", ".join(f"{n} {state}" for state, n in counts.items() if n)]
    rest = [p for p in summary.points if p.state != "qualified"]
    for p in rest[:SHOWN]:
        why = p.reasons[0] if p.reasons else ""
        lines.append(f"  {p.state:9} {p.arm}/{p.workload}/{p.item}  {p.k}/{p.n}  {clean(why)[:140]}")
    if len(rest) > SHOWN:
        lines.append(f"  and {len(rest) - SHOWN} more: rungproof status")
    lines.append(f"  page: {study / 'page/index.html'}")
    return "\n".join(lines)
