"""A small image for the tests of container lanes: this Python, its libraries and the simulated server, built from local files."""

import atexit
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src/rungproof"
PYTHON, HOME, CODE = "/py/bin/python3", "/py", "/app"
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
LEFT_AWAY = (
    "test",
    "site-packages",
    "idlelib",
    "ensurepip",
    "lib2to3",
    "tkinter",
    "turtledemo",
    "__pycache__",
    "dist-packages",
    "config-*",
)
TAG = "localhost/rungproof-tests:small"
# Where an engine needs more than its name: a runtime that copes with this kernel, limits that a sandbox lets it set.
EXTRA = (
    (),
    ("--runtime", "runc"),
    ("--runtime", "runc", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"),
)


@dataclass(frozen=True)
class Small:
    """An engine that can start containers here, what it needs for it, and the image's id."""

    engine: tuple[str, ...]
    extra: tuple[str, ...]
    image: str


@functools.cache
def small() -> Small | str:
    """Build the image and find out how it is started here; or why that cannot be."""
    tried = []
    for name in ("docker", "podman"):
        if shutil.which(name) is None:
            tried.append(f"{name} is not installed")
            continue
        with tempfile.TemporaryDirectory() as folder:
            stage(Path(folder))
            built = subprocess.run(
                [name, "build", "--quiet", "--tag", TAG, folder],
                capture_output=True,
                text=True,
                timeout=900,
                check=False,
            )
        if built.returncode:
            tried.append(f"{name} cannot build: {built.stderr.strip()[-200:]}")
            continue
        found = subprocess.run(
            [name, "image", "inspect", "--format", "{{.Id}}", TAG],
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        image = f"sha256:{found.stdout.strip().removeprefix('sha256:')}"
        for extra in EXTRA:
            try_it = [
                name,
                "run",
                "--rm",
                "--network",
                "host",
                *extra,
                "--env",
                f"PYTHONHOME={HOME}",
                "--entrypoint",
                PYTHON,
                image,
                "-c",
                "print('up')",
            ]
            done = subprocess.run(try_it, capture_output=True, text=True, timeout=300, check=False)
            if done.stdout.strip() == "up":
                atexit.register(
                    subprocess.run, [name, "image", "rm", "--force", image], capture_output=True, check=False
                )
                return Small((name,), extra, image)
            tried.append(f"{name} {' '.join(extra)}: {done.stderr.strip()[-200:]}")
    return "no container engine can start here: " + "; ".join(tried)


def stage(folder: Path) -> None:
    """The root file system and the recipe of the image."""
    root, base = folder / "root", Path(sys.base_prefix)
    library = base / "lib" / VERSION
    shutil.copytree(
        library, root / HOME[1:] / "lib" / VERSION, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_AWAY)
    )
    program = Path(os.path.realpath(base / "bin" / VERSION))
    (root / HOME[1:] / "bin").mkdir()
    shutil.copy(program, root / PYTHON[1:])
    for file in [program, *library.glob("lib-dynload/*.so")]:
        for needed in libraries(file):
            to = root / str(needed).lstrip("/")
            if not to.exists():
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(needed, to)
    shutil.copytree(SOURCE, root / CODE[1:] / "rungproof", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "tmp").mkdir(exist_ok=True)
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY root /\nENV IMAGE_SAYS=hello\n")


def libraries(file: Path) -> list[Path]:
    """Shared libraries that a file needs, and the loader."""
    told = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=False).stdout
    return [Path(path) for path in re.findall(r"(?:=> |^\s*)(/\S+) \(0x", told, re.MULTILINE)]
