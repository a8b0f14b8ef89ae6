"""A real vLLM under the supervisor: what is proven of it, the engine that a wrong type kills, and the children that outlive it."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from measure.serving_bench import Bench, opened
from rungproof.config.load import load
from rungproof.measure import serving
from rungproof.measure.serving import Order, procfs
from rungproof.measure.workloads.canary import run_canary
from rungproof.plan.builds import build_folder
from rungproof.plan.machine import processor_flags
from rungproof.plan.resolve import resolve
from rungproof.records.codec import load_json, read
from rungproof.records.environment import Environment
from rungproof.records.plan import ArmPlan

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
bench = pytest.fixture(opened)
ROOT = Path(__file__).resolve().parents[2]
LOADED = load(ROOT, "smoke")
PLAN = resolve(LOADED, processor_flags())


def order(bench: Bench, arm: ArmPlan, **arguments: object) -> Order:
    """The order of an arm's server, from what the smoke campaign has made."""
    build = os.environ.get("RUNGPROOF_BUILD", str(ROOT / "build"))
    python = Path(build_folder(build, "envs", arm.environment, arm.launch["environment_sha256"]), "bin/python")
    model = Path(build_folder(build, "models", arm.model, arm.launch["model_sha256"]))
    for made in (python, model / "manifest.json"):
        if not made.exists():
            pytest.skip(f"{made} is not made yet; the smoke campaign makes it")
    launch = {**arm.launch, "arguments": {**arm.launch["arguments"], **arguments}}
    return replace(
        bench.order, launch=launch, launch_sha256=arm.launch_sha256, python=str(python), model_path=str(model), ready_deadline_s=400.0, stop_grace_s=20.0,
        model_identity=load_json((model / "manifest.json").read_bytes(), "manifest"), fault_lines=tuple(PLAN.limits["fault_lines"]),
        canary={**PLAN.canaries[arm.canary], "deadline_s": 300.0, "idle_s": 100.0},
    )  # fmt: skip


def test_a_real_server_is_proven_described_and_ended_with_its_children(bench: Bench) -> None:
    """Arguments, variables, version and kernel are read back; env.json is of its own process; kill -9 leaves no engine and no worker."""
    arm = PLAN.arms[0]
    server = bench.start(order(bench, arm))
    assert (server.status, server.reasons) == ("ready", ())
    found = {f"{knob.name} | {knob.source}": knob for knob in server.knobs}
    assert all(knob.ok for knob in found.values())
    assert (
        found["engine version | /version against its installed package"].found
        == found["engine version | /version against its log"].found
    )
    if "census" in arm.launch:
        assert found["census kernel | log: census"].found == arm.launch["census"]["kernel"]["value"]
    assert server.identity["effective"]["arguments"]["max-model-len"] == str(arm.launch["arguments"]["max-model-len"])
    assert server.identity["max_captured"] == "0", "it runs eagerly"
    env = read(Environment, bench.folder / "env.json")
    values = {key: fact.value for key, fact in env.before.items()}
    assert values["torch"] == server.identity["packages"]["torch"]
    assert len(values["python_packages"]) == len(server.identity["packages"])
    assert any("gomp" in name or "omp" in name for name in values["libraries"])
    assert values["variables"]["VLLM_CPU_KVCACHE_SPACE"] == "2"
    assert run_canary(bench.folder, "before", "job").status == "passed"
    assert server.pid is not None
    children = [pair for *pair, _name in bench.guarded(3).processes if pair[0] != server.pid]
    os.kill(server.pid, signal.SIGKILL)
    closed = bench.closed()
    assert not [pair for pair in children if procfs.alive(*pair)]
    assert len(closed.leftovers) >= 2, "the engine and its worker outlived the server and were ended"
    assert any("EngineCor" in text for text in closed.leftovers)
    assert not closed.sound
    assert "killed by SIGKILL" in closed.reasons[0].found
    assert read(Environment, bench.folder / "env.json").sampled["memory.available_kb"].n >= 1


def test_an_engine_that_dies_at_its_first_request_is_not_ready(bench: Bench) -> None:
    """The W4A16 checkpoint with float32: the server listens and its health is good, but no completion comes, so it is refused."""
    arm = next((one for one in PLAN.arms if one.lane == "smollm2-w4a16"), None)
    if arm is None:
        pytest.skip("this processor cannot serve the W4A16 lane")
    server = bench.start(order(bench, arm, dtype="float32"))
    closed = serving.stop(bench.folder)
    assert server.status == "failed"
    assert server.reasons[0].what in ("no completion", "fault line in the log", "server exited"), server.reasons
    assert server.ready_s is None
    assert not closed.sound
