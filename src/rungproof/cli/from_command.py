"""`rungproof lane from-command`: a launch command, or a `docker run` line, as a lane file. Nothing is run or looked up."""

import argparse
import json
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rungproof.cli.words import clean
from rungproof.config.base import check_section, yaml_text, yaml_value
from rungproof.config.lanes import UNCACHED, Lane
from rungproof.plan.drafts import drafting
from rungproof.records.errors import ConfigError

OURS = {  # what rungproof sets itself, new for each server
    "vllm": ("host", "port", "served-model-name", "tokenizer"),
    "sglang": ("host", "port", "served-model-name", "tokenizer-path"),
    "llama.cpp": ("host", "port", "alias"),
}
SHORT = {
    "vllm": {"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "dp": "data-parallel-size", "q": "quantization"},
    "sglang": {"tp": "tensor-parallel-size", "dp": "data-parallel-size"},
    "llama.cpp": {
        "m": "model", "c": "ctx-size", "ngl": "n-gpu-layers", "b": "batch-size", "ub": "ubatch-size", "np": "parallel", "t": "threads",
        "fa": "flash-attn", "ctk": "cache-type-k", "ctv": "cache-type-v", "a": "alias",
    },
}  # fmt: skip
MODEL = {"vllm": ("model",), "sglang": ("model-path", "model"), "llama.cpp": ("model",)}
# Options of `docker run` that have no value.
FLAGS = {"rm", "it", "i", "t", "d", "detach", "interactive", "tty", "init", "privileged", "read-only", "ti"}
PLACES = (
    "entrypoint",
    "name",
    "network",
    "net",
    "p",
    "publish",
    "v",
    "volume",
    "mount",
    "w",
    "workdir",
    "pull",
    "label",
    "l",
    "restart",
    "u",
    "user",
)
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CRED|AUTH", re.IGNORECASE)


@dataclass
class Told:
    """What was made of a command: the lane's keys, and what a person must know or mend, as comments."""

    engine: str = ""
    program: str = ""
    model: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    container: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)


def add_options(to: argparse.ArgumentParser) -> None:
    """The options of `lane from-command`."""
    to.add_argument("line", metavar="COMMAND", help="the whole command in quotes, as it is typed today")
    to.add_argument(
        "--model",
        default="",
        metavar="MODEL",
        help="file under config/models/ (default: made from the command's model)",
    )
    to.add_argument("--environment", default="vllm-cpu", metavar="NAME", help="lock under envs/ (default: %(default)s)")
    to.add_argument("--title", default="", metavar="WORDS", help="name of the lane for people")


def run(options: argparse.Namespace) -> int:
    """Print the lane file. Exit code 1 where something in it must be mended before it can be used; the comments say what."""
    told = translate(options.line)
    lane = section(told, options.model, options.environment, options.title)
    for note in [*told.notes, *_first(told, lane, options)]:
        print(clean(f"# {note}"))
    print(yaml_text(lane), end="")
    try:
        check_section(Lane, lane, "this lane")
    except ConfigError as error:
        print(clean(f"rungproof: to be mended: {error}"), file=sys.stderr)
        return 1
    return 0


def _first(told: Told, lane: dict[str, Any], options: argparse.Namespace) -> list[str]:
    """What the lane needs and nobody has described to rungproof yet, as commands to type."""
    if options.model or not told.model:
        return []
    lies = told.model if told.model.startswith(("/", ".", "~")) else f"FOLDER (with the files of {told.model})"
    return [f"the model, once: rungproof model add {lane['model']} {lies} --licence SPDX --quantisation 'WORDS'"]


def section(told: Told, model: str, environment: str, title: str) -> dict[str, Any]:
    """The lane's keys in the order in which people read them."""
    slug = re.sub(r"[^a-z0-9_-]+", "-", told.model.rstrip("/").rpartition("/")[2].lower().removesuffix(".gguf")).strip(
        "-"
    )[:41]
    lane: dict[str, Any] = {
        "title": title or f"{slug or 'model'} on {told.engine}",
        "model": model or slug or "model",
        "engine": told.engine,
    }
    lane["launcher"] = "container" if told.container else "process"
    lane["environment"] = environment
    if told.container:
        lane["container"] = told.container
    if told.program:
        lane["program"] = told.program
    return {**lane, "arguments": told.arguments, **({"variables": told.variables} if told.variables else {})}


def translate(line: str) -> Told:
    """A command line as a lane. Raises ConfigError for one that starts no server that is known here."""
    try:
        words = [word for word in shlex.split(line.replace("\\\n", " ")) if word.strip()]
    except ValueError as error:
        raise ConfigError(
            f"lane from-command: the command is not whole ({error}); put all of it in single quotes"
        ) from error
    told = Told()
    words = _assignments(words, told)
    if len(words) > 1 and words[0].rpartition("/")[2] in ("docker", "podman") and words[1] == "run":
        words = _container(words[2:], told)
    _server(words, told)
    return told


def _assignments(words: Sequence[str], told: Told) -> list[str]:
    """Leading NAME=value words, with or without `env`."""
    rest = list(words)
    if rest[:1] == ["env"]:
        rest = rest[1:]
    while rest and re.fullmatch(r"[A-Za-z_]\w*=.*", rest[0], re.DOTALL):
        _variable(rest.pop(0), told)
    return rest


def _variable(word: str, told: Told) -> None:
    name, mark, value = word.partition("=")
    if not mark:
        told.notes.append(
            f"{name}: was taken from the caller's environment; write its value under variables, or leave it away"
        )
    elif SECRET.search(name):
        told.notes.append(f"{name}: left out, it looks like a secret; a lane file is published")
    else:
        told.variables[name] = value


def _container(words: Sequence[str], told: Told) -> list[str]:
    """The options of `docker run`; returns the words after the image."""
    made: dict[str, Any] = {}
    rest, entrypoint = list(words), ""
    while rest and rest[0].startswith("-"):
        name, mark, value = rest.pop(0).lstrip("-").partition("=")
        dashed = f"{'-' if len(name) == 1 else '--'}{name}"
        if name in FLAGS:
            if name == "privileged":
                told.notes.append("--privileged: left out; hand in the devices that are needed")
            continue
        if not mark:
            if not rest:
                raise ConfigError(f"lane from-command: {dashed} has no value; expected an image after the options")
            value = rest.pop(0)
        if name in ("e", "env"):
            _variable(value, told)
        elif name == "device":
            made.setdefault("devices", []).append(value.split(":")[0])
        elif name == "gpus":
            made.setdefault("devices", []).append("nvidia.com/gpu=all")
            told.notes.append(f"--gpus {value}: written as a CDI device; name the cards that are used")
        elif name in ("m", "memory", "shm-size"):
            _size("memory" if name != "shm-size" else "shm_size", value, made, told)
        elif name == "entrypoint":
            entrypoint = value
        elif name in PLACES:
            told.notes.append(f"{dashed} {value}: left out; rungproof sets network, mounts, name and port itself")
        else:
            told.notes.append(
                f"{dashed} {value}: belongs to the host; put it under container.arguments of the host profile if it is needed"
            )
    if not rest:
        raise ConfigError(
            "lane from-command: no image was found after the options of run; expected IMAGE and the server's arguments"
        )
    image = rest.pop(0)
    told.container = {"image": image, **made}
    if "sha256:" not in image:
        told.notes.append(
            f"image {image}: a tag can move; write its digest, as `docker image inspect --format '{{{{.Id}}}}' {image}` shows it"
        )
    if entrypoint:
        return [entrypoint, *rest]
    return rest if _engine_of(rest) else [_entrypoint(image), *rest]


def _size(key: str, value: str, made: dict[str, Any], told: Told) -> None:
    match = re.fullmatch(r"(\d+)([kmgKMG])[bB]?", value)
    if match:
        made[key] = f"{match[1]}{match[2].lower()}"
    else:
        told.notes.append(f"{key} {value}: left out; write it as a whole number with k, m or g")


def _entrypoint(image: str) -> str:
    """The program that a well-known image starts."""
    return "llama-server" if "llama" in image else "sglang" if "sglang" in image else "vllm"


def _engine_of(words: Sequence[str]) -> tuple[str, int] | None:
    """(engine, how many words name it) of a server's command; None for any other."""
    first = words[0].rpartition("/")[2] if words else ""
    if first == "vllm":
        return "vllm", 2 if words[1:2] == ["serve"] else 1
    if first == "llama-server":
        return "llama.cpp", 1
    if first == "sglang":
        return "sglang", 2 if words[1:2] == ["serve"] else 1
    if re.fullmatch(r"python[\d.]*", first) and words[1:2] == ["-m"] and len(words) > 2:
        known = {"vllm": "vllm", "sglang": "sglang"}
        engine = known.get(words[2].split(".")[0])
        return (engine, 3) if engine else None
    return None


def _server(words: Sequence[str], told: Told) -> None:
    found = _engine_of(words)
    if found is None:
        raise ConfigError(
            f"lane from-command: {' '.join(words[:3]) or 'nothing'!r} starts no server that is known here; expected vllm serve, python -m vllm..., "
            "python -m sglang.launch_server, llama-server, or docker run IMAGE with one of them. For any other write a lane with `engine: command`."
        )
    told.engine, skip = found
    if told.engine == "llama.cpp" and words[0] != "llama-server":
        told.program = words[0]
    for key, value in _options(list(words[skip:]), told):
        if key in MODEL[told.engine]:
            told.model = str(value)
        elif key in ("api-key", "hf-token"):
            told.notes.append(f"--{key}: left out, it is a secret; the server listens on the loopback alone")
        elif key in OURS[told.engine]:
            told.notes.append(f"--{key}: left out; rungproof sets it, new for each server")
        elif drafting(told.engine, {key: value}):
            told.notes.append(
                f"--{key}: left out; who speculates is an arm of a campaign, held against an arm without: "
                + (f"speculation: {_speculation(value)}" if told.engine == "vllm" else f"arguments: {{{key}: {value}}}")
                + ", oracle: THE OTHER ARM"
            )
        else:
            told.arguments[key] = value
    key, wanted = UNCACHED[told.engine]
    if told.arguments.get(key) is not wanted:
        told.notes.append(f"{key}: {str(wanted).lower()} was added: no prompt may be answered from a cache")
        told.arguments[key] = wanted
    if not told.model:
        told.notes.append("the command names no model")


def _speculation(value: Any) -> str:
    """A speculative-config of vLLM as an arm's section, as far as it is one."""
    if not isinstance(value, dict):
        return f"(from {value})"
    own = {"num_speculative_tokens": "depth"}
    plain = ("method", "prompt_lookup_max", "prompt_lookup_min")
    made = {own.get(key, key): of for key, of in value.items() if key in (*own, *plain)}
    more = {key: of for key, of in value.items() if key not in (*own, *plain)}
    return json.dumps(made | ({"arguments": more} if more else {}))


def _options(words: list[str], told: Told) -> Iterator[tuple[str, Any]]:
    """(key, value) of each option; a first word without a dash is the model of `vllm serve`."""
    while words:
        word = words.pop(0)
        if not word.startswith("-") or word == "-":
            yield MODEL[told.engine][0], word
            continue
        name, mark, value = word.lstrip("-").partition("=")
        name = SHORT[told.engine].get(name, name).replace("_", "-")
        if mark:
            yield name, yaml_value(value)
        elif words and not re.match(r"-{1,2}[A-Za-z]", words[0]):
            yield name, yaml_value(words.pop(0))
        elif name.startswith("no-"):
            yield name.removeprefix("no-"), False
        else:
            yield name, True
