"""What the job does that starts a session's server. Apart from jobs.py, since it alone needs models, environments and the configuration,
which a job that measures would load in vain."""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from rungproof.measure import serving
from rungproof.measure.job import owner
from rungproof.measure.models.checkpoints import read_manifest
from rungproof.measure.models.given import check_environment, check_model
from rungproof.measure.models.weights import tensors_of
from rungproof.measure.progress import figures, progress
from rungproof.measure.serving.order import Order
from rungproof.measure.store import Folder
from rungproof.measure.terminal import aloud, standing
from rungproof.plan.builds import build_folder, is_made
from rungproof.records.codec import canonical, read, sha256
from rungproof.records.errors import SetupError
from rungproof.records.files import write_atomic
from rungproof.records.formats import Reason, Server, Verdict
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

    standing(session, "starting", done=0, total=None, rate=None, **figures(progress(study, plan, session)))
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
        check_environment(environment, arm.launch["environment_sha256"])
        check_model(model, arm.launch["model_sha256"])
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
