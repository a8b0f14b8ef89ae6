"""What stands behind a figure's numbers: how many drafts were accepted, how varied the answers were, the notes of its lanes."""

from collections.abc import Sequence
from dataclasses import dataclass

from rungproof.publish.details import figure
from rungproof.records.formats import Point
from rungproof.records.shown import percent_down, whole
from rungproof.records.summary import ArmInfo


@dataclass(frozen=True, slots=True)
class Answers:
    """For one figure. `notes`: (arms, note of their lane); `sentences`: on drafts, an arm each, and on distinct token ids."""

    notes: tuple[tuple[str, str], ...]
    sentences: tuple[str, ...]


def answers_of(infos: Sequence[ArmInfo], arms: Sequence[str], points: Sequence[Point]) -> Answers:
    """Of the points of one figure that are qualified or withheld; what their records do not tell is left out."""
    sound = [point for point in points if point.state in ("qualified", "withheld")]
    drafted = tuple(words for arm in arms if (words := _drafted(arm, sound)))
    return Answers(notes_of(infos, arms), (*drafted, *_distinct(arms, sound)))


def notes_of(infos: Sequence[ArmInfo], arms: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """(arms, note) for each different note of the lanes of a figure's arms."""
    by_note: dict[str, list[str]] = {}
    for info in infos:
        if info.note and info.name in arms:
            by_note.setdefault(info.note, []).append(info.name)
    return tuple((", ".join(names), note) for note, names in by_note.items())


def _drafted(arm: str, points: Sequence[Point]) -> str:
    """How many of an arm's drafted tokens were accepted, over all its points and where none was; empty for no drafts."""
    counts = {p.x or 0.0: c for p in sorted(points, key=lambda p: p.x or 0.0) if p.arm == arm and (c := _drafts(p))}
    if not counts:
        return ""
    drafted, accepted = sum(c[0] for c in counts.values()), sum(c[1] for c in counts.values())
    if not accepted:
        return (
            f"{arm}: none of {whole(drafted)} drafted tokens was accepted, so its identity says nothing about drafts."
        )
    share = f"{arm}: {whole(accepted)} of {whole(drafted)} drafted tokens were accepted ({percent_down(accepted / drafted)})"
    none = ", ".join(whole(x) for x, c in counts.items() if not c[1])
    return share + (
        f"; none at {none}, where identity says nothing about drafts." if none else "; at least one at every point."
    )


def _distinct(arms: Sequence[str], points: Sequence[Point]) -> tuple[str, ...]:
    """The fewest distinct ids of any answer, an arm each: a server that stands still would be identical for nothing."""
    fewest = {}
    for arm in arms:
        known = [v for p in points if p.arm == arm and (v := figure(p.detail, "fewest_distinct_ids")) is not None]
        if known:
            fewest[arm] = whole(min(known))
    told = ", ".join(f"{arm} {count}" for arm, count in fewest.items())
    return (f"Fewest distinct token ids of any answer: {told}.",) if told else ()


def _drafts(point: Point) -> tuple[float, float] | None:
    """Drafted and accepted tokens; None where the server does not draft or did not say."""
    drafted, accepted = figure(point.detail, "draft_tokens"), figure(point.detail, "accepted_tokens")
    return (drafted, accepted) if drafted is not None and accepted is not None else None
