"""Identity on the page: where outputs left their oracle, what the outputs say without one, and what a better bound would take."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from rungproof.judge.stats import needed
from rungproof.publish.pages.claimed import Claims
from rungproof.publish.pages.text import visible
from rungproof.records.formats import Agreement, Divergence, Verdict
from rungproof.records.shown import percent_down
from rungproof.records.summary import MarginRow, Summary

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


def views(verdicts: Sequence[Verdict]) -> list[tuple[str, tuple[str, ...]]]:
    """(gate, what its outputs say without an oracle) of every gate whose outputs say anything."""
    return [(v.gate, words) for v in verdicts if v.agreement and (words := view_words(v.agreement))]


def view_words(view: Agreement) -> tuple[str, ...]:
    """Sentences on prompts with several outputs, oracles in the minority, copies, and outputs of two prompts; none where all agree."""
    made = []
    if view.bistable:
        made.append(
            f"{len(view.bistable)} of {view.prompts} prompts gave two different outputs: {_names(view.bistable)}"
        )
    if view.unstable:
        made.append(f"{len(view.unstable)} of {view.prompts} prompts gave three or more: {_names(view.unstable)}")
    if view.oracle_minority:
        made.append(f"the oracle's output is not the most common one of {_names(view.oracle_minority)}")
    if view.copies:
        split = [group for group in view.copies if group.answers > 1]
        made.append(
            f"{len(split)} of {len(view.copies)} groups of byte-identical requests in one batch gave different outputs"
        )
    if view.collisions:
        one = view.collisions[0]
        made.append(
            f"{len(view.collisions)} pairs of prompts share one output, such as {one.batch}/{one.site} and {one.other_batch}/{one.other_site}"
        )
    return tuple(made)


def margin_words(row: MarginRow) -> str:
    """How close a tie was, in words."""
    where = f"{row.site} in {row.batch}, token {row.index + 1}"
    if row.margin is None:
        return f"{where}: not known{', ' + row.note if row.note else ''}"
    usual = f"; the median of {row.ordinary} ordinary positions is {row.usual:.3g}" if row.usual is not None else ""
    closer = f", {percent_down(row.closer)} of them are as close" if row.closer is not None else ""
    return f"{where}: the two likeliest tokens were {row.margin:.3g} nats apart{usual}{closer}"


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


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAME_LIMIT} more" if len(names) > NAME_LIMIT else ""
    return ", ".join(names[:NAME_LIMIT]) + more


def wanted_words() -> str:
    """How many outputs without a failure the usual bounds take."""
    return "; ".join(f"{percent_down(bound)} takes {needed(bound)}" for bound in WANTED)
