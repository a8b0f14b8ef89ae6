"""`rungproof lane show`: exactly what would be launched, without a path of this machine."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from cli.kit import ROOT
from rungproof.cli import main
from rungproof.config.load import load
from rungproof.measure.serving.engines.engine import render
from rungproof.plan.resolve import resolve

AVX512 = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"})


def shown(capsys: pytest.CaptureFixture[str], *words: str, root: Path = ROOT) -> str:
    """What a call prints."""
    assert main(["lane", "show", *words, "--root", str(root)]) == 0
    return capsys.readouterr().out


def command(text: str) -> list[str]:
    """The words of the command shown, quotes taken away."""
    block = text.split("# Command\n")[1].split("\n\n")[0]
    return [word.strip("'") for line in block.split(" \\\n") for word in line.split()]


def test_a_lane_shows_its_command_environment_and_checks(capsys: pytest.CaptureFixture[str]) -> None:
    """Command with placeholders, the variables asked for and ours, and each argument with where it is looked up again."""
    text = shown(capsys, "smollm2-f32")
    words = command(text)
    assert words[:5] == ["<python>", "-m", "vllm.entrypoints.openai.api_server", "--model", "<model>"]
    assert words[words.index("--port") + 1] == "<port>"
    assert words[words.index("--dtype") + 1] == "float32"
    assert "--no-enable-prefix-caching" in words
    for line in (
        "VLLM_CPU_KVCACHE_SPACE=2",
        "RUNGPROOF_BOOT=<boot>",
        "HF_HUB_OFFLINE=1",
        "VLLM_CACHE_ROOT=<cache>/vllm_cache_root",
    ):
        assert f"\n{line}\n" in text
    (row,) = [line for line in text.splitlines() if line.startswith(" --max-model-len ")]
    assert row.split()[1:] == ["8192", "command", "line", "non-default", "args,", "engine", "config:", "max_seq_len"]
    assert str(ROOT) not in text
    assert str(Path(sys.executable).parent) not in text


@pytest.mark.parametrize("arm", ["w4a16-draft3", "f32-draft3", "bf16", "f32"])
def test_an_arm_shows_what_its_plan_launches(arm: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The arguments are those of the resolved launch, the draft among them, on whatever processor this is read."""
    loaded = load(ROOT, "campaign_v2")
    flags = AVX512 if arm.startswith("w4a16") else frozenset[str]()
    launch = resolve(loaded, flags).arm(arm).launch
    words = command(shown(capsys, loaded.campaign.arms[arm].lane, "--campaign", "campaign_v2", "--arm", arm))
    wanted = render(launch["arguments"])
    assert words[-len(wanted) :] == wanted
    if arm.endswith("draft3"):
        assert json.loads(words[-1])["num_speculative_tokens"] == 3


def test_a_host_changes_the_launch(capsys: pytest.CaptureFixture[str]) -> None:
    """On the simulated host the simulated server is shown with the host's own arguments, with and without a campaign."""
    alone = command(shown(capsys, "smollm2-bf16", "--host", "simulated"))
    arm = command(shown(capsys, "smollm2-bf16", "--campaign", "campaign_v2", "--arm", "bf16", "--host", "simulated"))
    assert alone == arm
    assert alone[:3] == ["<python>", "-m", "rungproof.measure.simulated"]
    assert alone[-4:] == ["--token-ms", "2", "--flip-at-inflight", "2"]


def test_what_is_made_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Environment and model are named by the folder in which a campaign makes them, and whether they are there."""
    for name in ("config", "envs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    text = shown(capsys, "smollm2-f32", root=tmp_path)
    line = next(line for line in text.splitlines() if line.startswith("# <model>: "))
    assert line.endswith("(not made yet; a campaign makes it)")
    folder = tmp_path / line.split()[2]
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    assert f"# <model>: {line.split()[2]} (made)" in shown(capsys, "smollm2-f32", root=tmp_path).splitlines()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nope",), "lanes/ holds smollm2-bf16"), (("smollm2-f32", "--arm", "f32"), "go together"), (("smollm2-f32", "--campaign", "smoke"), "go together"),
        (("smollm2-f32", "--campaign", "campaign_v2", "--arm", "x"), "no arm 'x'; expected one of w4a16"),
        (("smollm2-f32", "--campaign", "campaign_v2", "--arm", "bf16"), "is of lane 'smollm2-bf16'"),
        (("smollm2-f32", "--campaign", "campaign_v2", "--arm", "f32", "--host", "simulated"), "stands in for 'w4a16'"),
    ],
)  # fmt: skip
def test_what_cannot_be_shown_is_told(words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong name says which names there are, exit code 2."""
    assert main(["lane", "show", *words, "--root", str(ROOT)]) == 2
    assert says in capsys.readouterr().err


def test_a_container_lane_shows_the_whole_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Engine, image by digest, mounts, limits, devices and variables stand in the command, then the server's own words; nothing of this machine."""
    for name in ("config", "envs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    image = "sha256:" + "ab" * 32
    path = tmp_path / "config/lanes/smollm2-bf16.yaml"
    path.write_text(
        path.read_text().replace(
            "launcher: process",
            f"launcher: container\ncontainer: {{image: '{image}', python: /opt/py, memory: 8g, devices: [/dev/dri]}}",
        )
    )
    host = tmp_path / "config/hosts/cpu.yaml"
    host.write_text(host.read_text() + "container: {command: [podman], arguments: [--runtime, runc]}\n")
    words = command(shown(capsys, "smollm2-bf16", "--host", "cpu", root=tmp_path))
    assert words[:2] == ["podman", "run"]
    assert words[words.index("--memory") + 1] == "8g"
    assert words[words.index("--device") + 1] == "/dev/dri"
    assert "type=bind,source=<model>,target=/model,readonly" in words
    assert "VLLM_CPU_KVCACHE_SPACE=2" in words
    at = words.index("--entrypoint")
    assert words[at + 1 : at + 6] == ["/opt/py", image, "-m", "vllm.entrypoints.openai.api_server", "--model"]
    assert words[words.index("--model") + 1] == "/model"
    assert words[words.index("--port") + 1] == "<port>"
    text = shown(capsys, "smollm2-bf16", "--campaign", "campaign_v2", "--arm", "bf16", root=tmp_path)
    assert command(text) == words
    assert f"# image: {image}" in text
    (row,) = [line for line in text.splitlines() if line.startswith(" --max-model-len ")]
    assert "container inspect" in row
    assert str(ROOT) not in text


def test_what_is_demanded_of_the_log_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Census lines stand among what is looked up again, with the value that must be captured."""
    text = shown(capsys, "smollm2-w4a16")
    (row,) = [line for line in text.splitlines() if line.startswith(" census kernel ")]
    assert "CPUWNA16LinearKernel" in row
