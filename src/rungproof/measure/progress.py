"""How far a call is, from its records: for the terminal alone, so nothing here may fail a job."""

import time
from dataclasses import dataclass
from pathlib import Path

from rungproof.measure.store import Folder
from rungproof.records.codec import load_json
from rungproof.records.errors import RungproofError
from rungproof.records.plan import Plan, split_session

PRIOR_S = 60.0  # weight of the host's own estimate against what this call has taken so far


@dataclass(frozen=True, slots=True)
class Progress:
    """Items done of those that the call measures, the share of its expected time that is done, and what is left of it [s]."""

    done: int
    items: int
    share: float
    left_s: float

    def __str__(self) -> str:
        """As it stands at the end of a line."""
        left = f", about {max(1, round(self.left_s / 60))} min left" if self.left_s else ""
        return f"[{self.done}/{self.items}{left}]"


def figures(far: Progress | None) -> dict[str, float]:
    """The same for the live line; empty where it cannot be told."""
    return {"share": far.share, "left_s": far.left_s} if far else {}


def progress(study: Path, plan: Plan, session: str) -> Progress | None:
    """How far the call is that `session` belongs to; None where it cannot be told. Simulated time is not told.

    What is left is the host's estimate of it, times how much longer than estimated the call has taken up to now.
    """
    try:
        return _progress(study, plan, session)
    except (OSError, RungproofError, KeyError):
        return None


def _progress(study: Path, plan: Plan, session: str) -> Progress:
    folder, run = Folder(study), split_session(session)[0]
    record = folder.run(run) / "run.json"
    expected = load_json(record.read_bytes(), str(record))["expected_s"]
    done_s, items, done, begun = 0.0, 0, 0, []
    for name, times in expected.items():
        order = folder.session(name) / "control/order.json"
        begun += [order.stat().st_mtime] if order.exists() else []
        for key, seconds in times.items():
            is_server = key == "server"
            there = (
                folder.session(name) / "server.json" if is_server else folder.attempt(name, plan.item(key))
            ).exists()
            done_s += seconds * there
            items += not is_server
            done += there and not is_server
    total_s = sum(sum(times.values()) for times in expected.values())
    passed_s = time.time() - min(begun) if begun else 0.0
    slower = (passed_s + PRIOR_S) / (done_s + PRIOR_S)
    left_s = 0.0 if plan.simulated else (total_s - done_s) * slower
    return Progress(done, items, done_s / total_s if total_s else 1.0, left_s)
