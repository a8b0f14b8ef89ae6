"""Rows of the page's longer tables: strict suite, canaries, verdicts, sessions, history, files."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from rungproof.publish.pages.claimed import Claims
from rungproof.publish.pages.claims import divergence_words, first_of
from rungproof.publish.pages.text import anchor, evidence_link, shortened, visible
from rungproof.records.formats import Verdict
from rungproof.records.summary import CanaryRow, HistoryRow, Summary

TEXT_LIMIT = 240


@dataclass(frozen=True, slots=True)
class StrictCell:
    """One prompt on one server: its rate or, where the answer was too short for one, its length; then what is wrong with it."""

    rate: Markup | None
    tokens: Markup
    differs: bool
    state: str


@dataclass(frozen=True, slots=True)
class StrictTable:
    """The suite: one column a server; `prompts`: (class, prompt, a cell a server); `classes`, `medians`: (what, a number a server)."""

    seats: tuple[str, ...]
    prompts: tuple[tuple[str, str, tuple[StrictCell | None, ...]], ...]
    classes: tuple[tuple[str, tuple[Markup, ...]], ...]
    headline: tuple[Markup, ...]
    medians: tuple[tuple[str, tuple[Markup, ...]], ...]


@dataclass(frozen=True, slots=True)
class CanaryCheck:
    """One canary check over all servers: its prompt, and each different answer that was given."""

    name: str
    prompt: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CanaryCell:
    """One check on one server at one time: `counted`, different answers of requests."""

    source: CanaryRow
    counted: Markup


@dataclass(frozen=True, slots=True)
class CanaryGroup:
    """Servers that were asked the same checks: the checks, and per session its rows by check."""

    checks: tuple[CanaryCheck, ...]
    sessions: tuple[tuple[str, tuple[tuple[CanaryCell, ...], ...]], ...]


@dataclass(frozen=True, slots=True)
class WeakCanary:
    """A canary suite that proves less than others, in its own words, and the arms whose servers it looked at."""

    suite: str
    arms: str
    words: str


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """One gate as shown. `identical`: k of n outputs in words; `sites`, `outputs`: k of n with the bound that they support."""

    source: Verdict
    key: str
    identical: Markup
    sites: Markup
    passes: Markup
    outputs: Markup
    minority: Markup | None
    divergence: Markup | None
    href: str | None
    stops: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Attempted:
    """One attempt as shown. `note`, at the one accepted, tells of all attempts of the same item, with each one's count."""

    source: HistoryRow
    value: Markup | None
    counted: Markup
    note: Markup | None
    href: str | None


def strict_table(summary: Summary, claims: Claims) -> StrictTable:
    """Pivot the suite; prompts stay in the order of the campaign, by class."""
    rows = summary.strict
    seats = tuple(dict.fromkeys(f"{row.arm}.{row.replicate}" for row in rows))
    at = {(row.prompt_class, row.prompt, f"{row.arm}.{row.replicate}"): i for i, row in enumerate(rows)}
    classes = list(dict.fromkeys(row.prompt_class for row in rows))
    names = sorted(
        dict.fromkeys((row.prompt_class, row.prompt) for row in rows), key=lambda name: classes.index(name[0])
    )
    prompts = tuple(
        (kind, prompt, tuple(_strict_cell(summary, claims, at.get((kind, prompt, seat))) for seat in seats))
        for kind, prompt in names
    )
    where = {f"{one.arm}.{one.replicate}": i for i, one in enumerate(summary.medians)}
    columns = [where[seat] for seat in seats if seat in where]
    measures = (
        ("median time to first token [ms]", "ttft_ms"), ("median step time [ms]", "step_ms"),
        ("median tokens a step", "tokens_per_step"), ("median output length [tokens]", "tokens"),
    )  # fmt: skip
    return StrictTable(
        seats,
        prompts,
        tuple(
            (kind, tuple(claims.at("medians", i, "classes", j, "rate") for i in columns))
            for j, kind in enumerate(classes)
        ),
        tuple(claims.at("medians", i, "headline") for i in columns),
        tuple((name, tuple(claims.at("medians", i, field) for i in columns)) for name, field in measures),
    )


def _strict_cell(summary: Summary, claims: Claims, index: int | None) -> StrictCell | None:
    if index is None:
        return None
    row = summary.strict[index]
    state = "" if row.state in ("qualified", "complete") or row.identical is False else row.state
    rate = claims.at("strict", index, "rate") if row.rate is not None else None
    return StrictCell(rate, claims.at("strict", index, "tokens"), row.identical is False, state)


def canary_groups(summary: Summary, claims: Claims) -> list[CanaryGroup]:
    """The canaries by what was asked: one group a set of checks, so that different suites never share a table."""
    cells = [
        CanaryCell(
            row, Markup("{} of {}").format(claims.at("canaries", i, "answers"), claims.at("canaries", i, "requests"))
        )
        for i, row in enumerate(summary.canaries)
    ]
    asked: dict[str, list[tuple[str, str]]] = {}
    for cell in cells:
        check = (cell.source.name, cell.source.prompt)
        if check not in asked.setdefault(cell.source.session, []):
            asked[cell.source.session].append(check)
    groups: dict[frozenset[tuple[str, str]], list[str]] = {}
    for session, checks in asked.items():
        groups.setdefault(frozenset(checks), []).append(session)
    return [_canary_group([c for c in cells if c.source.session in who], asked[who[0]], who) for who in groups.values()]


def _canary_group(
    cells: Sequence[CanaryCell], checks: Sequence[tuple[str, str]], sessions: Sequence[str]
) -> CanaryGroup:
    made = []
    for name, prompt in checks:
        texts = [c.source.text for c in cells if (c.source.name, c.source.prompt) == (name, prompt)]
        answers = tuple(shortened(text, TEXT_LIMIT) for text in dict.fromkeys(texts))
        made.append(CanaryCheck(name, shortened(prompt, TEXT_LIMIT), answers))
    by_session = tuple(
        (
            s,
            tuple(
                tuple(c for c in cells if c.source.session == s and (c.source.name, c.source.prompt) == k)
                for k in checks
            ),
        )
        for s in sessions
    )
    return CanaryGroup(tuple(made), by_session)


def weak_canaries(summary: Summary) -> list[WeakCanary]:
    """Canary suites of the plan that call themselves weak."""
    made = []
    for suite in summary.suites:
        words, name = str(suite.get("weak") or ""), str(suite.get("id") or "")
        arms = [arm.name for arm in summary.arms if arm.canary == name]
        if words and suite.get("kind") == "canary" and arms:
            made.append(WeakCanary(name, ", ".join(arms), words))
    return made


def verdict_rows(summary: Summary, claims: Claims) -> list[VerdictRow]:
    """All gates, those that did not pass first, else in the order of the campaign."""
    rows = [_verdict_row(summary, claims, i, verdict) for i, verdict in enumerate(summary.verdicts)]
    return sorted(rows, key=lambda row: row.source.state == "qualified")


def _verdict_row(summary: Summary, claims: Claims, index: int, verdict: Verdict) -> VerdictRow:
    place = ("verdicts", index)
    first = first_of(verdict.divergences)
    ids = {f"{p.arm}/{p.workload}/{p.item}": p.id for p in summary.points}
    return VerdictRow(
        source=verdict,
        key=anchor("gate", verdict.gate),
        identical=claims.counted(*place) + (" identical" if verdict.n else ""),
        sites=_supported(claims, verdict, "sites_k", "sites_n", "bound", index),
        passes=Markup(", ").join(claims.pair(*place, "passes", i) for i in range(len(verdict.passes))),
        outputs=Markup("counts no outputs")
        if verdict.kind == "spread"
        else _supported(claims, verdict, "k", "n", "repeats_bound", index),
        minority=claims.at(*place, "minority_share", form="percent") if verdict.minority_share is not None else None,
        divergence=divergence_words(claims, summary, index, first) if first is not None else None,
        href=evidence_link(f"verdicts/{verdict.gate}.json"),
        stops=tuple((name, anchor("not", ids[name])) for name in verdict.stops if name in ids),
    )


def _supported(claims: Claims, verdict: Verdict, k: str, n: str, bound: str, index: int) -> Markup:
    """What k identical of n support: the exact one-sided 95 % bound in words."""
    if not getattr(verdict, n) or getattr(verdict, bound) is None:
        return Markup("nothing compared")
    made = Markup("{} of {}, at least {}")
    return made.format(
        claims.at("verdicts", index, k),
        claims.at("verdicts", index, n),
        claims.at("verdicts", index, bound, form="percent"),
    )


def attempts(summary: Summary, claims: Claims) -> list[Attempted]:
    """Every attempt, those of one item together."""
    groups: dict[tuple[str, str, str, str], list[tuple[int, HistoryRow]]] = {}
    for i, row in enumerate(summary.history):
        groups.setdefault((row.arm, row.replicate, row.workload, row.item), []).append((i, row))
    return [_attempted(claims, i, row, group) for group in groups.values() for i, row in group]


def _attempted(claims: Claims, index: int, row: HistoryRow, group: Sequence[tuple[int, HistoryRow]]) -> Attempted:
    note = None
    if len(group) > 1 and row is next((one for _, one in group if one.current), group[0][1]):
        counts = (
            Markup("<bdi>{}</bdi>: {}").format(visible(o.session), claims.counted("history", i)) for i, o in group
        )
        note = Markup("all attempts: {}").format(Markup("; ").join(counts))
    value = claims.at("history", index, "value") if row.value is not None else None
    return Attempted(row, value, claims.counted("history", index), note, evidence_link(row.raw))


def files(summary: Summary) -> list[tuple[str, list[tuple[str, str]]]]:
    """Evidence of all points by folder: (folder, [(file name, link)]), each file once, sorted."""
    paths = {path for point in summary.points for path in point.evidence}
    folders: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(paths):
        link = evidence_link(path)
        if link:
            folder, _, name = path.rpartition("/")
            folders.setdefault(folder, []).append((name, link))
    return list(folders.items())
