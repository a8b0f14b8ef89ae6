"""What stands behind a figure's numbers: how many drafts were accepted, how varied the answers were, the notes of its lanes."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from rungproof.publish.pages.claimed import Claims
from rungproof.publish.pages.text import visible
from rungproof.records.formats import Point
from rungproof.records.summary import ArmInfo, Profile, Summary


@dataclass(frozen=True, slots=True)
class Answers:
    """For one figure. `notes`: (arms, note of their lane); `sentences`: on drafts, an arm each, and on distinct token ids."""

    notes: tuple[tuple[str, str], ...]
    sentences: tuple[Markup, ...]


def answers_of(summary: Summary, claims: Claims, arms: Sequence[str], of: Point) -> Answers:
    """Of the points of one figure that are qualified or withheld; what their records do not tell is left out."""
    mine = [(i, p) for i, p in enumerate(summary.profiles) if (p.workload, p.metric) == (of.workload, of.metric)]
    drafted = tuple(words for i, p in mine if (words := _drafted(claims, i, p)))
    return Answers(notes_of(summary.arms, arms), (*drafted, *_distinct(claims, mine)))


def notes_of(infos: Sequence[ArmInfo], arms: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """(arms, note) for each different note of the lanes of a figure's arms."""
    by_note: dict[str, list[str]] = {}
    for info in infos:
        if info.note and info.name in arms:
            by_note.setdefault(info.note, []).append(info.name)
    return tuple((", ".join(names), note) for note, names in by_note.items())


def _drafted(claims: Claims, index: int, profile: Profile) -> Markup:
    """How many of an arm's drafted tokens were accepted, over all its points and where none was; empty for no drafts."""
    if not profile.drafted:
        return Markup("")
    arm = Markup("<bdi>{}</bdi>").format(visible(profile.arm))
    drafted, accepted = (claims.at("profiles", index, name, form="whole") for name in ("drafted", "accepted"))
    if not profile.accepted:
        return Markup("{}: none of {} drafted tokens was accepted, so its identity says nothing about drafts.").format(
            arm, drafted
        )
    share = claims.at("profiles", index, "accepted_share", form="percent")
    none = Markup(", ").join(
        claims.at("profiles", index, "none_at", i, form="whole") for i in range(len(profile.none_at))
    )
    rest = (
        Markup("; none at {}, where identity says nothing about drafts.").format(none)
        if none
        else "; at least one at every point."
    )
    return Markup("{}: {} of {} drafted tokens were accepted ({}){}").format(arm, accepted, drafted, share, rest)


def _distinct(claims: Claims, profiles: Sequence[tuple[int, Profile]]) -> tuple[Markup, ...]:
    """The fewest distinct ids of any answer, an arm each: a server that stands still would be identical for nothing."""
    told = [
        Markup("<bdi>{}</bdi> {}").format(visible(p.arm), claims.at("profiles", i, "fewest_distinct"))
        for i, p in profiles
        if p.fewest_distinct is not None
    ]
    return (Markup("Fewest distinct token ids of any answer: {}.").format(Markup(", ").join(told)),) if told else ()
