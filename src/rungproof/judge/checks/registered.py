"""Whether the plan was registered before anything was measured by it, and each plan names the one it replaced."""

from collections.abc import Collection, Mapping

from rungproof.judge.checks.found import Found
from rungproof.judge.checks.moments import seconds
from rungproof.judge.checks.stamps import Span
from rungproof.judge.evidence import Read
from rungproof.records.codec import parse, sha256
from rungproof.records.formats import Judged, Registered, Server
from rungproof.records.plan import Gate, Plan, split_session

CLOCKS_S = 2.0  # UTC is written in whole seconds


def check_registered(
    read: Read,
    names: Collection[str],
    plan: Plan,
    good: Mapping[str, Judged],
    servers: Mapping[str, Server],
    spans: Mapping[str, list[Span]],
    found: Found,
) -> None:
    """Every run with a record in use: its lock, its registration, the digest in its servers' records, and the order in time."""
    found.need("L4", "registered plans")
    live = {split_session(judged.session)[0] for judged in good.values()}
    locked = sorted(
        {n.split("/")[1] for n in names if n.startswith("runs/r") and n.endswith("/campaign.lock.json")}, key=_number
    )
    for run in sorted(live - set(locked), key=_number):
        found.fail("L4", f"runs/{run}: no campaign.lock.json, so nobody knows by which plan it was measured")
    digests: list[str] = []
    for run in locked:
        lock = read(f"runs/{run}/campaign.lock.json") or b""
        data = read(f"runs/{run}/registered.json")
        if data is None and run in live:
            found.fail("L4", f"runs/{run}: its plan was not registered; expected registered.json")
        if data is not None:
            record = parse(Registered, data, f"runs/{run}/registered.json")
            found.count("registered plans")
            _chain(run, record, sha256(lock), digests, found)
            for name, server in servers.items():
                if split_session(name)[0] == run:
                    _session(name, run, record, sha256(lock), server, spans.get(name, []), found)
        digests.append(sha256(lock))
        if run in live and lock != read("plan.json"):
            _same_rules(run, parse(Plan, lock, f"runs/{run}/campaign.lock.json"), plan, good, found)


def _number(run: str) -> tuple[int, str]:
    return (int(run[1:]) if run[1:].isdecimal() and len(run) < 12 else -1, run)


def _chain(run: str, record: Registered, lock: str, before: list[str], found: Found) -> None:
    """It is of the lock beside it, and names the last other plan of this folder."""
    if record.plan_sha256 != lock:
        found.fail("L4", f"runs/{run}/registered.json: of another plan than campaign.lock.json beside it")
    other = next((one for one in reversed(before) if one != lock), "")
    if record.supersedes != other:
        found.fail(
            "L4",
            f"runs/{run}/registered.json: supersedes {record.supersedes[:12]!r}; the other plan before it is {other[:12]!r}",
        )


def _session(
    name: str, run: str, record: Registered, lock: str, server: Server, spans: list[Span], found: Found
) -> None:
    """The registration came before the server's first request, by UTC and, on the same boot, by the monotonic clock."""
    where = f"runs/{run}/registered.json"
    if server.lock_sha256 != lock:
        found.fail(
            "L4",
            f"sessions/{name}/server.json: started under plan {server.lock_sha256[:12]!r}; run {run} registered {lock[:12]!r}",
        )
    at, ready = seconds(record.at), seconds(server.at)
    if at is None or ready is None or at > ready:
        found.fail("L4", f"{where}: registered {record.at}, server {name} was ready {server.at}; expected before it")
        return
    same_boot = record.boot_id == server.environment.get("boot_id")
    for span in spans:
        if at > (span.first_ns + span.offset_ns) / 1e9 or (same_boot and record.at_ns >= span.first_ns):
            found.fail("L4", f"{where}: registered after a request of {name} had been sent")
            return
        if same_boot and abs((record.at_ns + span.offset_ns) / 1e9 - at) > CLOCKS_S:
            found.fail("L4", f"{where}: its two clocks disagree: {record.at} is not at_ns {record.at_ns} of that boot")
            return


def _same_rules(run: str, lock: Plan, plan: Plan, good: Mapping[str, Judged], found: Found) -> None:
    """A record of an earlier plan may be in use under a later one only where nothing by which it is judged has changed."""
    items, gates = {item.id: item for item in lock.items}, {gate.id: gate for gate in lock.gates}
    for item in plan.items:
        judged = good.get(item.id)
        if judged is None or split_session(judged.session)[0] != run:
            continue
        before = items.get(item.id)
        own = [gate for gate in plan.gates if gate.oracle and item.id == gate.subject[0]]
        if (
            before is None
            or (before.spec, before.rules) != (item.spec, item.rules)
            or any(_changed(g, gates) for g in own)
        ):
            found.fail(
                "L4", f"{item.id}: judged by other rules than those registered in run {run}, when it was measured"
            )


def _changed(gate: Gate, before: Mapping[str, Gate]) -> bool:
    old = before.get(gate.id)
    return old is not None and (old.kind, old.rule, old.subject, old.oracle) != (
        gate.kind,
        gate.rule,
        gate.subject,
        gate.oracle,
    )
