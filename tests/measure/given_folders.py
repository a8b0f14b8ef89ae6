"""Folders as users have them: a checkpoint, and a virtual environment with one package."""

import subprocess
import sys
from pathlib import Path


def checkpoint(folder: Path) -> Path:
    """A checkpoint's folder, each file holding its own name."""
    folder.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / name).write_text(name)
    return folder


def virtual_environment(folder: Path, package: str) -> Path:
    """A virtual environment in which one package of version 1.0 is installed, as far as anybody can tell."""
    subprocess.run([sys.executable, "-I", "-m", "venv", "--without-pip", str(folder)], check=True)
    install(folder, package, "1.0")
    return folder


def install(folder: Path, name: str, version: str, record: str = "served.py,sha256=x,1\n") -> Path:
    """The folder that says of a package that it is installed."""
    site = next((folder / "lib").glob("python3.*")) / "site-packages"
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "RECORD").write_text(record)
    return info
