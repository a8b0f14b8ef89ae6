"""The page: a pure function of a campaign's summary. No clock, no network; the same summary gives the same bytes."""

from collections import Counter
from pathlib import Path
from typing import Any

from rungproof.publish.pages import (
    claims,
    facts,
    figures,
    hosts,
    identity,
    regimes,
    rows,
    steps,
    twins,
)
from rungproof.publish.pages.engine import templates
from rungproof.records.files import write_atomic
from rungproof.records.summary import Summary


def render(summary: Summary, to: Path) -> list[Path]:
    """Write `index.html`, `points.csv` and `points.json` into the folder `to`; return their paths in this order.

    The page expects to lie in `<results>/<campaign>/page/`: its links to evidence begin with `../`. Raises EvidenceError
    for a qualified number without value or evidence, HostError when the disk refuses.
    """
    made = {
        "index.html": html(summary).encode("utf-8"),
        "points.csv": twins.points_csv(summary),
        "points.json": twins.points_json(summary),
    }
    for name, data in made.items():
        write_atomic(to / name, data)
    return [to / name for name in made]


def html(summary: Summary) -> str:
    """The page's text."""
    claims.check_claims(summary)
    return templates().get_template("index.html.j2").render(_context(summary))


def _context(summary: Summary) -> dict[str, Any]:
    same, differ, more = hosts.environment(summary.sessions)
    return {
        "s": summary,
        "states": Counter(point.state for point in summary.points),
        "gates": {verdict.gate for verdict in summary.verdicts},
        "against": [row for row in rows.verdict_rows(summary) if row.source.state != "qualified"],
        "headlines": claims.headline_rows(summary),
        "ratios": [claims.ratio_words(row) for row in summary.ratios],
        "gate_line": claims.gate_line(summary),
        "figures": figures.figures(summary),
        "others": figures.others(summary),
        "unclaimed": claims.unclaimed(summary),
        "verdicts": rows.verdict_rows(summary),
        "divergences": identity.divergence_rows(summary.verdicts),
        "views": identity.views(summary.verdicts),
        "ties": [(row.gate, identity.margin_words(row)) for row in summary.margins[: identity.ROW_LIMIT]],
        "wanted": identity.wanted_words(),
        "strict": rows.strict_table(summary.strict),
        "step_rows": steps.step_rows(summary),
        "client_rows": steps.client_rows(summary),
        "canaries": rows.canary_groups(summary.canaries),
        "weak_canaries": rows.weak_canaries(summary),
        "knobs": facts.knobs(summary),
        "regimes": regimes.regimes(summary),
        "environment_same": same,
        "environment_differ": differ,
        "environment_more": more,
        "sampled": hosts.sampled(summary.sessions),
        "energies": hosts.energies(summary.sessions),
        "attempts": rows.attempts(summary.history),
        "rules": facts.facts(summary.rules),
        "suites": [facts.facts(suite) for suite in summary.suites],
        "launches": facts.launches(summary.arms),
        "files": rows.files(summary),
        "window": facts.find(summary.rules, "window"),
        "stamps": figures.told(summary, "stamp_source"),
        "scheduling": figures.told(summary, "scheduling"),
        "client_wait": figures.longest_wait(summary),
    }
