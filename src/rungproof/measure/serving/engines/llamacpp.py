"""llama.cpp's server. At verbosity 4 its log states the context in force line by line: "llama_context: n_ctx = 8192".

Its completions give token ids only where a request asks it to be verbose (records.requests). A token that ends inside a
character comes with the next one, and then the ids are fewer than the usage says: such a request is refused, not guessed.
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
BUILD = re.compile(r"\bbuild:? (\d+) \((\w+)\)")
FEATURES = re.compile(r"system_info: .*?\| (CPU : .*?)[| ]*$", re.MULTILINE)
DEVICE = re.compile(r"using device (\w+)")
# Our argument: its name in the log, where the value is comparable as text.
NAMES = {"batch-size": "n_batch", "ubatch-size": "n_ubatch", "parallel": "n_seq_max", "ctx-size": "n_ctx"}
PHASES = (
    (r"loading model", "loading the model"),
    (r"llama_context: ", "making room for the cache"),
    (r"listening on", "answering its first request"),
)


def program(order: Order) -> str:
    """The server's program."""
    return str(order.launch.get("program") or "llama-server")


def argv(order: Order, model: str, port: int) -> list[str]:
    """Its command line; without --metrics it counts nothing. Raises HostError if the model's folder does not hold exactly one
    GGUF file."""
    fixed = [program(order), "--model", str(_file(order.model_path)), "--alias", model]
    shown = ["--metrics", "--log-verbosity", "4"]
    return [*fixed, "--host", "127.0.0.1", "--port", str(port), *shown, *render(order.arguments)]


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
    """Build, devices and what its processor code was built for, each only if the log states it."""
    made: dict[str, str] = {}
    if build := BUILD.search(log):
        made["engine_version_logged"] = f"b{build[1]}-{build[2]}"
    kernels = [f"devices {', '.join(found)}"] if (found := sorted(set(DEVICE.findall(log)))) else []
    if features := FEATURES.search(log):
        kernels.append(features[1])
    return made | ({"kernel": "; ".join(kernels)} if kernels else {})


ENGINE = Engine(
    "llama.cpp", argv, program, (), log_knobs, log_identity, stated, render, ("/props", "build_info"), (), PHASES,
)  # fmt: skip
