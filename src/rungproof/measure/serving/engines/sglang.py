"""SGLang's OpenAI server. It writes every argument in force, defaults too, in one line: "server_args=ServerArgs(...)"."""

import re
from collections.abc import Mapping
from typing import Any

from rungproof.measure.serving.engines.engine import Engine, agrees, expression, flags, text
from rungproof.measure.serving.order import Order
from rungproof.records.formats import Knob

ARGS = re.compile(r"server_args=ServerArgs\((.*)\)")
BACKEND = re.compile(r"Use \w+ (?:attention )?backend\b[^\n]*|Attention backend not (?:set|explicitly specified)[^\n]*")
UNLIKE = (
    "host",
    "port",
    "model_path",
    "served_model_name",
    "tokenizer_path",
    "random_seed",
    "nccl_port",
)  # new for each server


def argv(order: Order, model: str, port: int) -> list[str]:
    """Its command line."""
    fixed = [order.python, "-m", "sglang.launch_server", "--model-path", order.model_path, "--served-model-name", model]
    return [*fixed, "--host", "127.0.0.1", "--port", str(port), *flags(order.arguments)]


def log_knobs(arguments: Mapping[str, Any], log: str) -> tuple[Knob, ...]:
    """Every argument in its one line; without that line nothing is in force."""
    line = ARGS.search(log)
    if line is None:
        return (Knob("engine configuration", "stated in the log", None, "log: server_args", False),)
    made = []
    for key, value in arguments.items():
        found = expression(line[1], f"{key.replace('-', '_')}=")
        if found is not None:  # some short names of the command line are written in full there
            made.append(Knob(f"--{key}", text(value), found, "log: server_args", agrees(value, found)))
    return tuple(made)


def log_identity(log: str) -> dict[str, str]:
    """Backends chosen and the configuration line, each only if the log states it."""
    made: dict[str, str] = {}
    if found := list(dict.fromkeys(match[0].strip() for match in BACKEND.finditer(log))):
        made["kernel"] = "; ".join(found)
    if line := ARGS.search(log):
        made["engine_config"] = line[1].strip()
    return made


def stated(log: str) -> dict[str, str]:
    """All arguments in force, by our names."""
    line = ARGS.search(log)
    names = re.findall(r"(?:^|, )(\w+)=", line[1]) if line else []
    found = ((name, expression(line[1], f"{name}=")) for name in names if name not in UNLIKE) if line else ()
    return {name.replace("_", "-"): value.strip("'\"") for name, value in found if value is not None}


ENGINE = Engine(
    "sglang", argv, lambda order: order.python, (), log_knobs, log_identity, stated, flags, ("/get_server_info", "version"), ("sglang",),
)  # fmt: skip
