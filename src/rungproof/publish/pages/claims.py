"""Published numbers and the evidence each one is linked to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from rungproof.publish.pages.claimed import NONE, Claims, link_of
from rungproof.publish.pages.text import anchor, evidence_link, metric_name, visible
from rungproof.records.errors import EvidenceError
from rungproof.records.formats import Divergence, Point
from rungproof.records.summary import ArmInfo, Headline, RatioRow, Summary

EVERYWHERE = frozenset(
    ("canaries", "configuration", "population", "cache_zero", "preemption_zero")
)  # gates of every point
NOT_CLAIMED = ("withheld", "invalid", "failed", "skipped", "missing")


@dataclass(frozen=True, slots=True)
class HeadlineRow:
    """The strict headline of one arm.

    `servers`: (name, rate as a link to its raw file); `center`: None where it is not qualified; `gates`: its own, without those
    that guard every point.
    """

    source: Headline
    arm: ArmInfo | None
    servers: tuple[tuple[str, Markup], ...]
    center: Markup | None
    spread: Markup
    counted: Markup
    gates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unclaimed:
    """One line of the table of what is not claimed."""

    key: str
    arm: str
    what: str
    state: str
    value: Markup
    unit: str
    counted: Markup
    reasons: tuple[str, ...]
    divergence: Markup | None


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


def headline_point(summary: Summary, arm: str) -> Point | None:
    """The point behind an arm's strict headline: its decode rate that has no x."""
    return next((p for p in summary.points if p.arm == arm and p.metric == "decode_rate" and p.x is None), None)


def headline_rows(summary: Summary, claims: Claims) -> list[HeadlineRow]:
    """One row an arm. Each server's value links to its own raw file, the centre to the strict point's evidence."""
    arms = {arm.name: arm for arm in summary.arms}
    return [_headline(summary, claims, i, h, arms.get(h.arm)) for i, h in enumerate(summary.headlines)]


def _headline(summary: Summary, claims: Claims, index: int, headline: Headline, arm: ArmInfo | None) -> HeadlineRow:
    strict = headline_point(summary, headline.arm)
    workload = strict.workload if strict else "strict"
    servers = []
    for number, (name, _) in enumerate(headline.servers):
        rate = claims.at("headlines", index, "servers", number, 1)
        link = _raw_of(summary, headline.arm, workload, name) or (link_of(strict) if strict else None)
        servers.append((name, Markup('<a href="{}">{}</a>').format(link, rate) if link and rate is not NONE else rate))
    center = None
    if headline.state == "qualified" and headline.center is not None:
        center = claims.linked(strict) if strict else claims.at("headlines", index, "center")
    return HeadlineRow(
        headline, arm, tuple(servers), center, _spread(claims, index, headline), claims.counted("headlines", index),
        tuple(gate for gate in strict.gates if gate not in EVERYWHERE) if strict else (),
    )  # fmt: skip


def _spread(claims: Claims, index: int, headline: Headline) -> Markup:
    """What the servers' values allow to say of their spread, by its name; empty for one server or an unqualified headline."""
    if headline.low is None or headline.high is None or headline.state != "qualified":
        return Markup("")
    flagged = f"; outlying, kept: {', '.join(headline.flagged)}" if headline.flagged else ""
    ends = (claims.at("headlines", index, end) for end in ("low", "high"))
    return Markup("{} {} to {}<bdi>{}</bdi>").format(headline.kind, *ends, visible(flagged))


def ratio_words(summary: Summary, claims: Claims) -> list[Markup]:
    """The rate of each arm over that of its base, with what stands behind it."""
    return [_ratio(claims, index, row) for index, row in enumerate(summary.ratios)]


def _ratio(claims: Claims, index: int, row: RatioRow) -> Markup:
    value, low, high = (claims.at("ratios", index, name, form="ratio") for name in ("value", "low", "high"))
    arm, base = (claims.at("ratios", index, "servers", side) for side in (0, 1))
    confidence = (
        Markup(" at {} confidence").format(claims.at("ratios", index, "confidence", form="percent"))
        if row.confidence
        else ""
    )
    claim = "a difference is claimed" if row.claim else "no difference is claimed"
    why = "" if row.claim else ": 1 lies within" if row.confidence else ": that takes 4 fresh servers a side"
    return Markup(
        "<bdi>{}</bdi> over <bdi>{}</bdi>: {} times the decode rate ({} {} to {}{}, {}, {} and {} fresh servers); {}{}."
    ).format(
        visible(row.arm), visible(row.base), value, row.kind, low, high, confidence, row.pairing, arm, base, claim, why
    )


def gate_line(summary: Summary) -> str:
    """How many gates did not pass, for the title of the page; empty where all have a verdict and passed."""
    return (
        f"{summary.gates_off} of {len(summary.verdicts) + len(summary.unjudged)} gates not passed"
        if summary.gates_off
        else ""
    )


def _raw_of(summary: Summary, arm: str, workload: str, server: str) -> str | None:
    """The raw file of an arm's strict suite on one server, named by replicate, seat or session."""
    rows = [row for row in summary.history if row.arm == arm and row.workload == workload and row.current]
    names = ((row, (row.replicate, f"{row.arm}.{row.replicate}", row.session)) for row in rows)
    return next((evidence_link(row.raw) for row, known in names if server in known), None)


def unclaimed(summary: Summary, claims: Claims) -> list[Unclaimed]:
    """Everything that is not a claim, by state and then in the order of the campaign, headlines first."""
    by_gate = {verdict.gate: index for index, verdict in enumerate(summary.verdicts)}
    told = {h.arm for h in summary.headlines if (p := headline_point(summary, h.arm)) and p.state != "qualified"}
    rows = [
        _unclaimed_headline(claims, i, h)
        for i, h in enumerate(summary.headlines)
        if h.state != "qualified" and h.arm not in told
    ]
    rows += [_unclaimed_point(summary, claims, p, by_gate) for p in summary.points if p.state != "qualified"]
    return sorted(rows, key=lambda row: NOT_CLAIMED.index(row.state))


def _unclaimed_headline(claims: Claims, index: int, headline: Headline) -> Unclaimed:
    return Unclaimed(
        key=anchor("not", f"{headline.arm}/headline"),
        arm=headline.arm,
        what="strict headline (centre)",
        state=headline.state,
        value=claims.at("headlines", index, "center"),
        unit=headline.unit if headline.center is not None else "",
        counted=claims.counted("headlines", index),
        reasons=headline.reasons,
        divergence=None,
    )


def _unclaimed_point(summary: Summary, claims: Claims, point: Point, by_gate: Mapping[str, int]) -> Unclaimed:
    first = (
        (i, d)
        for gate in point.gates
        if (i := by_gate.get(gate)) is not None and (d := first_of(summary.verdicts[i].divergences)) is not None
    )
    found = next(first, None)
    return Unclaimed(
        key=anchor("not", point.id),
        arm=point.arm,
        what=f"{point.workload} {point.item}, {metric_name(point.metric).lower()}",
        state=point.state,
        value=claims.linked(point),
        unit=point.unit if point.value is not None else "",
        counted=claims.counted(*claims.path(point)),
        reasons=point.reasons,
        divergence=divergence_words(claims, summary, *found) if found else None,
    )


def first_of(divergences: Sequence[Divergence]) -> int | None:
    """The index of the divergence with the earliest token; None for none."""
    return min(
        range(len(divergences)),
        key=lambda i: (divergences[i].index, divergences[i].site, divergences[i].batch),
        default=None,
    )


def divergence_words(claims: Claims, summary: Summary, verdict: int, index: int) -> Markup:
    """Where an output left its oracle. Token positions are counted from 1."""
    d = summary.verdicts[verdict].divergences[index]
    place = ("verdicts", verdict, "divergences", index)
    got = f"token id {d.got}" if d.got is not None else "the end of the output"
    oracle = f"token id {d.oracle}" if d.oracle is not None else "the end"
    return Markup("<bdi>{} in {}</bdi>: token {} was {}, the oracle has {}").format(
        visible(d.site), visible(d.batch), claims.at(*place, "index", form="position"), got, oracle
    )
