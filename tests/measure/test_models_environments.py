"""The server's environment: made from a lock with hashes, resumable, described last, and clear when it fails."""

import hashlib
import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from rungproof.measure.models import environments, probing
from rungproof.measure.models.environments import make_environment
from rungproof.records.errors import SetupError


def wheel(folder: Path, name: str, version: str, code: str = "__version__ = 'x'\n") -> str:
    """A pure wheel with one module; returns its line of a lock."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name}-{version}"
    path = folder / f"{stem}-py3-none-any.whl"
    info = f"{stem}.dist-info"
    files = {
        f"{name}.py": code,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{file},,\n" for file in files) + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(file, text)
    return f"{name}=={version} \\\n    --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is pip's only source."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "cache"))
    return folder


@pytest.fixture(scope="session")
def python311() -> str:
    """A Python 3.11 of this machine."""
    try:
        return probing.find_interpreter(None)
    except SetupError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def empty(python311: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment as the program makes it, with nothing installed yet."""
    folder = tmp_path_factory.mktemp("empty")
    environments._make_venv(python311, folder / "venv", folder / "log.txt")
    return folder / "venv"


@pytest.fixture
def copied(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Virtual environments are copies of that one: to unpack pip into each takes seconds."""
    monkeypatch.setattr(
        environments,
        "_make_venv",
        lambda _python, to, _log: shutil.copytree(empty, to, symlinks=True, dirs_exist_ok=True),
    )


def lock_of(folder: Path, *lines: str) -> Path:
    path = folder / "envs" / "toy.lock"
    path.parent.mkdir(exist_ok=True)
    path.write_text("# a lock\n" + "".join(lines))
    return path


def made(tmp_path: Path, lock: Path, python: str, said: list[str] | None = None) -> dict[str, object]:
    """Make the environment and return its manifest."""
    to = tmp_path / "build" / "toy"
    make_environment("toy", lock, to, python, tmp_path / "log.txt", (said if said is not None else []).append)
    manifest: dict[str, object] = json.loads((to / "manifest.json").read_bytes())
    return manifest


def test_an_environment_has_the_locked_packages_and_says_so_last(tmp_path: Path, shop: Path, python311: str) -> None:
    """The manifest names the lock's digest, the Python and every installed package at its locked version; a second call does nothing."""
    lock = lock_of(tmp_path, wheel(shop, "torch", "2.13.0+cpu"), wheel(shop, "vllm", "0.32.0"))
    said: list[str] = []
    manifest = made(tmp_path, lock, python311, said)
    packages = manifest["packages"]
    assert isinstance(packages, dict)
    assert (packages["torch"], packages["vllm"]) == ("2.13.0+cpu", "0.32.0")
    assert manifest["lock_sha256"] == hashlib.sha256(lock.read_bytes()).hexdigest()
    assert manifest["format"] == "rungproof.environment/1"
    assert str(manifest["python"]).startswith("3.11.")
    assert said
    to = tmp_path / "build" / "toy"
    assert not (to / ".unfinished").exists()
    before = (to / "manifest.json").stat().st_mtime_ns
    again: list[str] = []
    made(tmp_path, lock, python311, again)
    assert (to / "manifest.json").stat().st_mtime_ns == before
    assert again == []


@pytest.mark.usefixtures("copied")
def test_a_cut_environment_is_begun_anew(tmp_path: Path, shop: Path, python311: str) -> None:
    """What a cut call left behind is replaced, so nothing half installed survives into a manifest."""
    lock = lock_of(tmp_path, wheel(shop, "torch", "2.13.0+cpu"), wheel(shop, "vllm", "0.32.0"))
    to = tmp_path / "build" / "toy"
    half = to / "lib" / "python3.11" / "site-packages" / "half.py"
    half.parent.mkdir(parents=True)
    half.write_text("half")
    (to / ".unfinished").write_text("cut")
    made(tmp_path, lock, python311)
    assert not half.exists()


@pytest.mark.usefixtures("copied")
def test_a_wrong_hash_is_refused_with_its_lines(tmp_path: Path, shop: Path, python311: str) -> None:
    """A file that is not the locked one is not installed; the error shows both hashes and no manifest is written."""
    lock = lock_of(tmp_path, wheel(shop, "torch", "2.13.0+cpu"), wheel(shop, "vllm", "0.32.0"))
    lock.write_text(lock.read_text()[:-9] + "00000000\n")
    with pytest.raises(SetupError, match=r"(?s)Expected sha256.*Got.*not the one that the lock names"):
        made(tmp_path, lock, python311)
    assert not (tmp_path / "build" / "toy" / "manifest.json").exists()


@pytest.mark.usefixtures("copied")
def test_torch_alone_may_come_from_the_second_index(
    tmp_path: Path, shop: Path, python311: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the user's own indexes lack torch it is taken from the address in torch-cpu-index.txt; another package never is."""
    second = tmp_path / "second"
    torch = wheel(second / "torch", "torch", "2.13.0+cpu")
    vllm = wheel(shop, "vllm", "0.32.0")
    other = wheel(second / "other", "other", "1.0")
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", own.as_uri())
    for name in ("torch", "other"):
        file = next((second / name).glob("*.whl")).name
        (second / name / "index.html").write_text(
            f'<!DOCTYPE html><html><body><a href="{file}">{file}</a></body></html>'
        )
    lock = lock_of(tmp_path, torch, vllm, other)
    with pytest.raises(SetupError, match="No matching distribution found for torch"):
        made(tmp_path, lock, python311)
    (lock.parent / "torch-cpu-index.txt").write_text(second.as_uri() + "\n")
    with pytest.raises(SetupError, match="No matching distribution found for other"):
        made(tmp_path, lock, python311)
    assert "Successfully installed torch-2.13.0+cpu" in (tmp_path / "log.txt").read_text()


@pytest.mark.usefixtures("copied")
def test_an_environment_that_cannot_import_is_not_finished(tmp_path: Path, shop: Path, python311: str) -> None:
    """Installed is not enough: where torch or vllm does not import, the error says why and no manifest is written."""
    lock = lock_of(
        tmp_path,
        wheel(shop, "torch", "2.13.0+cpu"),
        wheel(shop, "vllm", "0.32.0", "raise RuntimeError('operator gone')\n"),
    )
    with pytest.raises(SetupError, match="operator gone"):
        made(tmp_path, lock, python311)
    assert not (tmp_path / "build" / "toy" / "manifest.json").exists()


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path, shop: Path, python311: str) -> None:
    """A folder with files that this program did not make is refused, and its files stay."""
    lock = lock_of(tmp_path, wheel(shop, "torch", "2.13.0+cpu"), wheel(shop, "vllm", "0.32.0"))
    precious = tmp_path / "build" / "toy" / "thesis.txt"
    precious.parent.mkdir(parents=True)
    precious.write_text("years of work")
    with pytest.raises(SetupError, match="not made by this program"):
        made(tmp_path, lock, python311)
    assert precious.read_text() == "years of work"


def test_a_lock_without_pins_is_refused(tmp_path: Path, shop: Path, python311: str) -> None:
    """An empty lock makes no environment."""
    with pytest.raises(SetupError, match="pins no package"):
        made(tmp_path, lock_of(tmp_path), python311)


def test_without_python_311_the_error_lists_what_was_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without Python 3.11 reads every place that was tried and how to get one; a version that differs is named."""
    fake = tmp_path / "bin" / "python3.11"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho '[\"/x/python\", [3, 10]]'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RUNGPROOF_PYTHON311", "PYENV_ROOT", "UV_PYTHON_INSTALL_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    with pytest.raises(SetupError, match=r"(?s)is Python 3\.10.*the running Python.*does not run.*RUNGPROOF_PYTHON311"):
        probing.find_interpreter(None)
    with pytest.raises(SetupError, match="does not run"):
        probing.find_interpreter(str(tmp_path / "nothing"))


def test_too_little_disk_is_said_before_anything_is_made(
    tmp_path: Path, shop: Path, python311: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names free and needed megabytes, and nothing has been installed."""
    monkeypatch.setattr(environments, "NEEDS", {"toy": environments.Needs(10**12, 10**12, 1)})
    lock = lock_of(tmp_path, wheel(shop, "torch", "2.13.0+cpu"), wheel(shop, "vllm", "0.32.0"))
    with pytest.raises(SetupError, match=r"\d+ MB free; 3000000000000 MB needed"):
        made(tmp_path, lock, python311)
    assert not (tmp_path / "build" / "toy" / "bin").exists()


def test_an_unreachable_index_is_named_as_such() -> None:
    """What pip says when it cannot connect becomes advice about the network."""
    said = [
        "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError'",
        "ERROR: No matching distribution found for x",
    ]
    assert "could not be reached" in probing.advice(said)
    assert probing.telling_lines(said) == said


def test_the_real_locks_are_complete() -> None:
    """Every entry of every lock is pinned and hashed; the server's has torch and vLLM and none of the four that break it."""
    folder = Path(__file__).resolve().parents[2] / "envs"
    for name, least in (("vllm-cpu", 100), ("orchestrator", 50), ("develop", 20), ("smollm2", 1)):
        text = (folder / f"{name}.lock").read_text()
        blocks = [block for block in text.split("\n") if block and not block.startswith(("#", " "))]
        assert len(blocks) >= least
        assert len(environments.pins(text)) == len(blocks)
        assert text.count("--hash=sha256:") >= len(blocks)
        assert "://" not in text
    server = environments.pins((folder / "vllm-cpu.lock").read_text())
    assert (server["torch"], server["vllm-cpu"]) == ("2.13.0+cpu", "0.32.0")
    assert not {"torchvision", "torchaudio", "torchcodec", "triton"} & server.keys()


def test_one_file_alone_names_a_package_index() -> None:
    """The address of PyTorch's wheels stands in exactly one file of envs/."""
    folder = Path(__file__).resolve().parents[2] / "envs"
    named = [path.name for path in folder.rglob("*") if path.is_file() and "download.pytorch.org" in path.read_text()]
    assert named == ["torch-cpu-index.txt"]
