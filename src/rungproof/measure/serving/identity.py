"""What the running server is: engine, interpreter, packages, model, command, as found and not as asked."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import requests

from rungproof.measure.serving.engines.engine import Engine
from rungproof.measure.serving.order import Order

ASK = """import json, sys, sysconfig as s
print(json.dumps([sys.version.split()[0], s.get_path("purelib"), s.get_path("platlib")]))"""
DIST_INFO = re.compile(r"(.+)-([^-]+)\.dist-info")


def interpreter(python: str) -> tuple[str, list[Path]]:
    """Version of an interpreter and where its packages lie. ("", []) if it cannot be run."""
    try:
        done = subprocess.run([python, "-I", "-c", ASK], capture_output=True, timeout=60, check=True)
        version, *folders = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return "", []
    return str(version), list(dict.fromkeys(Path(folder) for folder in folders))


def packages(folders: list[Path]) -> dict[str, str]:
    """Installed distributions and their versions by the names of their dist-info folders; nothing is imported."""
    made: dict[str, str] = {}
    for folder in folders:
        for found in sorted(folder.glob("*.dist-info")):
            if match := DIST_INFO.fullmatch(found.name):
                made[re.sub(r"[-_.]+", "-", match[1]).lower()] = match[2]
    return made


def portable(argv: list[str], order: Order) -> list[str]:
    """A command with the paths of this machine replaced by <python> and <model>."""
    made = [word.replace(order.model_path, "<model>") if order.model_path else word for word in argv]
    return ["<python>", *made[1:]]


def engine_version(url: str) -> str:
    """What the server answers under /version; "" if it does not say."""
    with requests.Session() as session:
        session.trust_env = False
        try:
            value = session.get(f"{url}/version", timeout=5).json()
        except (requests.RequestException, ValueError):
            return ""
    return str(value.get("version", "")) if isinstance(value, dict) else ""


def describe(order: Order, engine: Engine, argv: list[str], url: str, log: str, runtime: tuple[str, list[Path]]) -> dict[str, Any]:
    """The identity that goes into server.json. `runtime`: from `interpreter`."""
    logged = {key: portable(["", value], order)[1] for key, value in engine.log_identity(log).items()}
    return {
        "engine": engine.name,
        "engine_version": engine_version(url),
        "python": runtime[0],
        "packages": packages(runtime[1]),
        "model": order.model_identity,
        "argv": portable(argv, order),
        **logged,
    }
