"""How a session opens, proves its server, refuses what is wrong, and closes."""

import os
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from measure.serving_bench import Bench, opened, whats
from rungproof.measure import serving
from rungproof.measure.workloads.canary import run_canary
from rungproof.records.codec import read
from rungproof.records.errors import ServerError
from rungproof.records.formats import Server

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="servers are owned by means of /proc"),
    pytest.mark.timeout(120),
]
bench = pytest.fixture(opened)


def test_a_session_opens_proves_itself_and_closes_sound(bench: Bench) -> None:
    """A good server is ready under a name nobody else has, every knob is found in it, and nothing is left after it."""
    order = bench.asking(
        enforce_eager=True, enable_prefix_caching=False, speculative_config={"num_speculative_tokens": 3}
    )
    order = replace(order, launch={**order.launch, "variables": {"VLLM_CPU_KVCACHE_SPACE": "2"}})
    server = bench.start(order)
    assert (server.status, server.reasons) == ("ready", ())
    assert server.model == f"m-{server.boot}"
    assert server.ready_s is not None
    assert len(server.boot) == 16
    assert {(knob.name, knob.found) for knob in server.knobs} == {
        ("--start-s", "0.05"),
        ("--token-ms", "0.1"),
        ("--enforce-eager", "--enforce-eager"),
        ("--enable-prefix-caching", "--no-enable-prefix-caching"),
        ("--speculative-config", '{"num_speculative_tokens":3}'),
        ("VLLM_CPU_KVCACHE_SPACE", "2"),
    }
    assert server.identity["engine_version"] == "simulated"
    assert server.identity["packages"]["requests"]
    assert server.identity["argv"][:7] == [
        "<python>", "-m", "rungproof.measure.simulated", "--port", "<port>", "--served-model-name", "<name>",
    ]  # fmt: skip
    assert "RUNGPROOF_BOOT" in server.environment["variable_names"]
    assert server.environment["variables"]["VLLM_CPU_KVCACHE_SPACE"] == "2"
    assert run_canary(bench.folder, "before", "job").status == "passed"
    assert run_canary(bench.folder, "after", "job").status == "passed"
    closed = serving.stop(bench.folder)
    assert (closed.by, closed.sound, closed.reasons, closed.leftovers) == ("job", True, (), ())
    assert closed.exit == "exit code 0 after SIGTERM"
    assert closed.boot == server.boot
    assert not (bench.folder / "cache").exists()
    assert serving.stop(bench.folder) == serving.repair(bench.folder) == closed
    assert not serving.supervised(bench.folder)


def test_a_session_without_canaries_is_not_sound(bench: Bench) -> None:
    """A session whose canaries are missing says so for each, and is never called sound."""
    bench.start()
    closed = serving.stop(bench.folder)
    assert not closed.sound
    assert [reason.where for reason in closed.reasons] == ["canary_before.json", "canary_after.json"]


def test_a_folder_is_used_once(bench: Bench) -> None:
    """Sessions are evidence: a second start in the same folder is refused."""
    bench.start()
    with pytest.raises(ServerError, match="already holds a session"):
        bench.start()


@pytest.mark.parametrize(
    ("fault", "what", "found"),
    [
        ({"do": "exit_at_start", "code": 3}, "server exited", "exit code 3"),
        ({"do": "never_ready"}, "not ready in time", "nobody listens"),
        ({"do": "fault_line"}, "fault line in the log", "FAULT: the simulated device"),
        ({"do": "wrong_model"}, "another model is served", "another-model"),
    ],
)
def test_a_server_that_does_not_become_ready_is_reported_with_its_cause(
    bench: Bench, fault: dict[str, Any], what: str, found: str
) -> None:
    """A start that fails ends in a failed record that says why, a closed session and a free host."""
    bench.fault(**fault)
    deadline = 1.5 if fault["do"] == "never_ready" else 15.0
    server = bench.start(replace(bench.order, ready_deadline_s=deadline))
    assert server.status == "failed"
    assert server.reasons[0].what == what
    assert found in server.reasons[0].found
    assert server.ready_s is None
    closed = bench.closed()
    assert not closed.sound
    assert what in whats(closed)
    assert Path(bench.order.lock).read_bytes() == b""


def test_a_fault_line_ends_the_wait_long_before_the_deadline(bench: Bench) -> None:
    """With a fault in its log a server is given up at once, not after the deadline."""
    bench.fault(do="fault_line")
    began = time.monotonic()
    server = bench.start(replace(bench.asking(start_s=30), ready_deadline_s=30.0))
    assert server.status == "failed"
    assert time.monotonic() - began < 10


def test_a_command_that_does_not_exist_is_named(bench: Bench) -> None:
    """An interpreter that is not there fails the start with its path, and nothing stays behind."""
    launch = {"engine": "vllm", "model": "m", "arguments": {}, "variables": {}}
    server = bench.start(replace(bench.order, launch=launch, python=str(bench.root / "none/python")))
    assert whats(server) == ["server could not be started"]
    assert "none/python" in server.reasons[0].where


def test_a_port_that_is_taken_is_refused_and_its_holder_named(bench: Bench) -> None:
    """Nothing is started on a port that another process holds; that process is named and left alone."""
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        port = foreign.getsockname()[1]
        server = bench.start(replace(bench.order, port=port))
    assert server.status == "failed"
    assert server.pid is None
    assert f"port {port} is taken by process {os.getpid()}" in server.reasons[0].found


def test_a_host_that_is_measuring_is_not_measured_on_twice(bench: Bench) -> None:
    """The second campaign on a host ends at once and says which process, campaign and session hold it."""
    bench.start()
    second = serving.start(bench.root / "other", replace(bench.order, session="r001.other.a", campaign="second"))
    assert second.status == "failed"
    assert f"process {bench.listed().supervisor[0]}, campaign try, session r001.base.a" in second.reasons[0].found
    assert read(Server, bench.folder / "server.json").status == "ready"
    serving.stop(bench.folder)
    third = serving.start(bench.root / "third", replace(bench.order, session="r002.other.a"))
    serving.stop(bench.root / "third")
    assert third.status == "ready"


def test_a_knob_that_is_not_in_force_fails_the_session(bench: Bench) -> None:
    """A variable that the running server does not have as asked makes the session invalid before any measurement."""
    server = bench.start(replace(bench.order, launch={**bench.order.launch, "variables": {"HF_HUB_OFFLINE": "0"}}))
    assert server.status == "failed"
    assert [str(reason) for reason in server.reasons] == [
        "HF_HUB_OFFLINE (environment): knob not in force (found 1; expected 0)"
    ]
