"""Rows of the page's longer tables: strict suite, canaries, verdicts, sessions, history, files."""

from collections.abc import Sequence
from dataclasses import dataclass

from rungproof.judge.stats import median
from rungproof.publish.pages.claims import first_divergence
from rungproof.publish.pages.text import anchor, bound_words, count_of, evidence_link, shortened
from rungproof.records.formats import Verdict
from rungproof.records.shown import percent_down, shown
from rungproof.records.summary import CanaryRow, HistoryRow, StrictRow, Summary

TEXT_LIMIT = 240


@dataclass(frozen=True, slots=True)
class StrictTable:
    """The suite: one column a server, one row a prompt, and medians over each server's prompts below."""

    seats: tuple[str, ...]
    prompts: tuple[tuple[str, str, tuple[StrictRow | None, ...]], ...]
    medians: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class CanaryCheck:
    """One canary check over all servers: its prompt, and each different answer with how often it was given."""

    name: str
    prompt: str
    answers: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class CanaryGroup:
    """Servers that were asked the same checks: the checks, and per session its rows by check."""

    checks: tuple[CanaryCheck, ...]
    sessions: tuple[tuple[str, tuple[tuple[CanaryRow, ...], ...]], ...]


@dataclass(frozen=True, slots=True)
class WeakCanary:
    """A canary suite that proves less than others, in its own words, and the arms whose servers it looked at."""

    suite: str
    arms: str
    words: str


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """One gate as shown."""

    source: Verdict
    key: str
    words: str
    sites: str
    passes: str
    divergence: str
    href: str | None


@dataclass(frozen=True, slots=True)
class Attempted:
    """One attempt as shown. `note`, at the one accepted, tells of all attempts of the same item, with each one's count."""

    source: HistoryRow
    value: str
    counted: str
    note: str
    href: str | None


def strict_table(rows: Sequence[StrictRow]) -> StrictTable:
    """Pivot the suite; prompts stay in the order of the campaign, by class."""
    seats = tuple(dict.fromkeys(f"{row.arm}.{row.replicate}" for row in rows))
    at = {(row.prompt_class, row.prompt, f"{row.arm}.{row.replicate}"): row for row in rows}
    classes = list(dict.fromkeys(row.prompt_class for row in rows))
    names = sorted(
        dict.fromkeys((row.prompt_class, row.prompt) for row in rows), key=lambda name: classes.index(name[0])
    )
    prompts = tuple((kind, prompt, tuple(at.get((kind, prompt, seat)) for seat in seats)) for kind, prompt in names)
    columns = [[row for row in rows if f"{row.arm}.{row.replicate}" == seat] for seat in seats]
    measures = (
        ("median time to first token [ms]", [[r.ttft_ms for r in column] for column in columns]),
        ("median step time [ms]", [[r.step_ms for r in column] for column in columns]),
        ("median tokens a step", [[r.tokens_per_step for r in column] for column in columns]),
        ("median output length [tokens]", [[float(r.tokens) for r in column] for column in columns]),
    )
    medians = tuple((name, tuple(_median(values) for values in by_seat)) for name, by_seat in measures)
    return StrictTable(seats, prompts, (*_class_medians(classes, columns), *medians))


def _class_medians(classes: Sequence[str], columns: Sequence[Sequence[StrictRow]]) -> list[tuple[str, tuple[str, ...]]]:
    """The median of each class and of these medians; none where a rate is lacking, since a median of the rest misleads."""
    made, by_seat = [], []
    for column in columns:
        rates = [[row.rate for row in column if row.prompt_class == kind] for kind in classes]
        by_seat.append(
            [median([r for r in one if r is not None]) if one and None not in one else None for one in rates]
        )
    for index, kind in enumerate(classes):
        made.append((f"class median, {kind}", tuple(_known(seat[index]) for seat in by_seat)))
    heads = (median([v for v in seat if v is not None]) if None not in seat else None for seat in by_seat)
    return [*made, ("headline: median of the class medians", tuple(_known(head) for head in heads))]


def _known(value: float | None) -> str:
    return shown(value) if value is not None else "none"


def _median(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return _known(median(known) if known else None)


def canary_groups(rows: Sequence[CanaryRow]) -> list[CanaryGroup]:
    """The canaries by what was asked: one group a set of checks, so that different suites never share a table."""
    asked: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        if (row.name, row.prompt) not in asked.setdefault(row.session, []):
            asked[row.session].append((row.name, row.prompt))
    groups: dict[frozenset[tuple[str, str]], list[str]] = {}
    for session, checks in asked.items():
        groups.setdefault(frozenset(checks), []).append(session)
    return [_canary_group([row for row in rows if row.session in who], asked[who[0]], who) for who in groups.values()]


def _canary_group(rows: Sequence[CanaryRow], checks: Sequence[tuple[str, str]], sessions: Sequence[str]) -> CanaryGroup:
    made = []
    for name, prompt in checks:
        texts = [row.text for row in rows if (row.name, row.prompt) == (name, prompt)]
        answers = tuple((shortened(text, TEXT_LIMIT), texts.count(text)) for text in dict.fromkeys(texts))
        made.append(CanaryCheck(name, shortened(prompt, TEXT_LIMIT), answers))
    by_session = tuple(
        (s, tuple(tuple(r for r in rows if r.session == s and (r.name, r.prompt) == check) for check in checks))
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


def verdict_rows(summary: Summary) -> list[VerdictRow]:
    """All gates, those that did not pass first, else in the order of the campaign."""
    rows = [
        VerdictRow(
            source=verdict,
            key=anchor("gate", verdict.gate),
            words=_supported(verdict, verdict.k, verdict.n, verdict.repeats_bound),
            sites=f"{verdict.sites_k}/{verdict.sites_n}"
            + (f", {percent_down(verdict.bound)}" if verdict.bound is not None else ""),
            passes=", ".join(f"{k}/{n}" for k, n in verdict.passes),
            divergence=first_divergence(verdict.divergences),
            href=evidence_link(f"verdicts/{verdict.gate}.json"),
        )
        for verdict in summary.verdicts
    ]
    return sorted(rows, key=lambda row: row.source.state == "qualified")


def _supported(verdict: Verdict, k: int, n: int, bound: float | None) -> str:
    return "counts no outputs" if verdict.kind == "spread" else bound_words(k, n, bound)


def attempts(history: Sequence[HistoryRow]) -> list[Attempted]:
    """Every attempt, those of one item together."""
    groups: dict[tuple[str, str, str, str], list[HistoryRow]] = {}
    for row in history:
        groups.setdefault((row.arm, row.replicate, row.workload, row.item), []).append(row)
    return [_attempted(row, group) for group in groups.values() for row in group]


def _attempted(row: HistoryRow, group: Sequence[HistoryRow]) -> Attempted:
    note = ""
    if len(group) > 1 and row is next((one for one in group if one.current), group[0]):
        counts = "; ".join(f"{other.session}: {count_of(other.k, other.n)}" for other in group)
        note = f"{len(group)} attempts ({counts})"
    value = shown(row.value) if row.value is not None else ""
    return Attempted(row, value, count_of(row.k, row.n), note, evidence_link(row.raw))


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
