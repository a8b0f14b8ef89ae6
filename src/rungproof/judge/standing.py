"""From the lines of a pack's proof to its state. A pure function; who signed what was checked before."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rungproof.judge.checks.moments import seconds
from rungproof.records.standing import ProofLine, Standing, StandingLine, State

ORDER: tuple[State, ...] = ("Lab-measured", "Recomputed", "Replayed", "Replicated")
LEVELS = ("L0", "L1", "L2", "L3", "L4")


def standing(
    lines: Sequence[ProofLine],
    pack: str,
    publisher: str,
    claimed: Collection[str],
    logged: Standing | None = None,
) -> Standing:
    """The standing of a published pack.

    pack: sha256 of its manifest; publisher: key id, "" for an unsigned pack; claimed: ids of the items that its claims rest on
    (judge/replay.py), all of which a replay must have compared. A line whose signature does not hold, or that speaks of
    another pack, never counts. With an unsigned pack nobody can be told from its publisher, so it is never above Replayed.
    logged: what the log alone says (head, dates, what is superseded or withdrawn), which is taken over as it is.
    """
    told = [_judged(line, pack, publisher, claimed) for line in lines]
    reached = max((ORDER.index(state) for state, _ in told), default=0)
    own = [line for line in lines if line.kind == "measurement" and line.subject == pack]
    return replace(
        logged or Standing(),
        state=ORDER[reached],
        pack=pack,
        signer=publisher,
        signed=bool(publisher) and any(line.holds and line.keyid == publisher for line in own),
        lines=tuple(row for _, row in told),
    )


def _judged(line: ProofLine, pack: str, publisher: str, claimed: Collection[str]) -> tuple[State, StandingLine]:
    """The state that one line alone gives, and the row that tells of it."""
    at = line.predicate.get("at")
    when = at if isinstance(at, str) and seconds(at) is not None else ""  # a stranger's text is no moment
    if line.kind not in ("recompute", "replay"):
        counts = line.kind != "other" and line.holds and bool(publisher) and line.keyid == publisher
        return ORDER[0], StandingLine(
            line.kind, line.keyid, counts, "by the publisher" if counts else "not signed by the publisher", when
        )
    state, says = _moved(line, pack, publisher, claimed)
    return state, StandingLine(line.kind, line.keyid, state != ORDER[0], says, when)


def _moved(line: ProofLine, pack: str, publisher: str, claimed: Collection[str]) -> tuple[State, str]:
    """What a recompute or replay line moves the state to, and why no further."""
    if not line.holds:
        return "Lab-measured", "its signature does not hold"
    if line.subject != pack:
        return "Lab-measured", "it speaks of another pack"
    other = bool(publisher) and line.keyid != publisher
    whole = _all_levels(line.predicate, signed=bool(publisher))
    by = "by another key" if other else "by the publisher's own key" if publisher else "the pack is unsigned"
    recomputed: State = "Recomputed" if other and whole else "Lab-measured"
    again = f"every level recomputed, {by}" if whole else "not every level was recomputed"
    if line.kind == "recompute":
        return recomputed, again
    why_not = tokens_lack(line.predicate, claimed)
    if why_not or not whole:
        return recomputed, f"{why_not or 'its tokens agree'}; {again}"
    lack = rates_lack(line.predicate)
    if not other or lack:
        return "Replayed", f"the same tokens on every item; {lack or 'rates agree'}, {by}"
    return "Replicated", "the same tokens on every item and rates that agree on a comparable host, by another key"


def tokens_lack(predicate: Mapping[str, Any], claimed: Collection[str]) -> str:
    """Why the tokens of a replay are not shown to be those of the pack; "" where they are. Nothing compared is never a pass."""
    rows = {row["item"]: row for row in _rows(predicate, "tokens", "items") if isinstance(row.get("item"), str)}
    if not claimed:
        return "the pack claims nothing, so there was nothing to compare"
    if missing := sorted(set(claimed) - set(rows)):
        return f"{len(missing)} of {len(claimed)} claimed items were not compared, first {missing[0]}"
    off = sorted(item for item in claimed if not _same(rows[item]))
    return f"tokens differ on {len(off)} of {len(claimed)} claimed items, first {off[0]}" if off else ""


def rates_lack(predicate: Mapping[str, Any]) -> str:
    """Why the rates of a replay are not shown to be those of the pack; "" where each compared one agrees and there is one."""
    host = predicate.get("host")
    if not isinstance(host, dict) or host.get("comparable") is not True:
        return "another host, so rates say nothing"
    rows = _rows(predicate, "rates", "points")
    if not rows:
        return "no rate was compared"
    off = sum(row.get("state") not in ("equivalent", "within") for row in rows)
    return f"{off} of {len(rows)} rates were not within the limit" if off else ""


def _all_levels(predicate: Mapping[str, Any], signed: bool) -> bool:
    """Whether every level held; of an unsigned pack there is no signer to check."""
    levels = predicate.get("levels")
    wanted = LEVELS if signed else tuple(level for level in LEVELS if level != "L1")
    return isinstance(levels, dict) and all(levels.get(level) == "ok" for level in wanted)


def _rows(predicate: Mapping[str, Any], part: str, name: str) -> list[dict[str, Any]]:
    """Rows of a part of a predicate; what is not of that shape is no row."""
    held = predicate.get(part)
    rows = held.get(name) if isinstance(held, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _same(row: Mapping[str, Any]) -> bool:
    k, n = row.get("k"), row.get("n")
    return type(k) is int and type(n) is int and k == n > 0
