"""What the running server is: engine, interpreter, packages, model, command, as found and not as asked."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import requests

from rungproof.measure.serving.engines.engine import Engine
from rungproof.measure.serving.order import Order
from rungproof.measure.serving.running import Running

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


def portable(text: str, order: Order, model: str) -> str:
    """A text without what differs from machine to machine and from session to session: <model> and <name> in its place."""
    return order.portable(text).replace(model, "<name>")


def portable_command(argv: list[str], order: Order, model: str) -> list[str]:
    """A command, so treated, its interpreter <python> and its port <port>."""
    words = ["<python>", *(portable(word, order, model) for word in argv[1:])]
    place = words.index("--port") + 1 if "--port" in words else len(words)
    return [*words[:place], *(["<port>"] if place < len(words) else []), *words[place + 1 :]]


def engine_version(url: str) -> str:
    """What the server answers under /version; "" if it does not say."""
    with requests.Session() as session:
        session.trust_env = False
        try:
            value = session.get(f"{url}/version", timeout=5).json()
        except (requests.RequestException, ValueError):
            return ""
    return str(value.get("version", "")) if isinstance(value, dict) else ""


def describe(
    order: Order, engine: Engine, server: Running, log: str, runtime: tuple[str, list[Path]]
) -> dict[str, Any]:
    """The identity that goes into server.json. `runtime`: from `interpreter`."""
    return {
        "engine": engine.name,
        "engine_version": engine_version(server.url),
        "python": runtime[0],
        "packages": packages(runtime[1]),
        "model": order.model_identity,
        "argv": portable_command(server.argv, order, server.model),
        **{key: portable(value, order, server.model) for key, value in engine.log_identity(log).items()},
    }
