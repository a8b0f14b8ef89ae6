"""Models and environments of the user's own: described by hashes, checked each time, never written to."""

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from measure.given_folders import install, virtual_environment
from rungproof.measure.models import checkpoints, given
from rungproof.plan.builds import is_made
from rungproof.records.codec import digest
from rungproof.records.errors import EvidenceError, HostError, SetupError


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder of weights as a download tool leaves it."""
    folder = tmp_path / "models of mine/my model"
    for name in (
        "config.json",
        "model-1.safetensors",
        "tokenizer.json",
        "sub/extra.bin",
        ".cache/state",
        "manifest.json",
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A virtual environment with one package."""
    return virtual_environment(tmp_path / "venv", "served")


def test_a_placed_model_is_a_link_with_its_manifest_beside_it(tmp_path: Path, model: Path) -> None:
    """Nothing is written into the user's folder, hidden files do not count, and a file called manifest.json is one of theirs."""
    before = sorted(model.rglob("*"))
    listed = given.model_files(model)
    assert sorted(listed) == ["config.json", "manifest.json", "model-1.safetensors", "sub/extra.bin", "tokenizer.json"]
    to = tmp_path / "build/models/own-0123456789ab"
    given.place_model("own", listed, model, to)
    assert sorted(model.rglob("*")) == before
    assert to.resolve() == model
    assert is_made(to)
    assert checkpoints.verify_files(to) == digest(listed)
    manifest = checkpoints.read_manifest(to)
    assert (manifest["name"], manifest["recipe"], manifest["recipe_sha256"]) == ("own", "files", digest(listed))
    assert str(tmp_path) not in json.dumps(manifest)
    given.place_model("own", listed, to.resolve(), to)  # again, as a job does it
    assert to.resolve() == model


@pytest.mark.parametrize("change", ["altered", "gone", "more"])
def test_a_model_that_was_changed_is_no_longer_taken(tmp_path: Path, model: Path, change: str) -> None:
    """A weight that was altered, taken away or put beside: told by name before a server starts, and placed no more."""
    listed = given.model_files(model)
    to = tmp_path / "build/models/own-0123456789ab"
    given.place_model("own", listed, model, to)
    path = model / {"altered": "sub/extra.bin", "gone": "tokenizer.json", "more": "adapter_config.json"}[change]
    if change == "gone":
        path.unlink()
    else:
        path.write_text("other")
    with pytest.raises(EvidenceError, match=rf"{path.name}: found .*; expected .*no longer the model"):
        checkpoints.verify_files(to)
    with pytest.raises(EvidenceError, match=f"{path.name}: found"):
        given.place_model("own", listed, model, to)


def test_a_folder_that_no_engine_could_load_is_refused(tmp_path: Path, model: Path) -> None:
    """No folder, no model in it, a link to another folder, something that is no file."""
    with pytest.raises(SetupError, match="no such folder"):
        given.model_files(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SetupError, match=r"neither config\.json nor"):
        given.model_files(tmp_path / "empty")
    (model / "more").symlink_to(tmp_path)
    with pytest.raises(SetupError, match="link to a folder"):
        given.model_files(model)


def test_a_snapshot_of_links_is_hashed_through_them_and_told(tmp_path: Path, model: Path) -> None:
    """Download tools keep the files elsewhere and link to them; a container that gets the folder alone would not see those."""
    (tmp_path / "blob").write_text("weights")
    (model / "model-2.safetensors").symlink_to(tmp_path / "blob")
    listed = given.model_files(model)
    assert listed["model-2.safetensors"] == hashlib.sha256(b"weights").hexdigest()
    assert given.outside(model, listed) == ["model-2.safetensors"]


def test_an_environment_is_described_and_checked_before_each_server(tmp_path: Path, environment: Path) -> None:
    """A package that changed, came or went is told by name."""
    listed = given.installed(environment)
    assert listed.python == sys.version.split()[0]
    assert listed.packages["served"].startswith("1.0 sha256:")
    to = tmp_path / "build/envs/own-0123456789ab"
    given.place_environment("own", listed, environment, to)
    assert is_made(to)
    given.check_environment(to, listed.digest)
    install(environment, "served", "1.0", "served.py,sha256=y,1\n")
    with pytest.raises(EvidenceError, match=r"served: found 1\.0 sha256:"):
        given.check_environment(to, listed.digest)
    install(environment, "served", "1.0")
    given.check_environment(to, listed.digest)
    install(environment, "more", "2.0")
    with pytest.raises(EvidenceError, match=r"more: found 2\.0 .*; expected not a package"):
        given.check_environment(to, listed.digest)
    with pytest.raises(EvidenceError, match="more: found"):
        given.place_environment("own", listed, environment, to)


def test_packages_of_an_environment_that_takes_in_another_count(tmp_path: Path, environment: Path) -> None:
    """A .pth file brings packages of elsewhere onto the path: they serve, too; the first of a name is the one that is imported."""
    other = tmp_path / "site"
    for name, version in (("far", "3.0"), ("served", "0.9")):
        (other / f"{name}-{version}.dist-info").mkdir(parents=True)
        (other / f"{name}-{version}.dist-info/RECORD").write_text("far.py,sha256=z,1\n")
    site = next((environment / "lib").glob("python3.*")) / "site-packages"
    (site / "more.pth").write_text(f"{other}\n")
    found = given.installed(environment).packages
    assert found["far"].startswith("3.0 sha256:")
    assert found["served"].startswith("1.0 ")


def test_an_editable_package_is_refused(environment: Path) -> None:
    """Its code changes without its RECORD, so nothing would tell."""
    info = install(environment, "vllm", "0.1")
    (info / "direct_url.json").write_text(json.dumps({"url": "file:///src", "dir_info": {"editable": True}}))
    with pytest.raises(SetupError, match=r"vllm-0\.1\.dist-info is installed editable"):
        given.installed(environment)


def test_a_folder_that_is_no_environment_is_refused(tmp_path: Path, environment: Path) -> None:
    """No interpreter, an interpreter that does not run, no package."""
    with pytest.raises(SetupError, match="the one above bin/python"):
        given.installed(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").write_text("#!/bin/false\n")
    (tmp_path / "bin/python").chmod(0o755)
    with pytest.raises(SetupError, match="does not run"):
        given.installed(tmp_path)


def test_what_is_not_a_link_of_ours_is_left_alone(tmp_path: Path, model: Path) -> None:
    """A folder where the link should go is somebody's."""
    to = tmp_path / "build/models/own-0123456789ab"
    to.mkdir(parents=True)
    with pytest.raises(SetupError, match="move it away"):
        given.place_model("own", given.model_files(model), model, to)
    assert to.is_dir()
    assert not to.is_symlink()


def test_what_cannot_be_looked_into_is_refused(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without rights would hide its files, and the model would be described without them."""
    looked = os.scandir

    def closed(path: str) -> Any:
        if str(path).endswith("/sub"):
            raise PermissionError(13, "Permission denied", str(path))
        return looked(path)

    monkeypatch.setattr(os, "scandir", closed)
    with pytest.raises(SetupError, match=r"/sub: cannot be read \(Permission denied\)"):
        given.model_files(model)


def test_a_hidden_folder_is_not_looked_into(model: Path, tmp_path: Path) -> None:
    """A link in a download tool's cache is none of the model's."""
    (model / ".cache/more").symlink_to(tmp_path)
    (model / ".git").symlink_to(tmp_path)
    assert "config.json" in given.model_files(model)


def test_a_link_leads_to_the_folder_itself(tmp_path: Path, model: Path) -> None:
    """Who names the link under the build folder as the model's folder gets no link that leads to itself."""
    listed = given.model_files(model)
    to = tmp_path / "build/models/own-0123456789ab"
    given.place_model("own", listed, model, to)
    given.place_model("own", listed, to, to)
    assert to.resolve() == model


def test_a_build_folder_that_cannot_hold_the_link_is_told(tmp_path: Path, model: Path) -> None:
    """One line, not a traceback."""
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match=r"cannot be linked to .* \(Not a directory\)"):
        given.place_model("own", given.model_files(model), model, tmp_path / "file/models/own-0123456789ab")


def test_nothing_is_made_of_a_model_that_was_changed(tmp_path: Path, model: Path) -> None:
    """Its digest would say that it was made of what was described; token ids would be those of another tokenizer."""
    to = tmp_path / "build/models/own-0123456789ab"
    given.place_model("own", given.model_files(model), model, to)
    (model / "tokenizer.json").write_text("other")
    recipe = {"name": "small", "recipe": "w4a16"}
    made = tmp_path / "build/models/small"
    with pytest.raises(EvidenceError, match=r"tokenizer\.json: found"):
        checkpoints.make_checkpoint(recipe, Path(sys.executable), made, checkpoints.Sources(model=to), tmp_path / "log")
    (tmp_path / "text").write_text("words")
    with pytest.raises(EvidenceError, match=r"tokenizer\.json: found"):
        checkpoints.tokenise(Path(sys.executable), to, {"text": tmp_path / "text"}, tmp_path / "ids")
    assert not made.exists()


@pytest.mark.parametrize("how", ["compact", "link", "egg"])
def test_code_that_no_record_holds_is_refused(environment: Path, how: str) -> None:
    """Some tools write the JSON without spaces; `setup.py develop` and `setup.py install` leave no dist-info at all."""
    info = install(environment, "more", "0.1")
    if how == "compact":
        (info / "direct_url.json").write_text('{"url":"file:///src","dir_info":{"editable":true}}')
    elif how == "link":
        (info.parent / "vllm.egg-link").write_text("/src\n.")
    else:
        (info.parent / "vllm-0.1-py3.12.egg").mkdir()
    with pytest.raises(SetupError, match="editable or as an egg"):
        given.installed(environment)


@pytest.mark.parametrize("damage", ["{}", "[]", "less"])
def test_a_mark_that_lists_something_else_is_refused(
    tmp_path: Path, model: Path, environment: Path, damage: str
) -> None:
    """What a server is checked against is what the plan names, not whatever lies beside the link."""
    listed, found = given.model_files(model), given.installed(environment)
    one, two = tmp_path / "build/models/own-0123456789ab", tmp_path / "build/envs/own-0123456789ab"
    given.place_model("own", listed, model, one)
    given.place_environment("own", found, environment, two)
    given.check_model(one, digest(listed))
    given.check_environment(two, found.digest)
    (model / "tokenizer.json").unlink()
    install(environment, "more", "2.0")
    for to, key in ((one, "files"), (two, "records")):
        mark = to.with_name(f"{to.name}.ready")
        fresh = given.model_files(model) if to == one else given.installed(environment).packages
        held = json.loads(mark.read_text())
        mark.write_text(json.dumps(held | {key: fresh}) if damage == "less" else damage)
    with pytest.raises(EvidenceError, match=r"not a manifest|expected .* as in the plan"):
        given.check_model(one, digest(listed))
    with pytest.raises(EvidenceError, match=r"expected .* as in the plan"):
        given.check_environment(two, found.digest)
