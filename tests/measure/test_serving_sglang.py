"""SGLang under the supervisor, for real. No lock can name it: its packages on the index need CUDA and there is no build of its kernels
for processors, so RUNGPROOF_SGLANG_PYTHON must name a Python in which `python -m sglang.launch_server --device cpu` starts."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from measure.serving_bench import SAMPLING, Bench, opened
from rungproof.config.load import load
from rungproof.measure.external import Ask, measure
from rungproof.measure.external.prompts import load_prompts
from rungproof.measure.external.target import parse_url
from rungproof.measure.workloads.canary import run_canary
from rungproof.plan.builds import build_folder, model_digest

pytestmark = [pytest.mark.real, pytest.mark.timeout(1200)]
bench = pytest.fixture(opened)
ROOT = Path(__file__).resolve().parents[2]
PYTHON = os.environ.get("RUNGPROOF_SGLANG_PYTHON")
ARGUMENTS = {
    "device": "cpu", "attention-backend": "torch_native", "dtype": "float32", "disable-radix-cache": True, "enable-mixed-chunk": False,
    "max-total-tokens": 20000, "max-running-requests": 8,
}  # fmt: skip


def test_sglang_is_proven_and_measured(bench: Bench) -> None:
    """Every argument from its own line, its version and backends, a canary, and a ladder whose outputs come with token ids."""
    name = "smollm2-135m-bf16"
    build = os.environ.get("RUNGPROOF_BUILD", str(ROOT / "build"))
    model = Path(build_folder(build, "models", name, model_digest(ROOT, load(ROOT, "smoke").models, name))).resolve()
    if PYTHON is None or not model.exists():
        pytest.skip("RUNGPROOF_SGLANG_PYTHON names no Python with SGLang, or the smoke campaign has not made its model")
    launch = {"engine": "sglang", "model": "m", "arguments": ARGUMENTS, "variables": {}}
    check = {"id": "same", "kind": "repeat8", "prompt": "Water boils at", "max_tokens": 4, "expect": ""}
    canary = {"sampling": SAMPLING, "checks": [check], "deadline_s": 300.0, "idle_s": 100.0}
    server = bench.start(
        replace(
            bench.order, launch=launch, python=PYTHON, model_path=str(model), ready_deadline_s=600.0, stop_grace_s=20.0, canary=canary,
        )
    )  # fmt: skip
    assert (server.status, server.reasons) == ("ready", ())
    found = {f"{knob.name} | {knob.source}": knob for knob in server.knobs}
    assert all(knob.ok for knob in found.values()), found
    assert {f"--{key} | log: server_args" for key in ARGUMENTS} <= set(found)
    assert "attention_backend torch_native" in server.identity["kernel"]
    assert server.identity["effective"]["arguments"]["max-running-requests"] == "8"
    assert run_canary(bench.folder, "before", "job").status == "passed"
    prompts = load_prompts(None, ROOT, 2)
    report = measure(
        Ask(parse_url(server.url), server.model, prompts, (1, 2), 16, 1, False, 600.0, 200.0, None), lambda _line: None
    )
    assert report.complete
    for rung in report.rungs:
        assert rung.counters["generation_tokens"] == 16 * 2 * rung.concurrency
        assert (rung.counters["preemptions"], rung.counters["prefix_cache_hits"]) == (0, 0)
        assert all(len(request.token_ids) == 16 for request in rung.requests)
