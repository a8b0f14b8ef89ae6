"""llama.cpp's server. Its log states the context in force line by line: "llama_context: n_ctx = 8192".

It gives no token ids with a completion, so nothing measured on it can be proven identical: its points stay withheld.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rungproof.measure.serving.engines.engine import Engine, render, text
from rungproof.measure.serving.order import Order
from rungproof.records.errors import HostError
from rungproof.records.formats import Knob

STATED = re.compile(r"^.*?llama_context:\s+(\w+)\s*=\s*(\S+)\s*$", re.MULTILINE)
BUILD = re.compile(r"^build: (\d+ \(\w+\))", re.MULTILINE)
DEVICE = re.compile(r"using device (\w+)")
# Our argument: its name in the log, where the value is comparable as text.
NAMES = {"batch-size": "n_batch", "ubatch-size": "n_ubatch", "parallel": "n_seq_max", "ctx-size": "n_ctx"}


def argv(order: Order, model: str, port: int) -> list[str]:
    """Its command line. Raises HostError if the model's folder does not hold exactly one GGUF file."""
    program = str(order.launch.get("program") or "llama-server")
    fixed = [
        program,
        "--model",
        str(_file(order.model_path)),
        "--alias",
        model,
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    return [*fixed, *render(order.arguments)]


def _file(folder: str) -> Path:
    if folder.endswith(".gguf") or folder.startswith("<"):
        return Path(folder)
    found = sorted(Path(folder).glob("*.gguf"))
    if len(found) != 1:
        raise HostError(f"{folder}: holds {len(found)} GGUF files; expected exactly one for llama.cpp")
    return found[0]


def log_knobs(arguments: Mapping[str, Any], log: str) -> tuple[Knob, ...]:
    """Arguments that the log states; the others are left to the command line."""
    found = stated(log)
    if not found:
        return (Knob("engine configuration", "stated in the log", None, "log: llama_context", False),)
    return tuple(
        Knob(f"--{key}", text(value), found[key], "log: llama_context", text(value) == found[key])
        for key, value in arguments.items()
        if key in found
    )


def stated(log: str) -> dict[str, str]:
    """What its context runs with, by our names."""
    values = dict(STATED.findall(log))
    return {key: values[name] for key, name in NAMES.items() if name in values}


def log_identity(log: str) -> dict[str, str]:
    """Build and devices, each only if the log states it."""
    made: dict[str, str] = {}
    if build := BUILD.search(log):
        made["engine_version_logged"] = build[1]
    if found := sorted(set(DEVICE.findall(log))):
        made["kernel"] = f"devices {', '.join(found)}"
    return made


ENGINE = Engine(
    "llama.cpp", argv, lambda order: str(order.launch.get("program") or "llama-server"), (), log_knobs, log_identity, stated,
)  # fmt: skip
