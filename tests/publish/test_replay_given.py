"""Replaying a plan whose model and environment are its publisher's own: asked for by what they are, never by where they lay."""

import shutil
from pathlib import Path

import pytest
import yaml

from campaigns.checkout import LADDER
from cli.kit import ROOT
from measure.given_folders import checkpoint, virtual_environment
from rungproof.cli import main
from rungproof.config.load import files_of, load
from rungproof.plan.resolve import resolve
from rungproof.publish.replay.folder import folder_of, prepare
from rungproof.records.codec import canonical
from rungproof.records.errors import ConfigError, HostError

FLAGS = frozenset({"avx512f", "avx512bw", "avx512vl", "avx512_bf16"})


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A checkpoint's folder."""
    return checkpoint(tmp_path / "weights of mine")


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """An environment with one package."""
    return virtual_environment(tmp_path / "venv", "vllm")


def checkout(folder: Path) -> Path:
    """As much of a checkout as a replay copies."""
    for name in ("config", "envs"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "workflow").mkdir()
    (folder / "profiles").mkdir()
    (folder / "Snakefile").write_text("")
    return folder


@pytest.fixture
def pack(tmp_path: Path, weights: Path, venv: Path) -> Path:
    """What a replay reads of a pack: plan, manifest, and the configuration that the plan follows from."""
    root = checkout(tmp_path / "publisher")
    lane = yaml.safe_load((root / "config/lanes/smollm2-bf16.yaml").read_text())
    (root / "config/lanes/mine.yaml").write_text(yaml.safe_dump(lane | {"model": "mine", "environment": "own"}))
    campaign = {**LADDER, "host": "cpu", "arms": {"base": {"title": "b", "lane": "mine"}}}
    (root / "config/campaigns/mine.yaml").write_text(yaml.safe_dump(campaign))
    words = ("--licence", "MIT", "--quantisation", "int4", "--upstream", "https://lab.example/mine")
    assert main(["model", "add", "mine", str(weights), *words, "--root", str(root)]) == 0
    assert main(["env", "add", "own", str(venv), "--root", str(root)]) == 0
    loaded = load(root, "mine")
    made = tmp_path / "pack"
    for path in files_of(loaded):
        (made / "plan/inputs" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / path, made / "plan/inputs" / path)
    (made / "plan.json").write_bytes(canonical(resolve(loaded, FLAGS)))
    (made / "MANIFEST.sha256").write_text("a manifest\n")
    return made


def test_a_replay_asks_for_what_the_plan_names(tmp_path: Path, pack: Path, weights: Path, venv: Path) -> None:
    """Nothing is started before both lie here; the calls that it tells show them, against the pack's own lists."""
    root, build = checkout(tmp_path / "other machine"), tmp_path / "a build"
    with pytest.raises(HostError, match="lies on its publisher's machine") as caught:
        prepare(pack, root, None, build, FLAGS)
    home = folder_of(pack, root)
    where = f"FOLDER --root '{home}' --build '{build}'"
    assert f"rungproof model add mine {where} Its files can be had from: https://lab.example/mine" in str(caught.value)
    assert f"rungproof env add own {where}" in str(caught.value)
    assert main(["model", "add", "mine", str(weights), "--root", str(home), "--build", str(build)]) == 0
    assert main(["env", "add", "own", str(venv), "--root", str(home), "--build", str(build)]) == 0
    assert prepare(pack, root, None, build, FLAGS).plan.arms[0].model == "mine"


def test_a_checkout_that_pins_an_environment_of_that_name_in_another_way(
    tmp_path: Path, pack: Path, venv: Path
) -> None:
    """The pack's list counts, not a lock of this checkout that has its name by chance; and the other way round."""
    root = checkout(tmp_path / "other")
    (root / "envs/own.lock").write_text("torch==1 --hash=sha256:0\n")
    with pytest.raises(HostError, match="env add own"):
        prepare(pack, root, None, tmp_path / "build", FLAGS)
    assert (root / "envs/own.lock").exists()
    (pack / "plan/inputs/envs/own.packages").rename(pack / "plan/inputs/envs/own.lock")
    (root / "envs/own.packages").write_text("")
    with pytest.raises(ConfigError, match="environment_sha256"):
        prepare(pack, root, None, tmp_path / "build", FLAGS)


@pytest.mark.parametrize(
    ("path", "old", "new", "told"),
    [
        ("config/models/mine.sha256", "  config.json", "  ../../../../etc/passwd", "below the model's folder"),
        ("config/models/mine.sha256", "  config.json", "  other.json", "list of its files is another one"),
        ("config/models/mine.yaml", "config/models/mine.sha256", "config/models/../../../../etc/passwd", "pattern"),
        ("config/models/mine.yaml", "config/models/mine.sha256", "config/models/..", "cannot be read"),
        ("envs/own.packages", "vllm 1.0", "vllm 1.1", "The lock or list"),
    ],
)
def test_a_pack_with_another_list_is_refused(
    tmp_path: Path, pack: Path, path: str, old: str, new: str, told: str
) -> None:
    """Told before anything is started, or any path of it is looked at."""
    text = (pack / "plan/inputs" / path).read_text()
    assert old in text
    (pack / "plan/inputs" / path).write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=told):
        prepare(pack, checkout(tmp_path / "other"), None, tmp_path / "build", FLAGS)
