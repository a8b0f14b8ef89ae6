"""Identity on the page: where outputs left their oracle, what the outputs say without one, and what a better bound would take."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from rungproof.judge.stats import needed
from rungproof.publish.pages.claimed import Claims
from rungproof.publish.pages.text import visible
from rungproof.records.formats import Agreement, Divergence, Verdict
from rungproof.records.shown import percent_down
from rungproof.records.summary import MarginRow, Summary, View

WANTED = (0.95, 0.99)  # bounds for which the page tells what they would take
ROW_LIMIT, NAME_LIMIT = 60, 8
ALIGNMENTS = {
    "substitution": "one token replaced",
    "insertion": "one token more than the oracle",
    "deletion": "one token less than the oracle",
    "end": "one side had ended",
    "none": "the outputs go different ways",
}


@dataclass(frozen=True, slots=True)
class DivergenceRow:
    """One output that left its oracle. `token` counts from 1; `got`, `oracle`: ids from there on."""

    gate: str
    site: str
    batch: str
    token: Markup
    got: str
    oracle: str
    how: str


def divergence_rows(summary: Summary, claims: Claims) -> tuple[list[DivergenceRow], bool]:
    """The first divergences of all gates, and whether some were left off."""
    rows = [
        _row(v, d, claims.at("verdicts", i, "divergences", j, "index", form="position"))
        for i, v in enumerate(summary.verdicts)
        for j, d in enumerate(v.divergences)
    ]
    return rows[:ROW_LIMIT], len(rows) > ROW_LIMIT


def _row(verdict: Verdict, d: Divergence, token: Markup) -> DivergenceRow:
    how = ALIGNMENTS.get(d.alignment, d.alignment)
    if d.compared:
        how += f"; {d.rejoined} of {d.compared} later tokens agree again"
    return DivergenceRow(
        verdict.gate, d.site, d.batch, token, _ids(d.got_ids, d.got), _ids(d.oracle_ids, d.oracle), how
    )


def _ids(ids: Sequence[int], first: int | None) -> str:
    return " ".join(map(str, ids)) or (str(first) if first is not None else "the end")


def view_words(summary: Summary, claims: Claims) -> dict[str, tuple[Markup, ...]]:
    """Gate -> what its outputs say without an oracle, a sentence each; gates whose outputs all agree are left out."""
    agreed = {v.gate: v.agreement for v in summary.verdicts if v.agreement}
    made = {view.gate: tuple(_view(claims, i, view, agreed[view.gate])) for i, view in enumerate(summary.views)}
    return {gate: words for gate, words in made.items() if words}


def _view(claims: Claims, place: int, view: View, names: Agreement) -> Iterator[Markup]:
    """Sentences on prompts with several outputs, oracles in the minority, copies, and outputs of two prompts."""
    count = {
        name: claims.at("views", place, name)
        for name in ("prompts", "bistable", "unstable", "groups", "split", "collisions")
    }
    of = Markup("{} of {} prompts gave ")
    if view.bistable:
        yield of.format(count["bistable"], count["prompts"]) + Markup("two different outputs: {}").format(
            _names(names.bistable)
        )
    if view.unstable:
        yield of.format(count["unstable"], count["prompts"]) + Markup("three or more: {}").format(
            _names(names.unstable)
        )
    if view.minority:
        yield Markup("the oracle's output is not the most common one of {}").format(_names(names.oracle_minority))
    if view.groups:
        yield Markup("{} of {} groups of byte-identical requests in one batch gave different outputs").format(
            count["split"], count["groups"]
        )
    if view.collisions:
        one = names.collisions[0]
        pair = visible(f"{one.batch}/{one.site} and {one.other_batch}/{one.other_site}")
        yield Markup("{} pairs of prompts share one output, such as <bdi>{}</bdi>").format(count["collisions"], pair)


def tie_words(claims: Claims, place: int, row: MarginRow) -> Markup:
    """How close a tie was, in words, each number with its claim."""
    at = ("margins", place)
    where = Markup("<bdi>{} in {}</bdi>, token {}").format(
        visible(row.site), visible(row.batch), claims.at(*at, "index", form="position")
    )
    if row.margin is None:
        return Markup("{}: not known<bdi>{}</bdi>").format(where, visible(f", {row.note}" if row.note else ""))
    made = Markup("{}: the two likeliest tokens were {} nats apart").format(where, claims.at(*at, "margin"))
    if row.usual is not None:
        usual, ordinary = claims.at(*at, "usual"), claims.at(*at, "ordinary")
        made += Markup("; the median of {} ordinary positions is {}").format(ordinary, usual)
    if row.closer is not None:
        made += Markup(", {} of them are as close").format(claims.at(*at, "closer", form="percent"))
    return made


def _names(names: Sequence[str]) -> Markup:
    more = " and others" if len(names) > NAME_LIMIT else ""
    return Markup("<bdi>{}</bdi>{}").format(visible(", ".join(names[:NAME_LIMIT])), more)


def wanted_words() -> str:
    """How many outputs without a failure the usual bounds take."""
    return "; ".join(f"{percent_down(bound)} takes {needed(bound)}" for bound in WANTED)
