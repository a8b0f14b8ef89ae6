"""How a campaign stands while it is measured, from its records alone: for status and watch. Nothing is locked, asked or changed."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from rungproof.judge.numbers import UNITS, value_of
from rungproof.measure.progress import progress
from rungproof.measure.serving import supervised
from rungproof.publish.pages.live import ItemNow, Now
from rungproof.records.codec import load_json, read
from rungproof.records.errors import EvidenceError, RungproofError
from rungproof.records.formats import Judged, Verdict
from rungproof.records.plan import Gate, Item, Plan, split_session

R = TypeVar("R")


class Records:
    """Records of a results folder; each is read again only when its file has changed."""

    def __init__(self) -> None:
        self._held: dict[tuple[type, Path], tuple[tuple[int, int], object]] = {}

    def get(self, cls: type[R], path: Path) -> R | None:
        """The record at `path`; None where there is none, or it is damaged or half written."""
        try:
            seen = path.stat()
            mark = (seen.st_mtime_ns, seen.st_size)
            held = self._held.get((cls, path))
            if held is None or held[0] != mark:
                held = (mark, _maybe(cls, path))
                self._held[cls, path] = held
        except OSError:
            return None
        return held[1]  # type: ignore[return-value]


def _maybe(cls: type[R], path: Path) -> R | None:
    try:
        return read(cls, path)
    except EvidenceError:
        return None


def now(plan: Plan, study: Path, records: Records) -> Now:
    """The campaign as its files show it at this moment."""
    session = open_session(study)
    doing = _doing(study, session) if session else ""
    items = tuple(_item(plan, study, item, records, session, doing) for item in plan.items)
    how_far = progress(study, plan, session) if session else None
    return Now(
        study=plan.study, title=plan.title, simulated=plan.simulated, items=items,
        counts=tuple(Counter(item.state for item in items).items()), session=session or "", doing=doing,
        done=how_far.done if how_far else 0, of=how_far.items if how_far else 0,
        share=how_far.share if how_far else 0.0, left_s=how_far.left_s if how_far else 0.0,
    )  # fmt: skip


def open_session(study: Path) -> str | None:
    """The session whose supervisor runs on this machine; None where nothing is being measured here."""
    for order in sorted(study.glob("sessions/*/control/order.json"), reverse=True):
        folder = order.parents[1]
        try:
            if not (folder / "closed.json").exists() and supervised(folder):
                return folder.name
        except RungproofError:
            continue
    return None


def _planned(study: Path, session: str) -> Sequence[str]:
    path = study / "runs" / split_session(session)[0] / "run.json"
    try:
        found = load_json(path.read_bytes(), str(path))["sessions"][session]
    except (OSError, RungproofError, KeyError, TypeError):
        return ()
    return [str(key) for key in found]


def _doing(study: Path, session: str) -> str:
    """What the open session is at, in words."""
    folder = study / "sessions" / session
    if not (folder / "server.json").exists():
        return "starting the server"
    if not (folder / "canary_before.json").exists():
        return "canary before"
    for key in _planned(study, session):
        name = ".".join(key.split("/")[1:])
        if not (folder / f"attempts/{name}.json").exists():
            return key
    return "closing the server" if (folder / "canary_after.json").exists() else "canary after"


def _item(plan: Plan, study: Path, item: Item, records: Records, session: str | None, doing: str) -> ItemNow:
    accepted = records.get(Judged, study / "accepted" / item.seat / item.workload / f"{item.item}.json")
    current = bool(session) and session is not None and item.id in _planned(study, session)
    if current and doing == item.id:
        return ItemNow(item.id, "being measured", None, "", "", session or "", "")
    if current and (study / f"sessions/{session}/attempts/{item.workload}.{item.item}.json").exists():
        return ItemNow(item.id, "measured", None, "", "", session or "", "judged when its server is closed")
    if accepted is not None and accepted.spec_sha256 == item.spec_sha256:
        return _accepted(plan, study, item, accepted, records)
    if newest := _newest(study, item, records):
        why = newest.reasons[0].after(newest.session) if newest.reasons else ""
        return ItemNow(item.id, newest.state, None, "", "", newest.session, why)
    return ItemNow(item.id, "to do", None, "", "", "", "")


def _newest(study: Path, item: Item, records: Records) -> Judged | None:
    """What came of the newest attempt that was not accepted."""
    paths = sorted(
        study.glob(f"sessions/r*.{item.seat}/judged/{item.workload}.{item.item}.json"),
        key=lambda path: int(split_session(path.parents[1].name)[0][1:]),
    )
    found = records.get(Judged, paths[-1]) if paths else None
    return found if found and found.spec_sha256 == item.spec_sha256 and found.state != "accepted" else None


def _accepted(plan: Plan, study: Path, item: Item, judged: Judged, records: Records) -> ItemNow:
    """An accepted item: identical, withheld, or not compared yet; its gates are those that have it as their subject."""
    try:
        value = value_of(item, judged)
    except KeyError:
        value = None
    verdicts = [v for g in plan.comparisons if g.subject[0] == item.id and (v := _verdict(study, g, judged, records))]
    counted = (sum(v.k for v in verdicts), sum(v.n for v in verdicts))
    unit = UNITS[item.spec["kind"]]
    if not verdicts or not counted[1]:
        oracle = any(item.id in g.oracle for g in plan.comparisons)
        why = "others are held against it" if oracle else "not compared yet"
        return ItemNow(item.id, "accepted", value, unit, "", judged.session, why)
    bad = next((v for v in verdicts if v.state != "qualified"), None)
    why = bad.reasons[0].after(judged.session) if bad and bad.reasons else ""
    return ItemNow(
        item.id,
        "identical" if bad is None else "withheld",
        value,
        unit,
        f"{counted[0]} of {counted[1]}",
        judged.session,
        why,
    )


def _verdict(study: Path, gate: Gate, judged: Judged, records: Records) -> Verdict | None:
    """The verdict of a gate, if it was made from this very record."""
    verdict = records.get(Verdict, study / "verdicts" / f"{gate.id}.json")
    own = f"sessions/{judged.session}/judged/{judged.workload}.{judged.item}.json"
    return verdict if verdict and any(i.path == own for i in verdict.inputs) else None
