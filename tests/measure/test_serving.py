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
from rungproof.measure.serving import lock
from rungproof.measure.workloads.canary import run_canary
from rungproof.records.codec import read
from rungproof.records.environment import Environment
from rungproof.records.errors import ServerError
from rungproof.records.formats import Server

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="servers are owned by means of /proc"),
    pytest.mark.timeout(600),
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
    env = read(Environment, bench.folder / "env.json")
    assert (env.boot, env.session) == (server.boot, server.session)
    assert env.after is not None
    assert env.before["kernel"] == env.after["kernel"]
    assert env.before["variables"].value == server.environment["variables"]
    assert env.before["python_packages"].value["requests"].startswith(server.identity["packages"]["requests"])
    assert env.before["compile_caches"].value["files"] == 0
    assert env.sampled["memory.available_kb"].n >= 1
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
        ({"do": "http_500"}, "no completion", "HTTP 500"),
    ],
)
def test_a_server_that_does_not_become_ready_is_reported_with_its_cause(
    bench: Bench, fault: dict[str, Any], what: str, found: str
) -> None:
    """A start that fails ends in a failed record that says why, a closed session and a free host. A server whose health is
    good and whose engine is dead is not ready: a completion decides."""
    bench.fault(**fault)
    order = replace(bench.order, ready_deadline_s=1.0) if fault["do"] == "never_ready" else bench.order
    server = bench.start(order)
    assert server.status == "failed"
    assert server.reasons[0].what == what
    assert found in server.reasons[0].found
    assert server.ready_s is None
    closed = bench.closed()
    assert not closed.sound
    assert what in whats(closed)
    assert Path(bench.order.lock).read_bytes() == b""


def test_a_server_that_hangs_at_its_first_completion_is_not_ready(bench: Bench) -> None:
    """The record says how far it came: it listens, it names its model, and the completion that decides has no answer."""
    bench.fault(do="hang", after_tokens=0)
    for attempt in range(
        7
    ):  # a deadline that had passed before the server was up tells nothing: the next one is longer
        bench.folder = bench.root / f"r{attempt:03d}.base.a"
        order = replace(bench.order, session=bench.folder.name, ready_deadline_s=2.0 * 2**attempt)
        server = bench.start(order)
        closed = bench.closed()
        assert (server.status, server.ready_s, server.reasons[0].what) == ("failed", None, "not ready in time")
        if "/v1/models answered" in server.reasons[0].found:
            break
    assert "it listens; /v1/models answered; /v1/completions: no answer after " in server.reasons[0].found
    assert not closed.sound
    assert "not ready in time" in whats(closed)
    assert Path(bench.order.lock).read_bytes() == b""


def test_a_fault_line_ends_the_wait_long_before_the_deadline(bench: Bench) -> None:
    """With a fault in its log a server is given up at once, not after the deadline."""
    bench.fault(do="fault_line")
    began = time.monotonic()
    server = bench.start(replace(bench.asking(start_s=300), ready_deadline_s=300.0))
    assert server.status == "failed"
    assert time.monotonic() - began < 120


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


def census(bench: Bench, **demand: str) -> Any:
    """The order with one demand on the server's log."""
    return replace(bench.order, launch={**bench.order.launch, "census": {"line": demand}})


def test_a_census_line_that_is_missing_makes_the_session_invalid(bench: Bench) -> None:
    """A line that the lane demands and the server never wrote fails the session, with what was asked and what was found."""
    server = bench.start(census(bench, appears="Using (\\w+) for mixed-precision linear", value="CPUWNA16LinearKernel"))
    assert server.status == "failed"
    assert [str(reason) for reason in server.reasons] == [
        "census line (log: census): knob not in force (found nothing; expected CPUWNA16LinearKernel)"
    ]


def test_a_census_line_is_recorded_with_what_it_captured(bench: Bench) -> None:
    """What the server's own line says stands in the record of the server."""
    server = bench.start(census(bench, appears=r"on http://([\d.]+):"))
    assert server.status == "ready"
    assert [knob.found for knob in server.knobs if knob.source == "log: census"] == ["127.0.0.1"]


def test_a_line_that_must_not_appear_is_looked_for_until_the_end(bench: Bench) -> None:
    """A server that falls back while it is measured was not the one asked for, although it began well."""
    server = bench.start(census(bench, absent="fell back"))
    assert server.status == "ready"
    for when in ("before", "after"):
        assert run_canary(bench.folder, when, "job").status == "passed"  # type: ignore[arg-type]
    with (bench.folder / "logs/server.log").open("a") as log:
        log.write("layer 3 fell back\n")
    closed = serving.stop(bench.folder)
    assert not closed.sound
    assert [(r.what, r.found) for r in closed.reasons] == [("knob not in force", "fell back")]


def test_two_arms_that_are_one_server_are_refused(bench: Bench) -> None:
    """An arm whose running server has the configuration of another arm of the plan measures nothing: it is refused and named."""
    first = bench.start()
    serving.stop(bench.folder)
    again = replace(
        bench.order, session="r001.twin.a", arm="twin", launch_sha256="1" * 64, rivals=(first.launch_sha256,)
    )
    twin = serving.start(bench.root / "r001.twin.a", again)
    serving.stop(bench.root / "r001.twin.a")
    assert twin.status == "failed"
    assert "the same as arm base (session r001.base.a)" in twin.reasons[0].found
    stranger = replace(again, session="r002.twin.a", rivals=("2" * 64,))  # a session of a plan that is no more
    assert serving.start(bench.root / "r002.twin.a", stranger).status == "ready"
    serving.stop(bench.root / "r002.twin.a")


def test_a_host_that_is_not_as_its_profile_demands_is_not_measured(bench: Bench) -> None:
    """A demand of the host profile is held against what is read back, and each fact that differs is named."""
    server = bench.start(replace(bench.order, expect={"kernel": "none of this world", "gpu7.power_limit_w": 150}))
    assert server.status == "failed"
    assert {r.what for r in server.reasons} == {"host is not as its profile demands"}
    assert {r.where: r.found for r in server.reasons} == {
        "gpu7.power_limit_w": "nothing",
        "kernel": server.environment["kernel"],
    }


def test_secrets_of_the_caller_reach_no_record(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks like a secret in the caller's environment stands in no file of a session, by name or by value."""
    planted = {
        "VLLM_API_KEY": "planted-hunter2",
        "HF_TOKEN": "hf_plantedplanted",
        "CUDA_NOTE": "sk-planted-12345678",
        "NVIDIA_X": "https://u:planted@h",
    }
    for name, value in planted.items():
        monkeypatch.setenv(name, value)
    assert bench.start().status == "ready"
    serving.stop(bench.folder)
    files = [path for path in bench.folder.rglob("*") if path.is_file()]
    assert {"env.json", "server.json", "closed.json"} <= {path.name for path in files}
    for path in files:
        assert b"planted" not in path.read_bytes(), path


def test_a_fault_while_it_runs_ends_the_session_at_once(bench: Bench) -> None:
    """A server that goes on to answer after its engine has failed is not measured any further."""
    bench.start()
    with (bench.folder / "logs/server.log").open("a") as log:
        log.write("FAULT: the engine died, health is fine\n")
    closed = bench.closed()  # nobody asks for it: without the watch it would stay open
    assert (closed.by, closed.sound) == ("supervisor", False)
    assert (closed.reasons[0].what, closed.reasons[0].found) == (
        "fault line in the log",
        "FAULT: the engine died, health is fine",
    )


def test_a_host_profile_that_names_a_device_which_is_not_there(bench: Bench) -> None:
    """Nothing is started for a device that the machine has not got."""
    server = bench.start(replace(bench.order, devices=("gpu77",)))
    assert (server.status, server.pid) == ("failed", None)
    assert (server.reasons[0].what, server.reasons[0].expected) == ("device is not there", "gpu77")


def test_a_kernel_log_that_cannot_be_watched_as_asked_starts_nothing(bench: Bench) -> None:
    """A pattern that is none is told; where the log may be read, a quiet kernel lets the server start."""
    server = bench.start(replace(bench.order, kernel_fault_lines=("(",)))
    assert server.reasons[0].what == "fault line is no regular expression"
    other = replace(bench.order, session="r002.base.a", kernel_fault_lines=("no kernel ever wrote this",))
    second = serving.start(bench.root / "r002.base.a", other)
    serving.stop(bench.root / "r002.base.a")
    assert second.status == "ready" or second.reasons[0].what == "kernel log cannot be read"


def test_a_latched_host_refuses_to_start(bench: Bench) -> None:
    """After an unclean end no server is started, and the refusal says what to do."""
    lock.latch(Path(bench.order.lock), "r000.base.a", ["python (7), still running after SIGKILL"])
    server = bench.start()
    assert (server.status, server.pid) == ("failed", None)
    assert "rungproof host clear" in server.reasons[0].found
    lock.unlatch(Path(bench.order.lock))
