"""SGLang's OpenAI server. It writes every argument in force, defaults too, in one line: "server_args={...}", in older versions
"server_args=ServerArgs(...)". Its completions give token ids as vLLM's do, if asked by `return_token_ids`.

Without --enable-metrics there is no /metrics, without --enable-cache-report no request says what was cached: both are always asked.
"""

import ast
import re
from collections.abc import Mapping
from typing import Any

from rungproof.measure.serving.engines.engine import Engine, agrees, expression, flags, text
from rungproof.measure.serving.order import Order
from rungproof.records.formats import Knob

ARGS = re.compile(r"server_args=(?:ServerArgs\((.*)\)|(\{.*\}))\s*$", re.MULTILINE)
BACKENDS = ("attention_backend", "prefill_attention_backend", "decode_attention_backend", "sampling_backend")
UNLIKE = (
    "host",
    "port",
    "model_path",
    "served_model_name",
    "tokenizer_path",
    "random_seed",
    "nccl_port",
)  # new for each
PHASES = (
    (r"server_args=", "starting the engine"),
    (r"Load weight begin", "loading the model"),
    (r"Load weight end", "making room for the cache"),
    (r"Waiting for application startup", "answering its first request"),
)


def argv(order: Order, model: str, port: int) -> list[str]:
    """Its command line."""
    fixed = [order.python, "-m", "sglang.launch_server", "--model-path", order.model_path, "--served-model-name", model]
    shown = ["--enable-metrics", "--enable-cache-report"]
    return [*fixed, "--host", "127.0.0.1", "--port", str(port), *shown, *flags(order.arguments)]


def _in_force(log: str) -> dict[str, str]:
    """Its own name of an argument -> the Python text of its value; {} where the log has no such line."""
    line = ARGS.search(log)
    if line is None:
        return {}
    if line[2]:
        try:
            return {str(name): repr(value) for name, value in ast.literal_eval(line[2]).items()}
        except (ValueError, SyntaxError, AttributeError, MemoryError, RecursionError):
            return {}
    names = re.findall(r"(?:^|, )(\w+)=", line[1])
    found = ((name, expression(line[1], f"{name}=")) for name in names)
    return {name: value for name, value in found if value is not None}


def log_knobs(arguments: Mapping[str, Any], log: str) -> tuple[Knob, ...]:
    """Every argument in its one line; without that line nothing is in force."""
    found = _in_force(log)
    if not found:
        return (Knob("engine configuration", "stated in the log", None, "log: server_args", False),)
    names = ((key, value, key.replace("-", "_")) for key, value in arguments.items())
    # Some short names of the command line are written in full there.
    return tuple(
        Knob(f"--{key}", text(value), found[name], "log: server_args", agrees(value, found[name]))
        for key, value, name in names
        if name in found
    )


def log_identity(log: str) -> dict[str, str]:
    """Backends in force and the configuration line, each only if the log states it."""
    made: dict[str, str] = {}
    values = {name: value.strip("'\"") for name, value in _in_force(log).items()}
    if kernels := [f"{name} {values[name]}" for name in BACKENDS if values.get(name, "None") != "None"]:
        made["kernel"] = "; ".join(kernels)
    if line := ARGS.search(log):
        made["engine_config"] = (line[1] or line[2]).strip()
    return made


def stated(log: str) -> dict[str, str]:
    """All arguments in force, by our names."""
    return {
        name.replace("_", "-"): value.strip("'\"")
        for name, value in _in_force(log).items()
        if name not in UNLIKE and not name.startswith("_")
    }


ENGINE = Engine(
    "sglang", argv, lambda order: order.python, (), log_knobs, log_identity, stated, flags, ("/server_info", "version"), ("sglang",),
    PHASES,
)  # fmt: skip
