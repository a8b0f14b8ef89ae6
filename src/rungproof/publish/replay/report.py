"""What a replay gave: its record, its page, and what its signed line says. Text of the pack is hostile and escaped everywhere."""

from pathlib import Path
from typing import Any

from rungproof.judge.environment import short
from rungproof.judge.replay import good_rates
from rungproof.publish.pages.engine import templates
from rungproof.records.codec import canonical
from rungproof.records.files import write_atomic
from rungproof.records.replay import ItemTokens, Replay

FACTS = 40  # facts of a host that a line carries at most


def passed(replay: Replay) -> bool:
    """Every claimed item gave the published tokens. Rates are told: on another host they say nothing, and here the reader judges."""
    return replay.tokens == "identical"


def write(replay: Replay, to: Path) -> tuple[Path, Path]:
    """Write `replay.json` and `index.html` into the folder `to`; returns both. Raises HostError when the disk refuses."""
    write_atomic(to / "replay.json", canonical(replay))
    write_atomic(to / "index.html", html(replay).encode())
    return to / "replay.json", to / "index.html"


def html(replay: Replay) -> str:
    """The page: a pure function of the record."""
    return (
        templates()
        .get_template("replay.html.j2")
        .render(
            r=replay, headline=headline(replay), rates=rate_words(replay), rows=[(i, item, parted(item)) for i, item in enumerate(replay.items)],
            short=short, good=passed(replay), classes=CLASSES,
        )
    )  # fmt: skip


CLASSES = {
    "identical": "qualified", "different": "failed", "not compared": "missing", "equivalent": "qualified", "within": "qualified",
    "beyond": "withheld", "differs": "failed", "undecided": "withheld", "ok": "qualified", "equal": "qualified", "missing": "missing",
}  # fmt: skip


def headline(replay: Replay) -> str:
    """What happened, in one sentence."""
    claimed = replay.claimed
    same = sum(item.state == "identical" for item in claimed)
    outputs = f"{sum(item.k for item in claimed)} of {sum(item.n for item in claimed)} outputs"
    if not claimed:
        return "The pack claims nothing, so there was nothing to compare."
    if replay.tokens == "identical":
        return f"The same tokens again: {outputs} on all {len(claimed)} claimed items."
    if replay.tokens == "different":
        off = sum(item.state == "different" for item in claimed)
        return f"Not the same tokens: {off} of {len(claimed)} claimed items differ; {outputs} were the published ones."
    return f"Not the whole plan was measured: {same} of {len(claimed)} claimed items were compared and are the same; {outputs}."


def rate_words(replay: Replay) -> str:
    """What is said of rates, in one sentence."""
    if not replay.comparable:
        return f"Rates are told and not judged: {replay.host_words}."
    if not replay.points:
        return "No rate is claimed, so none was compared."
    good = sum(good_rates(row.state) for row in replay.points)
    tested = sum(row.state == "equivalent" for row in replay.points)
    how = (
        f"{tested} by two one-sided tests, "
        if tested
        else "no test, since fewer than four fresh servers a side carry none; "
    )
    return f"Rates: {good} of {len(replay.points)} within {100 * replay.limit:g} % ({how}{replay.host_words})."


def parted(item: ItemTokens) -> str:
    """Where the first output left the published one, in words; why nothing was compared; else ""."""
    if item.first is None:
        return item.why
    one = item.first
    if one.got_length == 0:
        return f"{one.batch}/{one.site}: no output here; {one.oracle_length} tokens published"
    ended = "the output ended" if one.got is None else f"token {one.got}"
    return f"{one.batch}/{one.site}: at index {one.index} {ended}; published {one.oracle if one.oracle is not None else 'an end'}"


def predicate(replay: Replay) -> dict[str, Any]:
    """What the line says (docs/predicate.md): no floats, numbers as decimal strings, counts as ints."""
    return {
        "kind": replay.kind,
        "study": replay.study,
        "at": replay.at,
        "plan_sha256": replay.plan_sha256,
        "levels": dict(replay.levels),
        "tokens": {"state": replay.tokens, "items": [_item(item) for item in replay.claimed]},
        "rates": {
            "state": replay.rates,
            "limit": repr(replay.limit),
            "points": [
                {
                    "point": row.point, "state": row.state, "unit": row.unit, "kind": row.kind, "ratio": _number(row.ratio),
                    "low": _number(row.low), "high": _number(row.high), "published": [repr(v) for v in row.published],
                    "again": [repr(v) for v in row.again],
                }
                for row in replay.points
            ],
        },
        "host": {
            "comparable": replay.comparable,
            "words": replay.host_words,
            "facts": {row.key: short(row.again) for row in replay.host if row.decides},
            "differ": [row.key for row in replay.host if row.state in ("differs", "missing")][:FACTS],
        },
        "results": {"sha256": replay.results_sha256, "files": replay.results_files},
    }  # fmt: skip


def _item(item: ItemTokens) -> dict[str, Any]:
    made: dict[str, Any] = {"item": item.item, "state": item.state, "k": item.k, "n": item.n}
    if item.first is not None:
        made["first"] = {"batch": item.first.batch, "site": item.first.site, "index": item.first.index}
    return made


def _number(value: float | None) -> str | None:
    return None if value is None else repr(value)
