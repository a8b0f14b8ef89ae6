"""The clients that are compared: how each is called on one load, and how what it saved is read. `make bench` runs them."""

import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from truth import Answer

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@dataclass(frozen=True)
class Load:
    """One load. `url`: base of the server, without /v1; `model`: name served; `tokenizer`: a folder with one."""

    case: str
    url: str
    model: str
    streams: int
    tokens: int
    tokenizer: Path | None


@dataclass(frozen=True)
class Tool:
    """One client. `lock`: its environment's, under envs/, "" where it runs in another's; `command`: from its Python, the load and
    an empty folder; `read`: its answers from that folder."""

    name: str
    lock: str
    command: Callable[[Path, Load, Path], list[str]]
    read: Callable[[Path], list[Answer]]
    needs_tokenizer: bool = False


def python_of(tool: Tool, build: Path, vllm: Path | None) -> Path | None:
    """The Python of a tool's environment, made from its lock if need be; None where it is the server's and that is not there."""
    if tool.name == "rungproof":
        return Path(sys.executable)
    if not tool.lock:
        return None if vllm is None else vllm / "bin/python"
    folder, ready = build / "bench" / tool.lock, build / "bench" / f"{tool.lock}.ready"
    lock = ROOT / "envs" / f"{tool.lock}.lock"
    if not ready.exists() or ready.read_text() != lock.read_text():
        print(f"making the environment of {tool.name} in {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        command = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--require-hashes", "-r", lock]
        extra = ["--extra-index-url", (ROOT / "envs/torch-cpu-index.txt").read_text().strip()]
        if subprocess.run(command).returncode:  # torch for the processor alone is on few indexes
            subprocess.run([*command, *extra], check=True)
        ready.write_text(lock.read_text())
    return folder / "bin/python"


def variables(tool: Tool) -> dict[str, str]:
    """The environment variables of a tool: no hub, no telemetry, no proxy."""
    kept = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    extra = {"DO_NOT_TRACK": "1", "VLLM_NO_USAGE_STATS": "1", "GUIDELLM__LOGGING__DISABLED": "true"}
    if tool.name != "AIPerf":  # which takes a tokenizer's folder for a hub's name when it is told to stay offline
        extra |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    if tool.name == "rungproof":
        extra["PYTHONPATH"] = str(ROOT / "src")
    return {**kept, **extra}


def _ours(script: str) -> Callable[[Path, Load, Path], list[str]]:
    def command(python: Path, load: Load, out: Path) -> list[str]:
        made = [
            str(python),
            str(HERE / script),
            "--url",
            load.url,
            "--model",
            load.model,
            "--out",
            str(out / "answers.json"),
        ]
        return [*made, "--streams", str(load.streams), "--tokens", str(load.tokens)]

    return command


def _read_ours(out: Path) -> list[Answer]:
    return [Answer(**one) for one in json.loads((out / "answers.json").read_text())]


def _vllm(python: Path, load: Load, out: Path) -> list[str]:
    return [
        str(python), str(HERE / "vllm_bench.py"), "--backend", "openai", "--base-url", load.url, "--endpoint", "/v1/completions",
        "--model", load.model, "--tokenizer", str(load.tokenizer), "--dataset-name", "random", "--random-input-len", "16",
        "--random-output-len", str(load.tokens), "--num-prompts", str(load.streams), "--max-concurrency", str(load.streams),
        "--ready-check-timeout-sec", "0", "--disable-tqdm", "--save-result", "--save-detailed", "--result-dir", str(out),
        "--result-filename", "result.json",
    ]  # fmt: skip


def _read_vllm(out: Path) -> list[Answer]:
    value = json.loads((out / "result.json").read_text())
    rows = zip(
        value["ttfts"], value["itls"], value["output_lens"], value["generated_texts"], value["errors"], strict=True
    )
    return [
        Answer(not error, ttft * 1000, [gap * 1000 for gap in itls], count, text)
        for ttft, itls, count, text, error in rows
    ]


def _guidellm(python: Path, load: Load, out: Path) -> list[str]:
    return [
        str(python.parent / "guidellm"), "run", "--disable-console-interactive",
        "--backend", f"kind=openai_http,target={load.url},model={load.model},request_format=/v1/completions",
        "--profile", f"kind=concurrent,streams={load.streams}", "--constraint", f"kind=max_requests,count={load.streams}",
        "--tokenizer", f"kind=huggingface_auto,model={load.tokenizer}",
        "--data", f"kind=synthetic_text,prompt_tokens=16,output_tokens={load.tokens}", "--output", f"kind=json,path={out / 'result.json'}",
    ]  # fmt: skip


def _read_guidellm(out: Path) -> list[Answer]:
    """It saves no time of an event but the first and the last."""
    groups = json.loads((out / "result.json").read_text())["benchmarks"][0]["requests"]
    return [
        Answer(name == "successful", one["time_to_first_token_ms"], None, one["output_tokens"], one["output"])
        for name in ("successful", "errored", "incomplete")
        for one in groups.get(name) or ()
    ]


def _aiperf(python: Path, load: Load, out: Path) -> list[str]:
    return [
        str(python.parent / "aiperf"), "profile", "--model", load.model, "--url", load.url, "--endpoint-type", "completions",
        "--streaming", "--concurrency", str(load.streams), "--request-count", str(load.streams), "--tokenizer", str(load.tokenizer),
        "--synthetic-input-tokens-mean", "16", "--output-tokens-mean", str(load.tokens), "--use-server-token-count",
        "--use-legacy-max-tokens", "--export-level", "raw", "--artifact-dir", str(out), "--ui", "simple",
    ]  # fmt: skip


def _read_aiperf(out: Path) -> list[Answer]:
    """Figures from its records, texts from its raw ones."""
    texts = {}
    raw = out / "profile_export_raw.jsonl"  # not there where every request failed
    for line in raw.read_text().splitlines() if raw.exists() else ():
        one = json.loads(line)
        packets = [packet["value"] for answer in one["responses"] or () for packet in answer.get("packets", ())]
        texts[one["metadata"]["x_request_id"]] = "".join(_text(packet) for packet in packets)
    made = []
    for line in (out / "profile_export.jsonl").read_text().splitlines():
        one = json.loads(line)
        found = {name: metric["value"] for name, metric in one["metrics"].items()}
        text = texts.get(one["metadata"]["x_request_id"])
        count = found.get("output_sequence_length")
        ttft, gaps = found.get("time_to_first_token"), found.get("inter_chunk_latency")
        made.append(Answer(not one.get("error"), ttft, gaps, None if count is None else int(count), text))
    return made


def _text(packet: str) -> str:
    try:
        return str(json.loads(packet)["choices"][0]["text"])
    except (ValueError, LookupError, TypeError):
        return ""


TOOLS = (
    Tool("rungproof", "", _ours("ours.py"), _read_ours),
    Tool("aiohttp", "bench-aiohttp", _ours("plain_aiohttp.py"), _read_ours),
    Tool("vllm bench serve", "", _vllm, _read_vllm, needs_tokenizer=True),
    Tool("GuideLLM", "bench-guidellm", _guidellm, _read_guidellm, needs_tokenizer=True),
    Tool("AIPerf", "bench-aiperf", _aiperf, _read_aiperf, needs_tokenizer=True),
)
