"""What the running server is: engine, interpreter, packages, model, command, as found and not as asked."""

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import requests

from rungproof.measure.serving.engines.engine import Engine
from rungproof.measure.serving.order import Order
from rungproof.records.formats import Knob

# Every folder on the path that holds packages: one environment may take in another by a .pth file.
ASK = """import glob, json, os, sys
print(json.dumps([sys.version.split()[0], *(p for p in sys.path if glob.glob(os.path.join(glob.escape(p), "*.dist-info")))]))"""
OURS = re.compile(r"lib(ggml|llama|mtmd)")
DIST_INFO = re.compile(r"(.+)-([^-]+)\.dist-info")


def interpreter(python: str) -> tuple[str, list[Path]]:
    """Version of an interpreter and where its packages lie. ("", []) if it is none or cannot be run."""
    if not Path(python).name.startswith("python"):
        return "", []
    try:
        done = subprocess.run([python, "-I", "-c", ASK], capture_output=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return "", []
    return told(done.stdout.decode("utf-8", "replace"))


def told(answer: str) -> tuple[str, list[Path]]:
    """What an interpreter answered to ASK; ("", []) if that is no answer."""
    try:
        version, *folders = json.loads(answer)
    except (ValueError, TypeError):
        return "", []
    return str(version), list(dict.fromkeys(Path(str(folder)) for folder in folders))


def packages(folders: list[Path]) -> dict[str, str]:
    """Installed distributions and their versions by the names of their dist-info folders, the first of a name as it is imported;
    nothing is imported here."""
    made: dict[str, str] = {}
    for folder in folders:
        for found in sorted(folder.glob("*.dist-info")):
            if match := DIST_INFO.fullmatch(found.name):
                made.setdefault(re.sub(r"[-_.]+", "-", match[1]).lower(), match[2])
    return made


def programs(pid: int, proc: Path = Path("/proc")) -> dict[str, str]:
    """Name -> sha256 of a native server's program and of the libraries that came with it (in its folder, or llama.cpp's own).

    {} where the process shows nothing. Works for a container's process too, whose files lie under /proc/<pid>/root.
    """
    root = proc / str(pid) / "root"
    try:
        own = os.readlink(proc / str(pid) / "exe")
        mapped = (proc / str(pid) / "maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    shared = sorted(set(re.findall(r"(/\S+\.so[.\d]*)$", mapped, re.MULTILINE)))
    mine = [path for path in shared if Path(path).parent == Path(own).parent or OURS.match(Path(path).name)]
    made: dict[str, str] = {}
    for path in (own, *mine):
        try:
            with (root / path.lstrip("/")).open("rb") as file:
                made[Path(path).name] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return {}
    return made


def portable(text: str, order: Order, model: str) -> str:
    """A text without what differs from machine to machine and from session to session: <model> and <name> in its place."""
    return order.portable(text).replace(model, "<name>")


def portable_command(argv: list[str], order: Order, model: str) -> list[str]:
    """A command, so treated, its interpreter <python> and its port <port>."""
    words = ["<python>", *(portable(word, order, model) for word in argv[1:])]
    place = words.index("--port") + 1 if "--port" in words else len(words)
    return [*words[:place], *(["<port>"] if place < len(words) else []), *words[place + 1 :]]


def engine_version(url: str, at: tuple[str, ...]) -> str:
    """What the server answers as its version. at: path and keys; "" if it does not say or has no such answer."""
    if not at:
        return ""
    with requests.Session() as session:
        session.trust_env = False
        try:
            value = session.get(f"{url}{at[0]}", timeout=5).json()
        except (requests.RequestException, ValueError):
            return ""
    for key in at[1:]:
        value = value.get(key) if isinstance(value, dict) else None
    return str(value)[:200] if isinstance(value, (str, int, float)) else ""


def version_knobs(engine: Engine, identity: dict[str, Any]) -> tuple[Knob, ...]:
    """The version that the server answers with, held against the package installed for it and against its own log.

    A build suffix ("+cpu") counts on neither side: not every answer has it. No package, no log: nothing to hold against.
    """
    installed = next((v for name in engine.distributions if (v := identity["packages"].get(name))), None)
    answered = str(identity["engine_version"]) or None
    made = []
    for what, wanted in (("installed package", installed), ("log", identity.get("engine_version_logged"))):
        if wanted:
            same = answered is not None and answered.partition("+")[0] == str(wanted).partition("+")[0]
            made.append(
                Knob("engine version", str(wanted), answered, f"{engine.version_at[0]} against its {what}", same)
            )
    return tuple(made)


def describe(
    order: Order,
    engine: Engine,
    url: str,
    model: str,
    argv: list[str],
    log: str,
    runtime: tuple[str, list[Path]],
    pid: int,
) -> dict[str, Any]:
    """The identity that goes into server.json. url, model, argv, pid: of the running server; `runtime`: from `interpreter`.

    A server without Python packages is known by the digests of its program and libraries."""
    installed = packages(runtime[1])
    return {
        "engine": engine.name,
        "engine_version": engine_version(url, engine.version_at),
        "python": runtime[0],
        "packages": installed,
        **({} if installed else {"programs": programs(pid)}),
        "model": order.model_identity,
        "argv": portable_command(argv, order, model),
        **{key: portable(value, order, model) for key, value in engine.log_identity(log).items()},
    }
