"""Whether an attempt could have been put aside: each one that lies there was asked for by the plan of its own run, and each session ended.

A record of another plan than the present one is no record of it, and one of an open session is not judged yet. So whoever wanted
to be rid of an attempt would call it that. Runs of an earlier version may lie in the same folder, so of their plans and records
only the fields are read that say what was asked for.
"""

from collections.abc import Collection, Mapping
from typing import Any

from rungproof.judge.checks.found import Found
from rungproof.judge.evidence import Read
from rungproof.judge.recompute import Again
from rungproof.records.codec import load_json
from rungproof.records.errors import EvidenceError
from rungproof.records.plan import split_session

KIND = "attempts asked for by their plan"
Lock = tuple[Mapping[tuple[str, str], str], Mapping[str, str]]  # (seat, name of the attempt) -> spec; arm -> launch


def check_attempts(read: Read, names: Collection[str], again: Again, pack: bool, found: Found) -> None:
    """Every attempt of every session. pack: nothing is being measured any more, so no session may be open.

    Raises EvidenceError for an attempt or a plan that cannot be read.
    """
    found.need("L4", KIND)
    locks: dict[str, Lock] = {}
    for name, session in sorted(again.sessions.items()):
        if pack and session.facts.closed is None:
            found.fail("L4", f"sessions/{name}: has no closed.json; a session whose end is not known is in no pack")
        try:
            run, arm, replicate = split_session(name)
        except ValueError as error:
            raise EvidenceError(f"sessions/{name}: {error}") from error
        home = f"sessions/{name}/attempts/"
        for path in sorted(n for n in names if n.startswith(home) and n.endswith(".json")):
            if run not in locks:
                locks[run] = _lock(read, f"runs/{run}/campaign.lock.json")
            specs, launches = locks[run]
            found.count(KIND)
            spec = specs.get((f"{arm}.{replicate}", path.removeprefix(home)))
            asked = _field(_record(read, path), "spec_sha256") == spec and spec is not None
            if not asked or launches.get(arm) != session.facts.server.launch_sha256:
                what = "launch of its server" if asked else "specification" if spec else "item"
                found.fail(
                    "L4", f"{path}: its {what} is not in runs/{run}/campaign.lock.json, so nobody has asked for it"
                )
    _beside(read, names, again, found)


def _lock(read: Read, path: str) -> Lock:
    """What the plan of a run asked for."""
    plan = _record(read, path)
    items = [one for one in plan.get("items") or () if isinstance(one, dict)]
    arms = [one for one in plan.get("arms") or () if isinstance(one, dict)]
    specs = {
        (f"{_field(i, 'arm')}.{_field(i, 'replicate')}", f"{_field(i, 'workload')}.{_field(i, 'item')}.json"): _field(
            i, "spec_sha256"
        )
        for i in items
    }
    return specs, {_field(one, "name"): _field(one, "launch_sha256") for one in arms}


def _beside(read: Read, names: Collection[str], again: Again, found: Found) -> None:
    """A judged record that was not made again, since its attempt is of an earlier plan, may not pass for one of this plan."""
    made = {place.path for lying in again.judged.values() for place, _ in lying}
    for path in sorted(n for n in names if n.startswith("sessions/") and "/judged/" in n and n not in made):
        attempt = path.replace("/judged/", "/attempts/")
        if attempt not in names:
            found.fail("L4", f"{path}: there is no attempt that it could have been made from")
            continue
        judged, session = _record(read, path), again.sessions.get(path.split("/")[1])
        launch = session.facts.server.launch_sha256 if session else ""
        spec = _field(_record(read, attempt), "spec_sha256")
        if (_field(judged, "spec_sha256"), _field(judged, "launch_sha256")) != (spec, launch):
            found.fail("L4", f"{path}: says that it is of another specification or launch than its attempt and server")


def _record(read: Read, path: str) -> dict[str, Any]:
    value = load_json(read(path) or b"", path)
    if not isinstance(value, dict):
        raise EvidenceError(f"{path}: found {type(value).__name__}; expected an object")
    return value


def _field(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    return value if isinstance(value, str) else ""
