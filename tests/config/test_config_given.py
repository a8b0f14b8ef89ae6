"""Lists of what lies on a machine already: what `sha256sum` prints is read, and nothing that is no such list."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from rungproof.config.given import Installed, files_text, installed_text, read_files, read_installed
from rungproof.config.load import files_of, load, pins_of
from rungproof.config.sections import Model
from rungproof.plan.builds import environment_digest, model_digest
from rungproof.records.codec import digest
from rungproof.records.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
SHA = "a" * 64
MODEL = {"title": "t", "licence": "MIT", "quantisation": "int4"}


def test_a_list_is_what_sha256sum_prints_and_checks(tmp_path: Path) -> None:
    """The coreutils' own list is read, in any order, and ours is one that they check."""
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    for name in ("b.bin", "sub/a.bin"):
        (folder / name).write_text(name)
    by_hand = subprocess.run(
        ["sha256sum", "sub/a.bin", "./b.bin"], cwd=folder, capture_output=True, text=True, check=True
    )
    listed = tmp_path / "list.sha256"
    listed.write_text(by_hand.stdout)
    found = read_files(listed)
    assert found == {name: hashlib.sha256(name.encode()).hexdigest() for name in ("b.bin", "sub/a.bin")}
    listed.write_text(files_text(found, "a model"))
    assert read_files(listed) == found
    grown = [line for line in listed.read_text().splitlines(keepends=True) if not line.startswith("#")]
    listed.write_text("".join(grown))
    assert subprocess.run(["sha256sum", "-c", "--quiet", str(listed)], cwd=folder).returncode == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "lists no file"),
        ("# only words\n", "lists no file"),
        (f"{SHA} weights\n", ":1: found"),
        (f"{SHA[1:]}  weights\n", ":1: found"),
        (f"{SHA}  w\n{SHA}  ./w\n", ":2: 'w' stands twice"),
        (f"{SHA}  ../w\n", "below the model's folder"),
        (f"{SHA}  /etc/passwd\n", "below the model's folder"),
        (f"{SHA}  a\\b\n", "below the model's folder"),
        (f"{SHA}  a\x7f\n", "below the model's folder"),
    ],
)
def test_a_list_that_is_none_is_refused(tmp_path: Path, text: str, told: str) -> None:
    """Each mistake is told with its line."""
    path = tmp_path / "list"
    path.write_text(text)
    with pytest.raises(ConfigError, match=told):
        read_files(path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "names no interpreter"),
        ("python 3.12.3\n", "names no interpreter or no package"),
        (f"torch 2.0 sha256:{SHA}\n", "names no interpreter"),
        (f"python 3.12.3\ntorch 2.0 sha256:{SHA}\ntorch 2.0 sha256:{SHA}\n", ":3: found"),
        (f"python 3.12.3\ntorch 2.0 {SHA}\n", ":2: found"),
    ],
)
def test_a_list_of_packages_that_is_none_is_refused(tmp_path: Path, text: str, told: str) -> None:
    """Each mistake is told with its line."""
    path = tmp_path / "x.packages"
    path.write_text(text)
    with pytest.raises(ConfigError, match=told):
        read_installed(path)


def test_every_list_that_is_written_can_be_read(tmp_path: Path) -> None:
    """Letters that end a line elsewhere, spaces, line ends of another system; what the list cannot hold is not written."""
    named = {"a\u2028b": SHA, "c\x85d": SHA, " e  f ": SHA, "#g": SHA}
    path = tmp_path / "list"
    path.write_text(files_text(named, "a model"), encoding="utf-8")
    assert read_files(path) == named
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert read_files(path) == named
    for name in ("a\udcff", "a\nb", "a\rb"):
        with pytest.raises(ConfigError, match="in UTF-8"):
            files_text({name: SHA}, "a model")
    with pytest.raises(ConfigError, match="one model alone"):
        files_text({f"{i:0200}": SHA for i in range(70_000)}, "too much")
    for package, version in (("~orch", "1.0"), ("torch", "1 0")):
        with pytest.raises(ConfigError, match="remove it"):
            installed_text(Installed("3.12.3", {package: f"{version} sha256:{SHA}"}))


def test_an_environment_s_digest_is_of_what_is_installed(tmp_path: Path) -> None:
    """Comments and order of the list do not name another environment; a version does."""
    one = Installed("3.12.3", {"a": f"1 sha256:{SHA}", "b": "2 no RECORD"})
    (tmp_path / "envs").mkdir()
    path = tmp_path / "envs/mine.packages"
    path.write_text(installed_text(one))
    assert read_installed(path) == one
    path.write_text(f"python 3.12.3\n# words\nb 2 no RECORD\na 1 sha256:{SHA}\n")
    assert environment_digest(tmp_path, "mine") == one.digest
    path.write_text(f"python 3.12.3\nb 2 no RECORD\na 1.1 sha256:{SHA}\n")
    assert environment_digest(tmp_path, "mine") != one.digest


def test_an_environment_with_a_lock_and_a_list_is_refused(tmp_path: Path) -> None:
    """Nothing would say which of the two serves."""
    (tmp_path / "envs").mkdir()
    for name in ("mine.lock", "mine.packages"):
        (tmp_path / "envs" / name).write_text("x")
    with pytest.raises(ConfigError, match="one of the two"):
        pins_of(tmp_path, "mine")


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({}, "either `recipe`"),
        ({"recipe": "w4a16", "source": "x", "files": "config/models/x.sha256"}, "either `recipe`"),
        ({"recipe": "w4a16"}, "either `source`"),
        ({"files": "config/models/x.sha256", "source": "x"}, "go with `recipe`"),
        ({"files": "../x.sha256"}, "pattern"),
        ({"recipe": "w4a16", "source": "x", "upstream": "there"}, "`upstream` goes with"),
    ],
)
def test_a_model_is_made_or_given(keys: dict[str, str], told: str) -> None:
    """One of the two, whole."""
    with pytest.raises(ValueError, match=told):
        Model(**MODEL, **keys)  # type: ignore[arg-type]


def test_a_copy_of_the_listed_configuration_gives_the_same_digests(tmp_path: Path) -> None:
    """A pack carries the lists, since a plan follows from them; a model is named by the digest of its files."""
    root = tmp_path
    for name in ("config", "envs"):
        shutil.copytree(ROOT / name, root / name)
    (root / "config/models/own.yaml").write_text(yaml.safe_dump({**MODEL, "files": "config/models/own.sha256"}))
    (root / "config/models/own.sha256").write_text(f"{SHA}  model.safetensors\n")
    (root / "envs/own.packages").write_text(f"python 3.12.3\nvllm 1 sha256:{SHA}\n")
    lane = root / "config/lanes/smollm2-w4a16.yaml"
    lane.write_text(yaml.safe_dump(yaml.safe_load(lane.read_text()) | {"model": "own", "environment": "own"}))
    loaded = load(root, "smoke")
    assert model_digest(root, loaded.models, "own") == digest({"model.safetensors": SHA})
    named = {path.as_posix() for path in files_of(loaded)}
    assert {"config/models/own.yaml", "config/models/own.sha256", "envs/own.packages"} <= named
    assert "envs/own.lock" not in named
