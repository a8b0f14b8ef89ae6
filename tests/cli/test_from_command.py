"""`rungproof lane from-command`: launch lines as people type them, as lane files that the configuration accepts."""

import json
from typing import Any

import pytest
import yaml

from cli.kit import HOSTILE
from rungproof.cli import main

DIGEST = "sha256:" + "ab" * 32


def lane(capsys: pytest.CaptureFixture[str], line: str, *more: str, code: int = 0) -> tuple[dict[str, Any], str]:
    """The lane of a line, and everything that was said about it."""
    assert main(["lane", "from-command", line, *more]) == code
    out, err = capsys.readouterr()
    return yaml.safe_load(out), out + err


def test_a_vllm_line_becomes_a_lane(capsys: pytest.CaptureFixture[str]) -> None:
    """Arguments, switches, JSON and leading variables are kept; what rungproof sets itself is told and left out."""
    spec = json.dumps({"method": "ngram", "num_speculative_tokens": 3})
    made, said = lane(
        capsys,
        f"VLLM_CPU_KVCACHE_SPACE=2 HF_TOKEN=hf_secret vllm serve org/Some-Model_1 --port 8000 --host 0.0.0.0 -tp 2 --dtype=bfloat16 --enforce-eager "
        f"--max_model_len 8192 --no-enable-prefix-caching --gpu-memory-utilization 0.9 --speculative-config '{spec}' --served-model-name x --api-key planted",
    )
    assert made == {
        "title": "some-model_1 on vllm", "model": "some-model_1", "engine": "vllm", "launcher": "process", "environment": "vllm-cpu",
        "arguments": {
            "tensor-parallel-size": 2, "dtype": "bfloat16", "enforce-eager": True, "max-model-len": 8192, "enable-prefix-caching": False,
            "gpu-memory-utilization": 0.9,
        },
        "variables": {"VLLM_CPU_KVCACHE_SPACE": "2"},
    }  # fmt: skip
    assert "hf_secret" not in said
    assert "planted" not in said
    for words in (
        "# HF_TOKEN: left out",
        "# --port: left out",
        "# --host: left out",
        "# --served-model-name: left out",
        '# --speculative-config: left out; who speculates is an arm of a campaign, held against an arm without: speculation: {"method": "ngram", "depth": 3}, oracle',
    ):
        assert words in said


@pytest.mark.parametrize(
    ("line", "engine", "key", "value"),
    [
        ("python3 -m vllm.entrypoints.openai.api_server --model /m/x --seed 1", "vllm", "enable-prefix-caching", False),
        ("python -m sglang.launch_server --model-path org/x --tp 2", "sglang", "disable-radix-cache", True),
        ("/opt/llama/llama-server -m /m/Tiny-Q4.gguf -c 8192 -ngl 99 -fa on", "llama.cpp", "cache-prompt", False),
    ],
)
def test_each_engine_is_known_and_its_cache_turned_off(
    line: str, engine: str, key: str, value: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever engine: no prompt may be answered from a cache, and what was added for it is told."""
    made, said = lane(capsys, line)
    assert (made["engine"], made["arguments"][key]) == (engine, value)
    assert f"# {key}: {str(value).lower()} was added" in said
    assert ("program" in made) == (engine == "llama.cpp")


def test_a_docker_line_becomes_a_container_lane(capsys: pytest.CaptureFixture[str]) -> None:
    """Image, devices, limits and variables; mounts, ports and names are rungproof's own; host matters are told."""
    made, said = lane(
        capsys,
        f"docker run --rm -it --name v -p 8000:8000 -v ~/.cache:/root/.cache --ipc=host --device /dev/dri:/dev/dri --memory 16G --shm-size=8g -e ZE_AFFINITY_MASK=0 "
        f"-e API_KEY=planted -e HF_HOME registry/vllm-xpu@{DIGEST} --model org/x --dtype float16 --no-enable-prefix-caching",
        "--model", "mine", "--title", "My lane",
    )  # fmt: skip
    assert made == {
        "title": "My lane", "model": "mine", "engine": "vllm", "launcher": "container", "environment": "vllm-cpu",
        "container": {"image": f"registry/vllm-xpu@{DIGEST}", "devices": ["/dev/dri"], "memory": "16g", "shm_size": "8g"},
        "arguments": {"dtype": "float16", "enable-prefix-caching": False}, "variables": {"ZE_AFFINITY_MASK": "0"},
    }  # fmt: skip
    assert "planted" not in said
    for words in (
        "# API_KEY: left out",
        "# HF_HOME: was taken from",
        "# --ipc host: belongs to the host",
        "# -v ~/.cache:/root/.cache: left out",
    ):
        assert words in said


def test_a_tag_is_not_enough(capsys: pytest.CaptureFixture[str]) -> None:
    """An image by its tag is told to be mended, with how its digest is found; exit code 1."""
    made, said = lane(capsys, "podman run --gpus all vllm/vllm-openai:latest --model org/x", code=1)
    assert made["container"] == {"image": "vllm/vllm-openai:latest", "devices": ["nvidia.com/gpu=all"]}
    assert "a tag can move" in said
    assert "to be mended: this lane: container.image" in said


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("ollama serve", "starts no server that is known here"), ("", "starts no server"), ("vllm serve 'x", "not whole"),
        ("docker run --rm", "no image was found"), ("docker run --device", "has no value"), (f"ollama {HOSTILE}", "starts no server"),
    ],
)  # fmt: skip
def test_what_cannot_be_translated_is_told(line: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, with what was expected; hostile words do nothing to the terminal."""
    assert main(["lane", "from-command", line]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert "\x1b" not in err
