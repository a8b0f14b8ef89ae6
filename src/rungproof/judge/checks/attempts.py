"""Whether an attempt could have been put aside: each one that lies there was asked for by the plan of its own run, and each session ended.

A record of another plan than the present one is no record of it, and one of an open session is not judged yet. So whoever wanted
to be rid of an attempt would call it that.
"""

from collections.abc import Collection

from rungproof.judge.checks.found import Found
from rungproof.judge.evidence import Read
from rungproof.judge.recompute import Again
from rungproof.records.codec import parse
from rungproof.records.errors import EvidenceError
from rungproof.records.formats import Attempt, Judged
from rungproof.records.plan import Plan, split_session


def check_attempts(read: Read, names: Collection[str], again: Again, pack: bool, found: Found) -> None:
    """Every attempt of every session. pack: nothing is being measured any more, so no session may be open.

    Raises EvidenceError for an attempt or a plan that cannot be read.
    """
    found.need("L4", "attempts asked for by their plan")
    locks: dict[str, Plan] = {}
    for name, session in sorted(again.sessions.items()):
        if pack and session.facts.closed is None:
            found.fail("L4", f"sessions/{name}: has no closed.json; a session whose end is not known is in no pack")
        run = _run(name)
        paths = sorted(n for n in names if n.startswith(f"sessions/{name}/attempts/") and n.endswith(".json"))
        if paths and run not in locks:
            where = f"runs/{run}/campaign.lock.json"
            locks[run] = parse(Plan, read(where) or b"", where)
        for path in paths:
            found.count("attempts asked for by their plan")
            attempt = parse(Attempt, read(path) or b"", path)
            if why := _foreign(path, name, attempt, session.facts.server.launch_sha256, locks[run]):
                found.fail("L4", f"{path}: {why} runs/{run}/campaign.lock.json, so nobody has asked for it")
    _beside(read, names, again, found)


def _beside(read: Read, names: Collection[str], again: Again, found: Found) -> None:
    """A judged record that was not made again, since its attempt is of an earlier plan, may not pass for one of this plan."""
    made = {place.path for lying in again.judged.values() for place, _ in lying}
    for path in sorted(n for n in names if n.startswith("sessions/") and "/judged/" in n and n not in made):
        data = read(path.replace("/judged/", "/attempts/"))
        if data is None:
            found.fail("L4", f"{path}: there is no attempt that it could have been made from")
            continue
        attempt, judged = parse(Attempt, data, path), parse(Judged, read(path) or b"", path)
        session = again.sessions.get(path.split("/")[1])
        launch = session.facts.server.launch_sha256 if session else ""
        if (judged.spec_sha256, judged.launch_sha256) != (attempt.spec_sha256, launch):
            found.fail("L4", f"{path}: says that it is of another specification or launch than its attempt and server")


def _run(session: str) -> str:
    try:
        return split_session(session)[0]
    except ValueError as error:
        raise EvidenceError(f"sessions/{session}: {error}") from error


def _foreign(path: str, session: str, attempt: Attempt, launch: str, lock: Plan) -> str:
    """What of an attempt is not as the plan of its run has it; "" where all is."""
    seat = session.partition(".")[2]
    name = path.rpartition("/")[2]
    item = next((i for i in lock.items if (i.seat, f"{i.workload}.{i.item}.json") == (seat, name)), None)
    if item is None:
        return "is of no item of"
    if attempt.spec_sha256 != item.spec_sha256:
        return f"was made to the specification {attempt.spec_sha256[:12]!r}, which is not that of {item.id} in"
    arm = next((a for a in lock.arms if a.name == item.arm), None)
    return "" if arm and arm.launch_sha256 == launch else f"its server was launched otherwise than arm {item.arm} in"
