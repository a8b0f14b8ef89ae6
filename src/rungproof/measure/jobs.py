"""What a session's jobs do, one function a rule."""

import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from rungproof.measure import serving
from rungproof.measure.progress import figures, progress
from rungproof.measure.selftest import check_client, session_interval_ms
from rungproof.measure.serving.order import Order
from rungproof.measure.serving.procfs import boot_id
from rungproof.measure.store import Folder
from rungproof.measure.terminal import aloud, standing
from rungproof.measure.workloads.attempt import BatchDone, measure_item
from rungproof.measure.workloads.canary import run_canary
from rungproof.records.codec import canonical, load_json, read, sha256
from rungproof.records.errors import EvidenceError, HostError
from rungproof.records.files import write_atomic
from rungproof.records.formats import Reason, Registered
from rungproof.records.plan import Plan, split_session


def canary(study: Path, session: str, when: str) -> None:
    """Run the canary before or after; its record says what came of it, the job never fails for it."""
    if when not in ("before", "after"):
        raise ValueError(f"{when!r}: expected before or after")
    standing(session, f"canary {when}", done=0, total=None, rate=None)
    if when == "before":
        check_session(study, session)
    record = run_canary(Folder(study).session(session), when, "job")  # type: ignore[arg-type]
    aloud(f"{session}: canary {when}: {record.status} {_after(session, record.reasons)}")


def check_session(study: Path, session: str) -> None:
    """Hold the client against a server of this host that stamps its own events, at the session's highest concurrency, while
    the session's server is idle; write `client.json`. A check that cannot be made is left out, and the judge says so."""
    folder = Folder(study)
    server = folder.server(session)
    if server.status != "ready":
        return
    plan = folder.plan(session)
    planned = load_json((folder.run(split_session(session)[0]) / "run.json").read_bytes(), "run.json")["sessions"]
    streams = max(int(plan.item(key).spec.get("concurrency", 1)) for key in planned[session])
    how = {"round_s": 0.05, "search": False} if plan.simulated else {"rounds": 5, "round_s": 0.2}
    try:
        found = check_client(streams, session_interval_ms(streams), session=session, boot=server.boot, **how)  # type: ignore[arg-type]
    except HostError as error:
        aloud(f"{session}: the client could not be checked: {error}")
        return
    write_atomic(folder.session(session) / "client.json", canonical(found))
    lag, cost = (f"{value:.3f}" if value is not None else "?" for value in (found.lag_p99_ms, found.cpu_us_event))
    aloud(f"{session}: client at {streams} streams: stamps {lag} ms late (p99), {cost} us an event")


def attempt(study: Path, session: str, workload: str, item: str) -> None:
    """Measure one item; its record says what came of it, the job never fails for it."""
    plan = Folder(study).plan(session)
    _, arm, replicate = split_session(session)
    step = f"{workload}/{item}"
    rate: float | None = None

    def tell(batch: BatchDone) -> None:
        nonlocal rate
        rate = batch.rate
        with suppress(OSError, ValueError):
            print(f"{session} {step}: {batch}", file=sys.stderr)
        standing(session, step, done=batch.number, total=batch.batches, rate=rate)

    standing(session, step, done=0, total=None, rate=None, **figures(progress(study, plan, session)))
    record = measure_item(study, session, plan.item(f"{arm}.{replicate}/{step}"), plan, tell)
    speed = f", {rate:.0f} tok/s" if rate and not plan.simulated else ""
    far = progress(study, plan, session)
    why = _after(session, record.reasons)
    aloud(f"{session}: {step}: {record.status} in {record.seconds:.1f} s{speed} {far or ''} {why}".rstrip())
    standing(session, step, **figures(far))


def _after(session: str, reasons: Iterable[Reason]) -> str:
    return "; ".join(reason.after(session) for reason in reasons)


def stop_server(study: Path, session: str) -> None:
    """Close the session; closed.json says how it ended."""
    standing(session, "stopping", done=0, total=None, rate=None)
    closed = serving.stop(Folder(study).session(session))
    aloud(f"{session}: closed, sound {closed.sound}, {closed.exit} {_after(session, closed.reasons)}")


def settle(results: Path, patience_s: float = 60.0) -> list[str]:
    """Bring sessions of earlier calls to their end before anything is planned: waits for supervisors whose snakemake is
    gone, repairs those without a supervisor, leaves those of a living snakemake alone. Returns the names of sessions that are still open."""
    still = []
    for control in sorted(results.glob("*/sessions/*/control/order.json")):
        folder = control.parent.parent
        if (folder / "closed.json").exists():
            continue
        try:
            order = read(Order, control)
        except EvidenceError as error:  # nothing says who owns it; it stays unclosed, so nothing of it is used
            print(f"rungproof: left open: {error}", file=sys.stderr)
            still.append(folder.name)
            continue
        if serving.alive(order.owner_pid, order.owner_start):
            still.append(folder.name)
            continue
        end = time.monotonic() + patience_s
        while not (folder / "closed.json").exists() and serving.supervised(folder) and time.monotonic() < end:
            time.sleep(0.1)
        if not (folder / "closed.json").exists():
            try:
                serving.repair(folder)
            except (HostError, EvidenceError) as error:  # no new run needs that session closed: it is simply not used
                print(f"rungproof: left open: {error}", file=sys.stderr)
                still.append(folder.name)
    return still


def write_lock(plan: Plan, expected_s: dict[str, dict[str, float]], folder: Path) -> None:
    """campaign.lock.json (the plan, hashed by its bytes), registered.json (when that was) and run.json (what this call measures),
    before the first request. expected_s: new session -> item id, or "server", -> rough seconds.
    """
    sessions = {session: [key for key in times if key != "server"] for session, times in expected_s.items()}
    record = {"format": "rungproof.run/1", "campaign": plan.campaign, "sessions": sessions, "expected_s": expected_s}
    write_atomic(folder / "run.json", canonical(record))
    lock = canonical(plan)
    known = Registered(
        plan_sha256=sha256(lock),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        at_ns=time.monotonic_ns(),
        boot_id=boot_id(),
        supersedes=_superseded(folder, sha256(lock)),
    )
    write_atomic(folder / "registered.json", canonical(known))
    write_atomic(folder / "campaign.lock.json", lock)  # last: it is what the jobs wait for


def _superseded(folder: Path, digest: str) -> str:
    """Digest of the last other plan among the earlier runs beside `folder`; "" where there is none."""
    runs = [path for path in folder.parent.glob("r*/campaign.lock.json") if path.parent != folder]
    for path in sorted(runs, key=lambda p: (len(p.parent.name), p.parent.name), reverse=True):
        other = sha256(path.read_bytes())
        if other != digest:
            return other
    return ""
