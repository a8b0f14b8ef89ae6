"""`rungproof model add` and `rungproof env add`, as a user calls them."""

import shutil
from pathlib import Path

import pytest
import yaml

from campaigns.checkout import LADDER
from cli.kit import ROOT
from measure.given_folders import checkpoint, install, virtual_environment
from rungproof.cli import main
from rungproof.cli.doctor import examined
from rungproof.config.sections import Model
from rungproof.plan.builds import build_folder, environment_digest, is_made, model_digest

WORDS = ("--licence", "MIT", "--quantisation", "int4")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with one real campaign whose lane takes a model and an environment of the user's own."""
    one = tmp_path / "checkout"
    for name in ("config", "envs"):
        shutil.copytree(ROOT / name, one / name)
    lane = yaml.safe_load((one / "config/lanes/smollm2-bf16.yaml").read_text()) | {
        "model": "mine",
        "environment": "own",
    }
    (one / "config/lanes/mine.yaml").write_text(yaml.safe_dump(lane))
    arms = {"base": {"title": "b", "lane": "mine"}}
    campaign = {**LADDER, "host": "cpu", "arms": arms}
    (one / "config/campaigns/mine.yaml").write_text(yaml.safe_dump(campaign))
    return one


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A checkpoint's folder."""
    return checkpoint(tmp_path / "My-Model-int4")


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """An environment with one package."""
    return virtual_environment(tmp_path / "venv", "vllm")


def added(root: Path, *words: str) -> int:
    return main([words[0], "add", *words[1:], "--root", str(root)])


def test_a_model_and_an_environment_are_described_once_and_then_only_checked(
    root: Path, weights: Path, venv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Described, linked under the names that a plan looks for; a second machine with the same files only places them."""
    assert added(root, "model", "mine", str(weights), *WORDS, "--upstream", "https://lab.example/mine") == 0
    assert added(root, "env", "own", str(venv)) == 0
    section = Model(**yaml.safe_load((root / "config/models/mine.yaml").read_text()))
    assert (section.title, section.files, section.upstream) == (
        "My-Model-int4", "config/models/mine.sha256", "https://lab.example/mine",
    )  # fmt: skip
    model = Path(build_folder(str(root / "build"), "models", "mine", model_digest(root, {"mine": section}, "mine")))
    environment = Path(build_folder(str(root / "build"), "envs", "own", environment_digest(root, "own")))
    assert is_made(model)
    assert is_made(environment)
    assert (model.resolve(), environment.resolve()) == (weights, venv)
    assert "version control" in capsys.readouterr().out
    described = {path: path.read_bytes() for path in (*root.glob("config/models/mine*"), root / "envs/own.packages")}
    shutil.rmtree(root / "build")
    assert added(root, "model", "mine", str(weights)) == added(root, "env", "own", str(venv)) == 0
    assert is_made(model)
    assert is_made(environment)
    assert {path: path.read_bytes() for path in described} == described
    (weights / "model.safetensors").write_text("other")
    assert added(root, "model", "mine", str(weights)) == 4
    assert "model.safetensors: found" in capsys.readouterr().err


def test_what_cannot_be_added_is_told(
    root: Path, weights: Path, venv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name that is none, no licence, no checkout, a name that is taken by what is made; nothing is written then."""
    before = sorted(path for path in root.rglob("*"))
    assert added(root, "model", "No Name", str(weights), *WORDS) == 2
    assert added(root, "model", "mine", str(weights), "--licence", "MIT") == 2
    assert "--quantisation" in capsys.readouterr().err
    assert added(root, "model", "smollm2-135m-bf16", str(weights), *WORDS) == 2
    assert added(root, "env", "vllm-cpu", str(venv)) == 2
    assert "made from a lock" in capsys.readouterr().err
    assert added(root.parent, "env", "own", str(venv)) == 2
    assert added(root, "model", "mine", "~nobody-of-that-name/x", *WORDS) == 2
    assert added(root, "model", "mine", "/" + "x" * 300, *WORDS) == 5
    assert added(root, "model", "mine", str(weights), *WORDS, "--build", str(weights / "config.json")) == 3
    assert added(root, "env", "own", str(venv), "--build", str(weights / "config.json")) == 3
    assert sorted(path for path in root.rglob("*")) == before


def test_a_list_of_another_model_is_not_written_over(root: Path, weights: Path) -> None:
    """A section may name a list of any name; the same list is what a cut call left."""
    kept = root / "config/models/mine.sha256"
    kept.write_text("another's\n")
    assert added(root, "model", "mine", str(weights), *WORDS) == 2
    assert kept.read_text() == "another's\n"
    kept.unlink()
    assert added(root, "model", "mine", str(weights), *WORDS) == 0
    (root / "config/models/mine.yaml").unlink()
    assert added(root, "model", "mine", str(weights), *WORDS) == 0


def test_the_title_is_a_folder_s_name(root: Path, weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the folder was named by two dots."""
    (weights / "sub").mkdir()
    monkeypatch.chdir(weights / "sub")
    assert added(root, "model", "mine", "..", *WORDS) == 0
    assert yaml.safe_load((root / "config/models/mine.yaml").read_text())["title"] == weights.name


def test_a_package_without_a_record_is_told(root: Path, venv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing says which files it has, so a change of them is not seen."""
    (install(venv, "bare", "1.0") / "RECORD").unlink()
    assert added(root, "env", "own", str(venv)) == 0
    assert "only their versions are checked: bare." in capsys.readouterr().err


def test_a_model_that_nobody_described_is_told_with_the_command(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A lane may be written first, as `lane from-command` does."""
    assert main(["plan", "mine", "--root", str(root)]) == 2
    assert "`rungproof model add mine FOLDER`" in capsys.readouterr().err


def test_the_doctor_names_what_was_not_shown(root: Path, weights: Path, venv: Path) -> None:
    """Both are lacking with the command that shows them, then only what is not added yet."""
    added(root, "model", "mine", str(weights), *WORDS)
    added(root, "env", "own", str(venv))
    shutil.rmtree(root / "build")
    lacking = {check.name: check for check in examined(root, "mine", "")[0] if check.state == "fail"}
    assert "rungproof model add mine FOLDER" in lacking["model mine"].fix
    assert "rungproof env add own FOLDER" in lacking["environment own"].fix
    added(root, "env", "own", str(venv))
    lacking = {check.name: check for check in examined(root, "mine", "")[0] if check.state == "fail"}
    assert "environment own" not in lacking
    assert "model mine" in lacking
