"""A server in a container of docker or podman, which take the same words.

It runs on the host's own network, bound to the loopback: nothing translates addresses in the measured path, and the
listener can be seen to be a process of this very container. The image is pinned by digest and never pulled; the model is
mounted read-only; the only thing that can be written is the session's own cache folder.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rungproof.measure.serving.launch import process
from rungproof.measure.serving.order import Places
from rungproof.records.codec import canonical, load_json
from rungproof.records.errors import EvidenceError
from rungproof.records.files import write_atomic
from rungproof.records.formats import Knob

MODEL, CACHE = "/model", "/rungproof/cache"  # where the server finds its model and its caches
SOURCE = "container inspect"
CLIENT = (
    "PATH",
    "HOME",
    "USER",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "CONTAINER_HOST",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
)
ASK_S = 30.0
SIZES = {"k": 2**10, "m": 2**20, "g": 2**30}


def command(
    engine: Sequence[str], extra: Sequence[str], name: str, session: str, boot: str, asked: Mapping[str, Any], model: str, cache: Path,
    variables: Mapping[str, str], argv: Sequence[str],
) -> list[str]:  # fmt: skip
    """The command line that runs the container in the foreground. asked: the lane's `container`; argv: the server's own."""
    words = [
        *engine,
        "run",
        "--name",
        name,
        "--label",
        f"rungproof.boot={boot}",
        "--label",
        f"rungproof.session={session}",
    ]
    words += ["--network", "host", "--pull", "never", "--workdir", f"{CACHE}/work"]
    if model:
        words += ["--mount", f"type=bind,source={model},target={MODEL},readonly"]
    words += ["--mount", f"type=bind,source={cache},target={CACHE}"]
    for option, key in (("--memory", "memory"), ("--shm-size", "shm_size")):
        words += [option, str(asked[key])] if asked.get(key) else []
    for device in asked.get("devices", ()):
        words += ["--device", device]
    for key, value in sorted(variables.items()):
        words += ["--env", f"{key}={value}"]
    return [*words, *extra, "--entrypoint", argv[0], str(asked["image"]), *argv[1:]]


def moved(argv: Sequence[str], model: str) -> list[str]:
    """A server's command with the place of the model inside the container for that on this machine."""
    return [word.replace(model, MODEL) if model else word for word in argv]


def inside(asked: Mapping[str, str], boot: str) -> dict[str, str]:
    """Variables of the server in the container: those asked for and ours, none of the caller's."""
    return process.environment({}, asked, boot, Path(CACHE))


def client() -> dict[str, str]:
    """Variables of the engine's command itself."""
    return {key: value for key, value in os.environ.items() if key in CLIENT}


def note(places: Places, engine: Sequence[str], name: str) -> None:
    """Write down which container is this session's, before it is there."""
    write_atomic(places.container, canonical({"engine": list(engine), "name": name}))


def ask(engine: Sequence[str], *words: str, seconds: float = ASK_S) -> tuple[int, str]:
    """Exit status and output of a question to the engine; 124 if it does not answer, 127 if it is not there."""
    try:
        done = subprocess.run(
            [*engine, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=seconds, env=client(),
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 124, ""
    except OSError:
        return 127, ""
    return done.returncode, done.stdout.decode("utf-8", "replace")


def inspect(engine: Sequence[str], name: str, kind: str = "container") -> dict[str, Any]:
    """What the engine says of a container or image; {} if there is none of that name."""
    status, text = ask(engine, kind, "inspect", name)
    try:
        found = load_json(text.encode(), f"{kind} inspect") if status == 0 else []
    except EvidenceError:
        return {}
    return found[0] if isinstance(found, list) and found and isinstance(found[0], dict) else {}


def remove(places: Places) -> str:
    """End and remove the session's container, if it had one; what could not be removed, in words, else ""."""
    try:
        noted = json.loads(places.container.read_bytes())
        engine, name = [str(word) for word in noted["engine"]], str(noted["name"])
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"container of this session is not known ({error})"
    ask(engine, "rm", "--force", "--volumes", name, seconds=60.0)
    return f"container {name}, still running" if inspect(engine, name) else ""


def state(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Its State; {} if it has none."""
    value = found.get("State")
    return value if isinstance(value, dict) else {}


def command_line(found: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The words that run in it, as the engine says; None if it does not."""
    path, arguments = found.get("Path"), found.get("Args")
    return (str(path), *map(str, arguments)) if path and isinstance(arguments, list) else None


def variables(found: Mapping[str, Any]) -> dict[str, str] | None:
    """Its variables, those of the image among them; None if the engine does not say."""
    listed = _section(found, "Config").get("Env")
    if not isinstance(listed, list):
        return None
    return {name: value for name, mark, value in (str(item).partition("=") for item in listed) if mark}


def knobs(engine: Sequence[str], found: Mapping[str, Any], asked: Mapping[str, Any], model: str) -> tuple[Knob, ...]:
    """What was asked of the container itself, as the engine says that it is: image, mounts, memory, devices, network."""
    image = str(asked["image"])
    wanted = _bare(str(inspect(engine, image, "image").get("Id", "")))
    running = _bare(str(found.get("Image", "")))
    host = _section(found, "HostConfig")
    made = [
        Knob("image", image, f"sha256:{running}" if running else None, SOURCE, bool(running) and running == wanted),
        Knob("network", "host", str(host.get("NetworkMode")), SOURCE, host.get("NetworkMode") == "host"),
    ]
    if model:
        mounts = [m for m in found.get("Mounts") or () if isinstance(m, dict) and m.get("Destination") == MODEL]
        ok = (
            len(mounts) == 1
            and mounts[0].get("RW") is False
            and os.path.realpath(str(mounts[0].get("Source"))) == os.path.realpath(model)
        )
        shown = None if not mounts else "read-only" if mounts[0].get("RW") is False else "writable"
        made.append(Knob(f"mount {MODEL}", "read-only", shown, SOURCE, ok))
    for key, name in (("memory", "Memory"), ("shm_size", "ShmSize")):
        if asked.get(key):
            limit = int(str(asked[key])[:-1]) * SIZES[str(asked[key])[-1]]
            made.append(Knob(f"container {key}", str(limit), str(host.get(name)), SOURCE, host.get(name) == limit))
    if asked.get("shm_size") and host.get("IpcMode") == "host":  # docker takes the size and does not use it
        made[-1] = replace(made[-1], found="the host's own, by --ipc host", ok=False)
    paths = {str(device.get("PathOnHost")) for device in host.get("Devices") or () if isinstance(device, dict)}
    for device in asked.get("devices", ()):
        if str(device).startswith("/"):  # devices by CDI are told by the facts of the accelerator
            there = any(path == device or path.startswith(f"{device}/") for path in paths)
            made.append(Knob(f"device {device}", "handed in", "handed in" if there else None, SOURCE, there))
    return tuple(made)


def _section(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = found.get(name)
    return value if isinstance(value, dict) else {}


def _bare(digest: str) -> str:
    return digest.removeprefix("sha256:")
