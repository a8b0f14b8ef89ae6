"""Why a point is not qualified, in words: where it broke, how close it was, what else broke at that batch shape, what to try."""

from collections import Counter
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from rungproof.judge.stats import needed
from rungproof.publish.pages.claimed import Claims
from rungproof.publish.pages.identity import ALIGNMENTS, WANTED, tie_words, view_words
from rungproof.publish.pages.text import bound_words, count_of, plain_words
from rungproof.publish.passes import passes_of, rule_words
from rungproof.records.errors import ConfigError
from rungproof.records.formats import Divergence, Point, Verdict
from rungproof.records.requests import prompt_key
from rungproof.records.shown import percent_down, shown
from rungproof.records.summary import Summary

SHOWN = 12  # divergences and prompts listed, at most so many

# A word of a reason -> what to try. The first that occurs is told; none of them is ever done by the tool itself.
REMEDIES = (
    (
        "requests mixed up",
        "Stop using this server: outputs reached the wrong request. Report it to the engine with the raw file.",
    ),
    (
        "stale oracle",
        "Measure the oracle again under the same image, kernels and parallelism; the next call does so when they are the plan's.",
    ),
    ("cache hit", "Turn prefix caching off by name in the lane, and check that no two prompts share a beginning."),
    ("preemption", "Give the server more cache memory, lower its max-num-seqs, or leave this rung out."),
    ("request lost", "Read the server's log of that session; the next call measures the item again on a fresh server."),
    ("canary", "Read the canary's raw file: the server answers wrongly or is not the one asked for."),
    (
        "knob not in force",
        "Compare what was asked with what was found under Configuration; correct the lane, not the record.",
    ),
    ("short output", "The engine ended an answer early although it was told not to; look at its stop rules."),
    ("no verdict", "Run the campaign again: one side of the comparison has no record yet."),
    ("before the window was full", "Use a longer cap, a shorter window, or prompts that call for longer answers."),
    ("repeat", "Plan a second fresh server for the base arm; without it no lossless claim is possible."),
)
NOT_IDENTICAL = {
    "ladder": (
        "Run the ladder with `stagger_ms` (admissions apart) to see whether the batch shape decides.",
        "Build a suite of the prompts that broke (`rungproof suite tie`) and run it with verbatim copies, which sets batch shape apart from prompt.",
        "Run a tie probe: a top-2 margin near 0 at the token where it broke says that rounding decided, not a fault.",
        "Try a wider number format or the engine's batch-invariant kernels, if it has them; each is another lane.",
    ),
    "other": (
        "Run a tie probe at the token where it broke: a margin near 0 says that rounding decided.",
        "Look whether the base repeats itself: if not, the difference is not the draft's.",
    ),
}  # fmt: skip


def explain(summary: Summary, name: str) -> list[str]:
    """Lines about the point ARM/WORKLOAD/ITEM. Raises ConfigError for a name that is no point of the campaign."""
    found = [p for p in summary.points if f"{p.arm}/{p.workload}/{p.item}" == name]
    if not found:
        known = ", ".join(f"{p.arm}/{p.workload}/{p.item}" for p in summary.points[:SHOWN])
        raise ConfigError(
            f"{name}: campaign {summary.campaign} has no such point; it has {known}"
            + (" ..." if len(summary.points) > SHOWN else "")
        )
    (point,) = found
    verdicts = [v for v in summary.verdicts if name in v.guards]
    against = [v for v in verdicts if name in v.stops]
    claims = Claims(summary)
    views = view_words(summary, claims)
    lines = list(_state(point))
    for verdict in against:
        lines += _against(verdict, views.get(verdict.gate, ()))
    stopping = {v.gate for v in against}
    lines += [
        f"how close: {plain_words(tie_words(claims, i, row))}"
        for i, row in enumerate(summary.margins)
        if row.gate in stopping
    ][:SHOWN]
    lines += _elsewhere(summary, point, against)
    probed = any(row.gate in stopping for row in summary.margins)
    return lines + [line for line in _remedies(point, against) if not (probed and "tie probe" in line)]


def _state(point: Point) -> Iterator[str]:
    value = f"{shown(point.value)} {point.unit}" if point.value is not None else "no value"
    yield f"{point.arm}/{point.workload}/{point.item} is {point.state}: {value}, {count_of(point.k, point.n)} identical"
    if rows := passes_of(point):
        yield f"  rule: {rule_words(point)}"
        for row in rows:
            rate = shown(row.value) if row.value is not None else "no value"
            yield f"  pass {row.number}: {rate} {point.unit}, {count_of(row.k or 0, row.n or 0)} identical{' (shown)' if row.shown else ''}"
    if point.state == "qualified":
        yield "  nothing speaks against it"
    yield from (f"  why: {reason}" for reason in point.reasons)


def _against(verdict: Verdict, views: Sequence[Markup]) -> Iterator[str]:
    """Where the outputs of one gate left their oracle, and what they say without it."""
    yield f"gate {verdict.gate} ({verdict.title}): {verdict.state}"
    if verdict.n:
        yield f"  sites: {bound_words(verdict.sites_k, verdict.sites_n, verdict.bound)}"
        yield f"  outputs: {bound_words(verdict.k, verdict.n, verdict.repeats_bound)}"
        yield f"  {_wanted(verdict)}"
    for d in sorted(verdict.divergences, key=lambda d: (d.index, d.site, d.batch))[:SHOWN]:
        yield f"  broke: {_broke(d)}"
    if len(verdict.divergences) > SHOWN:
        yield f"  and {len(verdict.divergences) - SHOWN} more"
    often = Counter(prompt_key(d.site) for d in verdict.divergences)
    if often:
        yield "  by prompt: " + ", ".join(f"{site} {count} times" for site, count in often.most_common(SHOWN))
    yield from (f"  without an oracle: {plain_words(words)}" for words in views)


def _wanted(verdict: Verdict) -> str:
    """What a bound of 95 % would take, in prompts and, for a rung, in passes."""
    count = needed(WANTED[0])
    size = verdict.passes[0][1] if verdict.passes else 0
    passes = f"; of outputs, {-(-count // size)} passes of {size}" if size else ""
    return f"a bound of {percent_down(WANTED[0])} would take {count} prompts without a failure{passes}"


def _broke(d: Divergence) -> str:
    later = f", {d.rejoined} of {d.compared} later tokens agree again" if d.compared else ""
    ids = f"{' '.join(map(str, d.got_ids)) or 'the end'} where the oracle has {' '.join(map(str, d.oracle_ids)) or 'the end'}"
    return f"{d.site} in {d.batch} at token {d.index + 1} of {d.oracle_length}: {ids} ({ALIGNMENTS.get(d.alignment, d.alignment)}{later})"


def _elsewhere(summary: Summary, point: Point, against: Sequence[Verdict]) -> Iterator[str]:
    """What came of the same shape in other arms, of other shapes in this arm, and which prompts broke there too."""
    broken = {prompt_key(d.site) for v in against for d in v.divergences}
    if not broken:
        return
    same = [p for p in summary.points if p.x == point.x and p.metric == point.metric and p.arm != point.arm]
    yield from (
        f"the same shape in {p.arm}: {p.state}, {count_of(p.k, p.n)} identical{_shared(summary, p, broken)}"
        for p in same
    )
    others = [
        p for p in summary.points if (p.arm, p.metric) == (point.arm, point.metric) and p.x not in (None, point.x)
    ]
    yield from (
        f"this arm at {p.workload} {p.item}: {p.state}, {count_of(p.k, p.n)} identical{_shared(summary, p, broken)}"
        for p in others
    )


def _shared(summary: Summary, point: Point, broken: set[str]) -> str:
    name = f"{point.arm}/{point.workload}/{point.item}"
    there = {prompt_key(d.site) for v in summary.verdicts if name in v.stops for d in v.divergences}
    if not there:
        return ""
    both = sorted(there & broken)
    return f"; the same prompts broke there: {', '.join(both[:SHOWN])}" if both else "; other prompts broke there"


def _remedies(point: Point, against: Sequence[Verdict]) -> Iterator[str]:
    """What to try, by what was found."""
    if point.state == "qualified":
        return
    if point.state == "missing":
        yield "try: run the campaign; this item has not been measured yet"
        return
    words = [*point.reasons, *(str(r) for v in against for r in v.reasons)]
    told = [remedy for word, remedy in REMEDIES if any(word in text for text in words)]
    if any(v.divergences for v in against):
        told += NOT_IDENTICAL["ladder" if point.metric == "aggregate" else "other"]
    yield from (
        f"try: {remedy}"
        for remedy in told or ["Run the campaign again; if it comes out the same, read the raw file named on the page."]
    )
