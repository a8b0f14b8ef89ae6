"""The pages: a pure function of a campaign's summary and standing. No clock, no network; the same input gives the same bytes."""

from pathlib import Path
from typing import Any

from rungproof.judge import host_facts
from rungproof.publish.pages import (
    badge,
    claims,
    facts,
    figures,
    glossary,
    hosts,
    identity,
    multiples,
    regimes,
    rows,
    steps,
    twins,
)
from rungproof.publish.pages.claimed import Claims
from rungproof.publish.pages.engine import templates
from rungproof.records.files import write_atomic
from rungproof.records.standing import Standing
from rungproof.records.summary import Summary

PAGES = ("index", "numbers", "evidence", "environment")
LADDER = (
    ("Lab-measured", "published by those who measured it"),
    ("Recomputed", "somebody with another key made every number again from the raw bytes"),
    ("Replayed", "the plan was measured again and gave the same tokens"),
    ("Replicated", "by another key, with equal rates on a comparable host"),
)


def render(summary: Summary, to: Path, standing: Standing | None = None) -> list[Path]:
    """Write the pages, their twins and the badge into the folder `to`, without charts of before; return their paths, `index.html` first.

    The pages expect to lie in `<results>/<campaign>/page/`, or so in a pack: their links to evidence begin with `../`. Raises
    EvidenceError for a qualified number without value or evidence, HostError when the disk refuses.
    """
    standing = standing or Standing()
    made: dict[str, bytes] = {f"{name}.html": page.encode("utf-8") for name, page in pages(summary, standing).items()}
    for twin in twins.twins(summary, figures.figures(summary, Claims(summary))):
        made |= twin.files(summary)
    made["badge.svg"] = badge.badge(summary, standing)
    for old in to.glob("chart-*"):  # of a plan that had other workloads
        if old.name not in made:
            old.unlink()
    for name, data in made.items():
        write_atomic(to / name, data)
    return [to / name for name in made]


def html(summary: Summary, standing: Standing | None = None) -> str:
    """The text of the campaign's own page."""
    return pages(summary, standing or Standing())["index"]


def pages(summary: Summary, standing: Standing) -> dict[str, str]:
    """Every page by name: the campaign's own, and those that hold what is too long for it."""
    claims.check_claims(summary)
    context = _context(summary, standing)
    made = {name: templates().get_template(f"{name}.html.j2").render(context, page=name) for name in PAGES}
    return {name: glossary.linked(page, "" if name == "index" else "index.html") for name, page in made.items()}


def _rules(summary: Summary) -> list[facts.Fact]:
    """The rules of the plan, without what stands elsewhere: when measuring ends, and digests of suites."""
    known = (
        facts.facts({key: value for key, value in summary.rules.items() if key != "stopping"}) if summary.rules else []
    )
    return [fact for fact in known if not fact.key.endswith("canary_sha256")]


def _context(summary: Summary, standing: Standing) -> dict[str, Any]:
    c = Claims(summary)
    same, differ, more = host_facts.environment(summary.sessions)
    looks, knobs = figures.arm_styles(summary), facts.knobs(summary)
    verdicts = rows.verdict_rows(summary, c)
    late = [one.session for one in summary.sessions if not one.registered]
    return {
        "s": summary,
        "c": c,
        "standing": standing,
        "states_of_proof": LADDER,
        "measured_on": badge.measured_on(summary),
        "against": [row for row in verdicts if row.source.state != "qualified"],
        "headlines": claims.headline_rows(summary, c),
        "ratios": claims.ratio_words(summary, c),
        "gate_line": claims.gate_line(summary),
        "figures": figures.figures(summary, c),
        "looks": looks,
        "panels": multiples.panels(summary, c, looks),
        "others": figures.others(summary, c),
        "unclaimed": claims.unclaimed(summary, c),
        "verdicts": verdicts,
        "divergences": identity.divergence_rows(summary, c),
        "views": identity.view_words(summary, c),
        "ties": [
            (row.gate, identity.tie_words(c, i, row)) for i, row in enumerate(summary.margins[: identity.ROW_LIMIT])
        ],
        "wanted": identity.wanted_words(),
        "strict": rows.strict_table(summary, c),
        "step_rows": steps.step_rows(summary, c),
        "drafted_rows": steps.drafted_rows(summary, c),
        "client_rows": steps.client_rows(summary, c),
        "canaries": rows.canary_groups(summary, c),
        "weak_canaries": rows.weak_canaries(summary),
        "knobs": knobs,
        "knobs_off": facts.not_verified(knobs),
        "knobs_own": facts.own(knobs),
        "regimes": regimes.regimes(summary),
        "environment_same": same,
        "environment_leading": hosts.leading(same),
        "environment_differ": differ,
        "environment_unequal": hosts.unequal(summary.sessions, differ),
        "environment_more": more,
        "sampled": hosts.sampled(summary.sessions, c),
        "energies": hosts.energies(summary.sessions, c),
        "attempts": rows.attempts(summary, c),
        "rules": _rules(summary),
        "stopping": [str(words) for words in dict(summary.rules.get("stopping", {})).values()],
        "suites": [facts.facts(suite) for suite in summary.suites],
        "launches": facts.launches(summary.arms),
        "files": rows.files(summary),
        "registered_first": "" if late else min((one.registered for one in summary.sessions), default=""),
        "not_registered": late,
        "window": facts.find(summary.rules, "window"),
        "stamps": figures.told(summary, "stamp_source"),
        "scheduling": figures.told(summary, "scheduling"),
        "glossary": glossary.entries(),
    }
