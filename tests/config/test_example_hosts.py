"""The example hosts for cards: refused until their image is filled in, a whole plan then, and fault lines that match faults alone."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from rungproof.config.load import campaign_names, load
from rungproof.plan.resolve import resolve
from rungproof.records.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
IMAGE = f"some/vllm@sha256:{'a' * 64}"
# As the drivers wrote them in public reports.
FAULTS = {
    "xpu": (
        "xe 0000:03:00.0: [drm] Tile0: GT0: Timedout job: seqno=98, lrc_seqno=98, guc_id=28, flags=0x0 in VLLM::Worker [4242]",
        "xe 0000:03:00.0: [drm] Tile0: GT0: Engine reset: engine_class=ccs, logical_mask: 0x1, guc_id=28",
        "xe 0000:03:00.0: [drm] Tile0: GT0: trying reset from guc_exec_queue_timedout_job [xe]",
        "xe 0000:03:00.0: [drm] *ERROR* Tile0: GT0: reset failed (-ETIMEDOUT)",
        "xe 0000:03:00.0: [drm] Tile0: GT0: Fault response: Unsuccessful -ENOENT",
        "xe 0000:00:02.0: [drm] *ERROR* CRITICAL: Xe has declared device 0000:00:02.0 as wedged.",
        "xe 0000:00:02.0: [drm] Xe device coredump has been created",
        "i915 0000:00:02.0: [drm] GPU HANG: ecode 12:1:0020fffe, in python [1676]",
        "i915 0000:00:02.0: [drm] Resetting chip for GuC failed to reset engine mask=0x1",
    ),
    "cuda": (
        "NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:01:00): 31, pid=4242, name=python3, Ch 00000008",
        "NVRM: GPU at PCI:0000:01:00 has fallen off the bus.",
    ),
}
HARMLESS = {
    "xpu": (
        "xe 0000:03:00.0: [drm] Using GuC firmware from xe/bmg_guc_70.bin version 70.58.0",
        "xe 0000:03:00.0: [drm] Tile0: GT0: Using HuC firmware from xe/bmg_huc.bin version 8.2.10",
        "i915 0000:00:02.0: [drm] GuC submission enabled",
        "usb 1-1: reset high-speed USB device number 2 using xhci_hcd",
    ),
    "cuda": ("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05", "nvidia-uvm: Loaded the UVM driver"),
}


def host(name: str) -> dict[str, Any]:
    """The profile as it lies there."""
    return dict(yaml.safe_load((ROOT / f"config/hosts/{name}.yaml").read_text(encoding="utf-8")))


@pytest.fixture(params=["xpu", "cuda"])
def name(request: pytest.FixtureRequest) -> str:
    """One of the example hosts."""
    return str(request.param)


def test_an_image_that_is_not_filled_in_is_told_with_what_to_do(tmp_path: Path, name: str) -> None:
    """File, key, what stands there and the command that prints what must. As it ships, it disturbs no other campaign."""
    assert f"first_{name}" not in campaign_names(ROOT)
    with pytest.raises(ConfigError) as refused:
        load(filled(tmp_path, name, "FILL-IN"), f"first_{name}")
    words = str(refused.value)
    assert f"config/lanes/smollm2-bf16-{name}.yaml: container.image: found 'FILL-IN'" in words
    assert "docker image inspect --format '{{index .RepoDigests 0}}'" in words


@pytest.mark.parametrize("image", ["some/vllm:latest", "some/vllm", f"sha256:{'a' * 63}", f"{IMAGE} "])
def test_a_tag_is_no_digest(tmp_path: Path, image: str) -> None:
    """A tag can move between two servers of one campaign."""
    with pytest.raises(ConfigError, match="named by its digest"):
        load(filled(tmp_path, "xpu", image), "first_xpu")


def test_with_its_image_it_is_a_whole_plan(tmp_path: Path, name: str) -> None:
    """Two servers of the base arm and one with drafts, in containers, with a device, limits, a census line and watched logs."""
    plan = resolve(load(filled(tmp_path, name, IMAGE), f"first_{name}"), frozenset())
    launch = plan.arms[0].launch
    assert (launch["launcher"], launch["container"]["image"], launch["container"]["memory"]) == (
        "container",
        IMAGE,
        "32g",
    )
    assert launch["container"]["devices"] == {"xpu": ["/dev/dri"], "cuda": ["nvidia.com/gpu=0"]}[name]
    assert launch["census"]["device"]["value"] == name
    assert (plan.limits["devices"], plan.limits["container"]["command"]) == (["gpu0"], ["docker"])
    assert plan.seats == ("base.a", "base.b", "draft3.a")
    assert plan.limits["kernel_fault_lines"] == host(name)["kernel_fault_lines"]


def test_fault_lines_match_faults_alone(name: str) -> None:
    """Each line of a fault is caught by one pattern at least, and no line of a sound start by any."""
    patterns = [re.compile(pattern) for pattern in host(name)["kernel_fault_lines"]]
    assert [line for line in FAULTS[name] if not any(one.search(line) for one in patterns)] == []
    assert [line for line in HARMLESS[name] if any(one.search(line) for one in patterns)] == []


def filled(to: Path, name: str, image: str) -> Path:
    """A copy of the configuration with the example campaign in its place, in which the lane names this image."""
    shutil.copytree(ROOT / "config", to / "config")
    shutil.copy(to / f"config/campaigns/examples/first_{name}.yaml", to / "config/campaigns")
    (to / "envs").symlink_to(ROOT / "envs")
    path = to / f"config/lanes/smollm2-bf16-{name}.yaml"
    lane = yaml.safe_load(path.read_text(encoding="utf-8"))
    lane["container"]["image"] = image
    path.write_text(yaml.safe_dump(lane), encoding="utf-8")
    return to


def test_the_example_of_an_environment_that_one_has(tmp_path: Path) -> None:
    """It is refused with the command that describes the environment, and then is a whole plan: oracle and drafts on one model runner,
    a ceiling for the rates, the quantised lane's kernel asked of its log."""
    for folder in ("config", "envs"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(tmp_path / "config/campaigns/examples/h200.yaml", tmp_path / "config/campaigns/h200.yaml")
    loaded = load(tmp_path, "h200")
    with pytest.raises(ConfigError, match=r"vllm-cuda\.lock.*rungproof env add"):
        resolve(loaded, frozenset())
    (tmp_path / "envs/vllm-cuda.packages").write_text(f"python 3.12.3\nvllm 0.25.1 sha256:{'a' * 64}\n")
    plan = resolve(loaded, frozenset())
    assert [seat for seat in plan.seats if seat.startswith("w4a16")] == ["w4a16.a", "w4a16.b", "w4a16-draft3.a"]
    assert {arm.launch["variables"]["VLLM_USE_V2_MODEL_RUNNER"] for arm in plan.arms} == {"0"}
    assert "kernel" in plan.arm("w4a16").launch["census"]
    assert plan.limits["peak"]["flops"] == 989e12
    assert plan.limits["devices"] == ["gpu0"]
