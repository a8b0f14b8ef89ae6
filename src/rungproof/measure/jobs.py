"""What a session's jobs do, one function a rule."""

import os
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from rungproof.config.sections import Costs
from rungproof.measure import serving
from rungproof.measure.job import aloud, owner
from rungproof.measure.models.checkpoints import verify_files
from rungproof.measure.serving.order import Order
from rungproof.measure.store import Folder
from rungproof.measure.workloads.attempt import measure_item
from rungproof.measure.workloads.canary import run_canary
from rungproof.plan.builds import build_folder
from rungproof.plan.estimate import item_seconds
from rungproof.records.codec import canonical, load_json, read
from rungproof.records.errors import EvidenceError, HostError, RungproofError, SetupError
from rungproof.records.files import write_atomic
from rungproof.records.formats import Reason, Server, Verdict
from rungproof.records.plan import ArmPlan, Plan, split_session

EVEN = Costs(
    server_s=1, token_s=1, prefill_1k_s=140, setup_s=1, setup_gb=1
)  # only the proportions between items matter


def start_server(study: Path, session: str, build: str, gate: Path | None) -> Server:
    """Start the session's server under a detached supervisor and wait until it is ready or has failed; server.json says which.

    `gate`: verdict of the base repeat that this arm depends on; where it did not qualify nothing is started.
    """
    folder = Folder(study)
    plan = folder.plan(session)
    _, arm_name, replicate = split_session(session)
    arm = plan.arm(arm_name)
    order = _order(plan, arm, session, replicate, build)
    verdict = read(Verdict, gate) if gate else None
    if verdict and verdict.state != "qualified":
        return _not_started(folder.session(session), order, verdict)
    aloud(f"{session}: starting {arm.engine} for {arm.title}")
    server = serving.start(folder.session(session), order)
    for reason in server.reasons:
        aloud(f"{session}: {reason}")
    aloud(f"{session}: {server.status} after {server.ready_s} s")
    return server


def _order(plan: Plan, arm: ArmPlan, session: str, replicate: str, build: str) -> Order:
    pid, start = owner()
    limits = plan.limits
    python, model_path, identity = sys.executable, "", {"name": arm.model}
    if not plan.simulated:
        environment = Path(build_folder(build, "envs", arm.environment, arm.launch["environment_sha256"])).resolve()
        model = Path(build_folder(build, "models", arm.model, arm.launch["model_sha256"])).resolve()
        for made in (environment, model):
            if not (made / "manifest.json").exists():
                raise SetupError(
                    f"{made}: is not there any more, although {made}.ready says that it was made. "
                    f"Remove {made}.ready and run the same command again: it will be made anew."
                )
        verify_files(model)
        python, model_path = str(environment / "bin/python"), str(model)
        identity = load_json((model / "manifest.json").read_bytes(), str(model / "manifest.json"))
    canary = {**plan.canaries[arm.canary], "deadline_s": limits["request_deadline_s"], "idle_s": limits["idle_s"]}
    return Order(
        session=session, campaign=plan.campaign, arm=arm.name, replicate=replicate, launch=arm.launch, launch_sha256=arm.launch_sha256,
        python=python, model_path=model_path, model_identity=identity, port=0, ready_deadline_s=limits["ready_deadline_s"],
        stop_grace_s=limits["stop_grace_s"], lock=str(lock_path(limits["lock"])), owner_pid=pid, owner_start=start, canary=canary,
        fault_lines=tuple(limits["fault_lines"]),
    )  # fmt: skip


def lock_path(name: str) -> Path:
    """The host lock's file: in RUNGPROOF_LOCK_DIR or /tmp, one for all users of the machine."""
    return Path(os.environ.get("RUNGPROOF_LOCK_DIR", "/tmp")) / f"rungproof-{name}.lock"


def _not_started(folder: Path, order: Order, verdict: Verdict) -> Server:
    """No server for an arm whose base does not repeat itself (skipped: a result) or could not be compared (failed: tried again)."""
    why = (Reason("gate", found=verdict.state, expected="qualified", where=verdict.gate), *verdict.reasons)
    status: Literal["skipped", "failed"] = "skipped" if verdict.state == "withheld" else "failed"
    server = Server(
        order.session, order.arm, order.replicate, status, why, "", "", "", order.launch, order.launch_sha256, (), {}, {}, None,
        datetime.now(UTC).isoformat(timespec="seconds"), None,
    )  # fmt: skip
    aloud(f"{order.session}: {status}: {'; '.join(map(str, why[:2]))}")
    write_atomic(folder / "control/order.json", canonical(order))
    write_atomic(folder / "server.json", canonical(server))
    return server


def canary(study: Path, session: str, when: str) -> None:
    """Run the canary before or after; its record says what came of it, the job never fails for it."""
    if when not in ("before", "after"):
        raise ValueError(f"{when!r}: expected before or after")
    record = run_canary(Folder(study).session(session), when, "job")  # type: ignore[arg-type]
    aloud(f"{session}: canary {when}: {record.status} {'; '.join(map(str, record.reasons))}")


def attempt(study: Path, session: str, workload: str, item: str) -> None:
    """Measure one item; its record says what came of it, the job never fails for it."""
    plan = Folder(study).plan(session)
    _, arm, replicate = split_session(session)
    record = measure_item(
        study,
        session,
        plan.item(f"{arm}.{replicate}/{workload}/{item}"),
        plan,
        quietly,
    )
    why = "; ".join(map(str, record.reasons))
    aloud(
        f"{session}: {workload}/{item}: {record.status} in {record.seconds:.1f} s{progress(study, plan, session)} {why}".rstrip()
    )


def quietly(line: str) -> None:
    """A line for the job's log alone; never raises, as `aloud`."""
    with suppress(OSError, ValueError):
        print(line, file=sys.stderr)


def progress(study: Path, plan: Plan, session: str) -> str:
    """How far this run is: attempts done of those planned, and the minutes left if the rest goes as fast as what is done.

    Empty where it cannot be told: it decorates a line and may not fail a job.
    """
    try:
        return _progress(study, plan, session)
    except (OSError, RungproofError):
        return ""


def _progress(study: Path, plan: Plan, session: str) -> str:
    folder = Folder(study)
    run = split_session(session)[0]
    planned = load_json((folder.run(run) / "run.json").read_bytes(), "run.json")["sessions"]
    weights = {(name, key): item_seconds(plan.item(key), EVEN) for name, keys in planned.items() for key in keys}
    done = {place for place in weights if folder.attempt(place[0], plan.item(place[1])).exists()}
    share = sum(weights[place] for place in done) / max(sum(weights.values()), 1e-9)
    passed = time.time() - (folder.run(run) / "run.json").stat().st_mtime
    left = (
        ""
        if plan.simulated
        else f", about {max(1, round(passed * (1 - share) / share / 60))} min left"
        if 0 < share < 1
        else ""
    )
    return f" [{len(done)}/{len(weights)}{left}]"


def stop_server(study: Path, session: str) -> None:
    """Close the session; closed.json says how it ended."""
    closed = serving.stop(Folder(study).session(session))
    aloud(f"{session}: closed, sound {closed.sound}, {closed.exit} {'; '.join(map(str, closed.reasons))}")


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


def write_lock(plan: Plan, sessions: dict[str, list[str]], folder: Path) -> None:
    """campaign.lock.json (the plan, hashed by its bytes) and run.json (what this call measures), before the first request."""
    write_atomic(
        folder / "run.json", canonical({"format": "rungproof.run/1", "campaign": plan.campaign, "sessions": sessions})
    )
    write_atomic(folder / "campaign.lock.json", canonical(plan))
