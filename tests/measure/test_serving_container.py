"""A server in a container: proven from what the engine says of it, ended with everything, and never left behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from measure.serving_bench import Bench, opened, until, whats
from measure.small_image import CODE, HOME, PYTHON, Small, small
from rungproof.measure import serving
from rungproof.measure.serving import Order, procfs
from rungproof.measure.serving.launch import container
from rungproof.measure.workloads.canary import run_canary
from rungproof.records.codec import read
from rungproof.records.environment import Environment

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="servers are owned by means of /proc"),
    pytest.mark.timeout(1200),
]
bench = pytest.fixture(opened)
SERVER = ["{python}", "-m", "rungproof.measure.simulated", "--port", "{port}", "--served-model-name", "{name}"]


@pytest.fixture
def engine(bench: Bench) -> Iterator[Small]:
    """An engine that can start containers here; afterwards none of this test's is left in it, ended ones neither."""
    found = small()
    if isinstance(found, str):
        pytest.skip(found)
    yield found
    assert left(bench, found) == set()


def left(bench: Bench, found: Small) -> set[str]:
    """Names of this test's containers that the engine still knows."""
    noted = {json.loads(path.read_text())["name"] for path in bench.root.rglob("control/container.json")}
    asked = [*found.engine, "ps", "--all", "--format", "{{.Names}}"]
    return noted & set(subprocess.run(asked, capture_output=True, text=True, check=True, timeout=300).stdout.split())


def order(bench: Bench, found: Small, asked: dict[str, Any] | None = None, **launch: Any) -> Order:
    """The bench's order for a container lane of any command."""
    whole = {
        "engine": "command", "launcher": "container", "model": "m", "command": SERVER, "arguments": {"start-s": 0.05, "token-ms": 0.1},
        "variables": {"PYTHONHOME": HOME, "PYTHONPATH": CODE}, "container": {"image": found.image, "python": PYTHON, **(asked or {})}, **launch,
    }  # fmt: skip
    return replace(
        bench.order,
        launch=whole,
        container_engine=found.engine,
        container_arguments=found.extra,
        ready_deadline_s=180.0,
        python="/none/python",
    )


def test_a_container_opens_proves_itself_and_closes_sound(bench: Bench, engine: Small) -> None:
    """Image, network, mount, limits, arguments and variables are found again by asking the engine, and nothing is left after it."""
    model = bench.root / "model"
    model.mkdir()
    (model / "weights").write_text("w")
    asked = replace(order(bench, engine, {"memory": "512m", "shm_size": "16m"}), model_path=str(model))
    server = bench.start(asked)
    assert (server.status, server.reasons) == ("ready", ())
    found = {knob.name: (knob.found, knob.source) for knob in server.knobs}
    assert found == {
        "--start-s": ("0.05", "container inspect"), "--token-ms": ("0.1", "container inspect"), "PYTHONHOME": (HOME, "container inspect"),
        "PYTHONPATH": (CODE, "container inspect"), "image": (engine.image, "container inspect"), "network": ("host", "container inspect"),
        "mount /model": ("read-only", "container inspect"), "container memory": (str(512 * 2**20), "container inspect"),
        "container shm_size": (str(16 * 2**20), "container inspect"),
    }  # fmt: skip
    assert server.identity["image"] == engine.image
    assert server.identity["python"] == sys.version.split()[0]
    assert server.pid is not None
    assert "rungproof.measure.simulated" in " ".join(procfs.command_line(server.pid) or ())
    env = read(Environment, bench.folder / "env.json")
    assert env.before["variable_names"].value.count("IMAGE_SAYS") == 1
    assert not {"USER", "OLDPWD"} & set(env.before["variable_names"].value)
    for when in ("before", "after"):
        assert run_canary(bench.folder, when, "job").status == "passed"  # type: ignore[arg-type]
    closed = serving.stop(bench.folder)
    assert (closed.by, closed.sound, closed.reasons, closed.leftovers) == ("job", True, (), ())
    assert closed.exit == "exit code 0 after SIGTERM"
    assert not (bench.folder / "cache").exists()


def test_a_variable_that_the_container_does_not_have_is_found_out(bench: Bench, engine: Small) -> None:
    """What the host's own arguments overrule is not in force, and the session is refused with asked and found."""
    asked = order(bench, engine, variables={"PYTHONHOME": HOME, "PYTHONPATH": CODE, "IMAGE_SAYS": "bye"})
    server = bench.start(replace(asked, container_arguments=(*engine.extra, "--env", "IMAGE_SAYS=other")))
    serving.stop(bench.folder)
    assert [str(reason) for reason in server.reasons] == [
        "IMAGE_SAYS (container inspect): knob not in force (found other; expected bye)"
    ]


def test_an_image_that_is_not_there_is_never_fetched(bench: Bench, engine: Small) -> None:
    """A digest that this machine does not hold fails the start; nothing is pulled."""
    server = bench.start(order(bench, engine, {"image": "sha256:" + "0" * 64}))
    serving.stop(bench.folder)
    assert (server.status, server.reasons[0].what) == ("failed", "server exited")
    assert server.reasons[0].found.startswith("exit code 125")


def test_the_container_ends_when_the_supervisor_is_killed(bench: Bench, engine: Small) -> None:
    """kill -9 of the supervisor: the container and everything in it are gone, though it ignores SIGTERM."""
    server = bench.start(order(bench, engine, arguments={"start-s": 0.05, "ignore-sigterm": True}))
    assert server.status == "ready", server.reasons
    assert server.pid is not None
    pair = procfs.owner_of(server.pid)
    os.kill(bench.guarded().supervisor[0], signal.SIGKILL)
    closed = serving.stop(bench.folder)
    assert (closed.by, closed.sound) == ("repair", False)
    until(lambda: not procfs.alive(*pair))
    assert left(bench, engine) == set()


def test_a_container_killed_for_memory_says_so(bench: Bench, engine: Small) -> None:
    """A server that takes more than its limit is told as out of memory, with the limit."""
    eater = ["{python}", "-c", "x = [bytearray(2**20) for _ in range(4000)]  # {name} {port}"]
    server = bench.start(order(bench, engine, {"memory": "64m"}, command=eater, arguments={}))
    serving.stop(bench.folder)
    assert whats(server)[0] == "server exited"
    assert "out of memory" in server.reasons[0].found


def test_sizes_and_places_of_a_command_are_those_asked_for(tmp_path: Path) -> None:
    """The whole command line, without an engine: what is asked, what is ours, the image by digest, the server's words after it."""
    asked = {"image": "sha256:ab", "python": "/p", "devices": ["/dev/dri"], "memory": "16g", "shm_size": "8g"}
    words = container.command(
        ["podman"], ["--runtime", "runc"], "n", "s", "b00t", asked, "/data/model", tmp_path, container.inside({"A": "1"}, "b00t"), ["/p", "-m", "x", "/model"],
    )  # fmt: skip
    text = " ".join(words)
    assert words[:2] == ["podman", "run"]
    assert "--mount type=bind,source=/data/model,target=/model,readonly" in text
    assert "--network host --pull never" in text
    assert "--memory 16g --shm-size 8g --device /dev/dri" in text
    assert "--env A=1" in text
    assert "--env RUNGPROOF_BOOT=b00t" in text
    assert "--env VLLM_CACHE_ROOT=/rungproof/cache/vllm_cache_root" in text
    assert "PATH=" not in text
    assert text.endswith("--runtime runc --entrypoint /p sha256:ab -m x /model")
    assert container.moved(["--model", "/data/model/x.gguf"], "/data/model") == ["--model", "/model/x.gguf"]


SHARED = {"NetworkMode": "host", "Memory": 1024, "ShmSize": 1024, "Devices": [{"PathOnHost": "/dev/dri/card0"}]}


@pytest.mark.parametrize(
    ("change", "bad"),
    [
        ({}, []), ({"Image": "cd"}, ["image"]), ({"HostConfig": {"NetworkMode": "bridge", "Memory": 1024, "Devices": [{"PathOnHost": "/dev/dri/card0"}]}}, ["network"]),
        ({"Mounts": [{"Destination": "/model", "Source": "/", "RW": True}]}, ["mount /model"]), ({"Mounts": []}, ["mount /model"]),
        ({"HostConfig": {"NetworkMode": "host", "Memory": 0, "Devices": None}}, ["container memory", "device /dev/dri"]),
        ({"HostConfig": SHARED | {"IpcMode": "private"}}, []), ({"HostConfig": SHARED | {"IpcMode": "host"}}, ["container shm_size"]),
    ],
)  # fmt: skip
def test_what_the_engine_says_otherwise_is_not_in_force(
    change: dict[str, Any], bad: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another image, a bridge, a writable model, a limit or device that was dropped, shared memory that is the host's: each is found by
    asking the engine."""
    monkeypatch.setattr(
        container, "inspect", lambda _engine, _name, kind="container": {"Id": "sha256:ab"} if kind == "image" else {}
    )
    told = {
        "Image": "ab", "HostConfig": {"NetworkMode": "host", "Memory": 1024, "Devices": [{"PathOnHost": "/dev/dri/card0"}]},
        "Mounts": [{"Destination": "/model", "Source": "/", "RW": False}],
    }  # fmt: skip
    asked: dict[str, Any] = {"image": "sha256:ab", "memory": "1k", "devices": ["/dev/dri", "nvidia.com/gpu=0"]}
    asked |= {"shm_size": "1k"} if "ShmSize" in change.get("HostConfig", {}) else {}
    found = container.knobs(["podman"], {**told, **change}, asked, "/")
    assert [knob.name for knob in found if not knob.ok] == bad
    assert len(found) == 5 + ("shm_size" in asked)
