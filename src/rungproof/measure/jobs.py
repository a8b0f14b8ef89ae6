"""What a session's jobs do, one function a rule."""

import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from rungproof.measure import serving
from rungproof.measure.job import owner
from rungproof.measure.models.checkpoints import read_manifest, verify_files
from rungproof.measure.models.given import check_environment
from rungproof.measure.models.weights import tensors_of
from rungproof.measure.progress import Progress, progress
from rungproof.measure.selftest import check_client, session_interval_ms
from rungproof.measure.serving.order import Order
from rungproof.measure.serving.procfs import boot_id
from rungproof.measure.store import Folder
from rungproof.measure.terminal import aloud, standing
from rungproof.measure.workloads.attempt import BatchDone, measure_item
from rungproof.measure.workloads.canary import run_canary
from rungproof.plan.builds import build_folder, is_made
from rungproof.records.codec import canonical, load_json, read, sha256
from rungproof.records.errors import EvidenceError, HostError, SetupError
from rungproof.records.files import write_atomic
from rungproof.records.formats import Reason, Registered, Server, Verdict
from rungproof.records.plan import ArmPlan, Plan, split_session
from rungproof.records.requests import sampling


def start_server(study: Path, session: str, build: str, gate: Path | None) -> Server:
    """Start the session's server under a detached supervisor and wait until it is ready or has failed; server.json says which.

    `gate`: verdict of the base repeat that this arm depends on; where it did not qualify nothing is started.
    """
    folder = Folder(study)
    plan = folder.plan(session)
    _, arm_name, replicate = split_session(session)
    arm = plan.arm(arm_name)
    order = _order(plan, arm, session, replicate, build, sha256(folder.lock(session).read_bytes()))
    verdict = read(Verdict, gate) if gate else None
    if verdict and verdict.state != "qualified":
        return _not_started(folder.session(session), order, verdict)
    aloud(f"{session}: starting {arm.engine} for {arm.title}")
    began = time.monotonic()

    def tell(words: str) -> None:
        aloud(f"{session}: {words} ({time.monotonic() - began:.0f} s)")
        standing(session, words, done=0, total=None, rate=None)

    standing(session, "starting", done=0, total=None, rate=None, **_figures(progress(study, plan, session)))
    server = serving.start(folder.session(session), order, tell)
    for reason in server.reasons:
        aloud(f"{session}: {reason.after(session)}")
    aloud(f"{session}: {server.status} after {server.ready_s} s")
    return server


def _order(plan: Plan, arm: ArmPlan, session: str, replicate: str, build: str, lock_sha256: str) -> Order:
    pid, start = owner()
    limits = plan.limits
    python, model_path = sys.executable, ""
    identity: dict[str, Any] = {"name": arm.model}
    if not plan.simulated:
        environment = Path(build_folder(build, "envs", arm.environment, arm.launch["environment_sha256"])).absolute()
        model = Path(build_folder(build, "models", arm.model, arm.launch["model_sha256"])).absolute()
        for made in (environment, model):
            if not is_made(made) or not made.exists():
                raise SetupError(
                    f"{made}: is not there any more, although {made}.ready says that it was made. "
                    f"Remove {made}.ready and run the same command again: it will be made anew, or tell where to find it."
                )
        check_environment(environment)
        verify_files(model)
        python, model_path = str(environment.resolve() / "bin/python"), str(model.resolve())
        identity = read_manifest(model)
        identity["tensors"] = tensors_of(model)
    checks = plan.canaries[arm.canary]
    asked = sampling(plan.seed, str(arm.launch["engine"]))
    canary = {**checks, "sampling": asked, "deadline_s": limits["request_deadline_s"], "idle_s": limits["idle_s"]}
    return Order(
        session=session, campaign=plan.campaign, arm=arm.name, replicate=replicate, launch=arm.launch, launch_sha256=arm.launch_sha256,
        python=python, model_path=model_path, model_identity=identity, port=0, ready_deadline_s=limits["ready_deadline_s"],
        stop_grace_s=limits["stop_grace_s"], lock=str(serving.lock_path(limits["lock"])), owner_pid=pid, owner_start=start, canary=canary,
        fault_lines=tuple(limits["fault_lines"]), rivals=tuple(other.launch_sha256 for other in plan.arms if other.name != arm.name),
        devices=tuple(limits["devices"]), holders=tuple(limits["holders"]), expect=limits["expect"],
        kernel_fault_lines=tuple(limits["kernel_fault_lines"]),
        container_engine=tuple(limits["container"]["command"]), container_arguments=tuple(limits["container"]["arguments"]),
        lock_sha256=lock_sha256,
    )  # fmt: skip


def _not_started(folder: Path, order: Order, verdict: Verdict) -> Server:
    """No server for an arm whose base does not repeat itself (skipped: a result) or could not be compared (failed: tried again)."""
    why = (Reason("gate", found=verdict.state, expected="qualified", where=verdict.gate), *verdict.reasons)
    status: Literal["skipped", "failed"] = "skipped" if verdict.state == "withheld" else "failed"
    server = Server(
        order.session, order.arm, order.replicate, status, why, "", "", "", order.launch, order.launch_sha256, (), {}, {}, None,
        datetime.now(UTC).isoformat(timespec="seconds"), None, order.lock_sha256,
    )  # fmt: skip
    aloud(f"{order.session}: {status}: {'; '.join(map(str, why[:2]))}")
    write_atomic(folder / "control/order.json", canonical(order))
    write_atomic(folder / "server.json", canonical(server))
    return server


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

    standing(session, step, done=0, total=None, rate=None, **_figures(progress(study, plan, session)))
    record = measure_item(study, session, plan.item(f"{arm}.{replicate}/{step}"), plan, tell)
    speed = f", {rate:.0f} tok/s" if rate and not plan.simulated else ""
    far = progress(study, plan, session)
    why = _after(session, record.reasons)
    aloud(f"{session}: {step}: {record.status} in {record.seconds:.1f} s{speed} {far or ''} {why}".rstrip())
    standing(session, step, **_figures(far))


def _after(session: str, reasons: Iterable[Reason]) -> str:
    return "; ".join(reason.after(session) for reason in reasons)


def _figures(far: Progress | None) -> dict[str, float]:
    return {"share": far.share, "left_s": far.left_s} if far else {}


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
