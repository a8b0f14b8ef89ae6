"""Published numbers and the evidence each one is linked to."""

from collections.abc import Sequence
from dataclasses import dataclass

from rungproof.publish.pages.text import anchor, count_of, evidence_link, metric_name, visible
from rungproof.records.errors import EvidenceError
from rungproof.records.formats import Divergence, Point, Verdict
from rungproof.records.shown import shown
from rungproof.records.summary import Headline, RatioRow, Summary

NOT_CLAIMED = ("withheld", "invalid", "failed", "skipped", "missing")


@dataclass(frozen=True, slots=True)
class Number:
    """One number as shown: rounded text, full value, the claim it belongs to and the link to its evidence."""

    text: str
    value: str
    claim: str
    href: str
    server: str = ""


@dataclass(frozen=True, slots=True)
class HeadlineRow:
    """The strict headline of one arm; numbers are None where it is not qualified."""

    source: Headline
    servers: tuple[Number, ...]
    center: Number | None
    measured: str
    spread: str = ""


@dataclass(frozen=True, slots=True)
class Unclaimed:
    """One line of the table of what is not claimed."""

    key: str
    name: str
    arm: str
    what: str
    state: str
    value: str
    raw_value: str
    unit: str
    counted: str
    reasons: tuple[str, ...]
    divergence: str
    href: str | None


def check_claims(summary: Summary) -> None:
    """Raise EvidenceError for a qualified number without a value or without a file of the campaign that proves it."""
    for point in summary.points:
        if point.state != "qualified":
            continue
        if point.value is None:
            raise EvidenceError(f"{visible(point.id)}: qualified without a value; expected a number, or another state")
        if link_of(point) is None:
            raise EvidenceError(
                f"{visible(point.id)}: qualified, but no evidence inside the campaign's folder is named "
                f"(found {visible(repr(point.evidence))}); a number without evidence is not published"
            )
    for headline in summary.headlines:
        if headline.state == "qualified" and (headline.center is None or not headline.servers):
            raise EvidenceError(
                f"headline of {visible(headline.arm)}: qualified without a centre or without a server's value"
            )


def link_of(point: Point) -> str | None:
    """The first evidence of a point that lies in the campaign's folder."""
    return next((link for path in point.evidence if (link := evidence_link(path))), None)


def number_of(point: Point) -> Number:
    """A qualified point as a number; `check_claims` has seen it."""
    value = point.value if point.value is not None else float("nan")
    return Number(shown(value), repr(value), point.id, link_of(point) or "points.json")


def headline_point(summary: Summary, arm: str) -> Point | None:
    """The point behind an arm's strict headline: its decode rate that has no x."""
    return next((p for p in summary.points if p.arm == arm and p.metric == "decode_rate" and p.x is None), None)


def headline_rows(summary: Summary) -> list[HeadlineRow]:
    """One row an arm. Each server's value links to its own raw file, the centre to the strict point's evidence."""
    return [_headline(summary, headline) for headline in summary.headlines]


def _headline(summary: Summary, headline: Headline) -> HeadlineRow:
    strict = headline_point(summary, headline.arm)
    claim = strict.id if strict else f"{headline.arm}/strict/suite/decode_rate"
    raw = {
        name: _raw_of(summary, headline.arm, strict.workload if strict else "strict", name)
        for name, _ in headline.servers
    }
    own = next((link for link in raw.values() if link), None)
    fallback = (link_of(strict) if strict else None) or own or "#strict"
    measured = [(name, value) for name, value in headline.servers if value is not None]
    if headline.state != "qualified" or headline.center is None:
        words = ", ".join(f"{shown(value)} ({name})" for name, value in measured)
        return HeadlineRow(headline, (), None, words)
    servers = tuple(Number(shown(v), repr(v), claim, raw[name] or fallback, name) for name, v in measured)
    center = Number(shown(headline.center), repr(headline.center), claim, fallback)
    return HeadlineRow(headline, servers, center, "", spread_words(headline))


def spread_words(headline: Headline) -> str:
    """What the servers' values allow to say of their spread, by its name; empty for one server."""
    if headline.low is None or headline.high is None:
        return ""
    flagged = f"; outlying, kept: {', '.join(headline.flagged)}" if headline.flagged else ""
    return f"{headline.kind} {shown(headline.low)} to {shown(headline.high)}{flagged}"


def ratio_words(row: RatioRow) -> str:
    """The rate of one arm over that of another, with what stands behind it."""
    arm, base = row.servers
    confidence = f" at {100 * row.confidence:g} % confidence" if row.confidence else ""
    claim = "a difference is claimed" if row.claim else "no difference is claimed"
    why = "" if row.claim else ": 1 lies within" if row.confidence else ": that takes 4 fresh servers a side"
    return (
        f"{row.arm} over {row.base}: {row.value:.3f} times the decode rate ({row.kind} {row.low:.3f} to {row.high:.3f}{confidence}, "
        f"{row.pairing}, {arm} and {base} fresh servers); {claim}{why}."
    )


def gate_line(summary: Summary) -> str:
    """How many gates did not pass, for the title of the page; empty where all have a verdict and passed."""
    off = sum(v.state != "qualified" for v in summary.verdicts) + len(summary.unjudged)
    return f"{off} of {len(summary.verdicts) + len(summary.unjudged)} gates not passed" if off else ""


def _raw_of(summary: Summary, arm: str, workload: str, server: str) -> str | None:
    """The raw file of an arm's strict suite on one server, named by replicate, seat or session."""
    rows = [row for row in summary.history if row.arm == arm and row.workload == workload and row.current]
    names = ((row, (row.replicate, f"{row.arm}.{row.replicate}", row.session)) for row in rows)
    return next((evidence_link(row.raw) for row, known in names if server in known), None)


def unclaimed(summary: Summary) -> list[Unclaimed]:
    """Everything that is not a claim, by state and then in the order of the campaign, headlines first."""
    by_gate = {verdict.gate: verdict for verdict in summary.verdicts}
    told = {h.arm for h in summary.headlines if (p := headline_point(summary, h.arm)) and p.state != "qualified"}
    rows = [_unclaimed_headline(h) for h in summary.headlines if h.state != "qualified" and h.arm not in told]
    rows += [_unclaimed_point(p, by_gate) for p in summary.points if p.state != "qualified"]
    return sorted(rows, key=lambda row: NOT_CLAIMED.index(row.state))


def _unclaimed_headline(headline: Headline) -> Unclaimed:
    center = headline.center
    return Unclaimed(
        key=anchor("not", f"{headline.arm}/headline"),
        name=f"{headline.arm}/strict/suite/decode_rate",
        arm=headline.arm,
        what="strict headline (centre)",
        state=headline.state,
        value=shown(center) if center is not None else "",
        raw_value=repr(center) if center is not None else "",
        unit=headline.unit,
        counted=count_of(headline.k, headline.n),
        reasons=headline.reasons,
        divergence="",
        href="#strict",
    )


def _unclaimed_point(point: Point, by_gate: dict[str, Verdict]) -> Unclaimed:
    verdicts = [by_gate[gate] for gate in point.gates if gate in by_gate]
    return Unclaimed(
        key=anchor("not", point.id),
        name=point.id,
        arm=point.arm,
        what=f"{point.workload} {point.item}, {metric_name(point.metric).lower()}",
        state=point.state,
        value=shown(point.value) if point.value is not None else "",
        raw_value=repr(point.value) if point.value is not None else "",
        unit=point.unit,
        counted=count_of(point.k, point.n),
        reasons=point.reasons,
        divergence=next((words for v in verdicts if (words := first_divergence(v.divergences))), ""),
        href=link_of(point),
    )


def first_divergence(divergences: Sequence[Divergence]) -> str:
    """Where outputs first left their oracle, in words; empty for none. Token positions are counted from 1."""
    if not divergences:
        return ""
    first = min(divergences, key=lambda d: (d.index, d.site, d.batch))
    got = f"token id {first.got}" if first.got is not None else f"the end of the output (length {first.got_length})"
    oracle = f"token id {first.oracle}" if first.oracle is not None else f"the end (length {first.oracle_length})"
    more = f"; {len(divergences) - 1} more diverged" if len(divergences) > 1 else ""
    return f"{first.site} in {first.batch}: token {first.index + 1} was {got}, the oracle has {oracle}{more}"
