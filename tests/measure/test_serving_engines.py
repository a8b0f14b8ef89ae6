"""Engines as small descriptions: how each writes its arguments, and what its own log proves."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from measure.serving_bench import Bench, opened
from measure.test_serving_proof import order
from rungproof.measure import serving
from rungproof.measure.serving import engines, knobs, procfs
from rungproof.records.errors import HostError

bench = pytest.fixture(opened)
SGLANG = (
    "[2026-01-01 00:00:00] server_args=ServerArgs(model_path='/data/model', tokenizer_path='/data/model', host='127.0.0.1', port=31000, "
    "dtype='bfloat16', tp_size=1, max_running_requests=16, disable_radix_cache=True, served_model_name='m-1', random_seed=77, "
    "speculative_algorithm=None, cuda_graph_bs=[1, 2, 4], attention_backend='triton')\n"
)
# The same line as SGLang 0.5.23 writes it: a dict.
SGLANG_DICT = (
    "[2026-01-01 00:00:00] server_args={'model_path': '/data/model', 'tokenizer_path': '/data/model', 'host': '127.0.0.1', 'port': 31000, "
    "'dtype': 'bfloat16', 'tp_size': 1, 'max_running_requests': 16, 'disable_radix_cache': True, 'served_model_name': 'm-1', "
    "'random_seed': 77, 'speculative_algorithm': None, 'cuda_graph_bs': [1, 2, 4], 'attention_backend': 'triton', '_own': 1}\n"
)
LLAMA = (
    "0.00.006 I cmn  common_param: common_params_print_info: build 11434 (ab12cd34) with GNU 12.2.0 for Linux x86_64\n"
    "0.00.007 I cmn  common_param: system_info: n_threads = 1 (n_threads_batch = 1) / 2 | CPU : AVX2 = 1 | AVX512 = 1 | REPACK = 1 | \n"
    "0.00.514 I llama_context: n_seq_max             = 4\n0.00.514 I llama_context: n_ctx                 = 8192\n"
    "0.00.514 I llama_context: n_batch               = 2048\nllama_model_load_from_file_impl: using device Vulkan0 (Intel)\n"
)


def asking(engine: str, **arguments: object) -> serving.Order:
    made = {key.replace("_", "-"): value for key, value in arguments.items()}
    return order(launch={"engine": engine, "model": "m", "arguments": made, "variables": {}})


def verify(engine: str, log: str, **arguments: object) -> dict[str, knobs.Knob]:
    asked = asking(engine, **arguments)
    found = engines.find(engine)
    seen = knobs.Shown(tuple(found.argv(replace(asked, model_path="/data/x.gguf"), "m-1", 31000)), {})
    return {f"{knob.name} {knob.source}": knob for knob in knobs.verify(found, asked.arguments, {}, seen, log)}


def test_sglang_is_written_and_read_in_its_own_way() -> None:
    """Its flags have no negation: false is written by leaving it away, and is in force if it is not there."""
    argv = engines.find("sglang").argv(
        asking("sglang", disable_radix_cache=True, enable_mixed_chunk=False, tp_size=1), "m-1", 31000
    )
    assert argv[1:5] == ["-m", "sglang.launch_server", "--model-path", "/data/model"]
    assert argv[-3:] == ["--disable-radix-cache", "--tp-size", "1"]
    found = verify("sglang", SGLANG, disable_radix_cache=True, enable_mixed_chunk=False, tp_size=1, dtype="bfloat16")
    assert all(knob.ok for knob in found.values()), found
    assert "--tp-size log: server_args" in found
    newer = verify(
        "sglang", SGLANG_DICT, disable_radix_cache=True, tp_size=1, dtype="bfloat16", cuda_graph_bs=[1, 2, 4]
    )
    assert all(knob.ok for knob in newer.values()), newer
    assert {"--tp-size log: server_args", "--cuda-graph-bs log: server_args"} <= set(newer)
    wrong = verify("sglang", SGLANG_DICT.replace("'tp_size': 1", "'tp_size': 2"), tp_size=1)
    assert [name for name, knob in wrong.items() if not knob.ok] == ["--tp-size log: server_args"]
    broken = verify("sglang", SGLANG_DICT.replace("'tp_size': 1", "'tp_size': Size(1)"), tp_size=1)
    assert [name for name, knob in broken.items() if not knob.ok] == ["engine configuration log: server_args"]
    wrong = verify("sglang", SGLANG.replace("tp_size=1", "tp_size=2"), tp_size=1)
    assert [name for name, knob in wrong.items() if not knob.ok] == ["--tp-size log: server_args"]
    silent = verify("sglang", "nothing", tp_size=1)
    assert [name for name, knob in silent.items() if not knob.ok] == ["engine configuration log: server_args"]


def test_sglang_states_its_defaults_without_what_is_new_for_each_server() -> None:
    """Two servers of one configuration state the same; port, name and seed of a server are no configuration."""
    stated = engines.find("sglang").stated(SGLANG)
    assert (stated["max-running-requests"], stated["attention-backend"], stated["cuda-graph-bs"]) == (
        "16",
        "triton",
        "[1, 2, 4]",
    )
    again = SGLANG.replace("31000", "32000").replace("'m-1'", "'m-2'").replace("77", "78")
    assert engines.find("sglang").stated(again) == stated
    assert engines.find("sglang").stated(SGLANG_DICT) == stated
    assert engines.find("sglang").log_identity(SGLANG_DICT)["kernel"] == "attention_backend triton"


def test_llama_cpp_is_written_and_read_in_its_own_way(tmp_path: Path) -> None:
    """One GGUF file of the model's folder, an alias for the name, and the context in force from its log."""
    engine = engines.find("llama.cpp")
    asked = replace(asking("llama.cpp", ctx_size=8192, cache_prompt=False), model_path=str(tmp_path))
    with pytest.raises(HostError, match="holds 0 GGUF files"):
        engine.argv(asked, "m-1", 31000)
    (tmp_path / "x.gguf").touch()
    argv = engine.argv(asked, "m-1", 31000)
    assert argv[:5] == ["llama-server", "--model", str(tmp_path / "x.gguf"), "--alias", "m-1"]
    assert argv[-3:] == ["--ctx-size", "8192", "--no-cache-prompt"]
    assert all(knob.ok for knob in verify("llama.cpp", LLAMA, ctx_size=8192, parallel=4, cache_prompt=False).values())
    wrong = verify("llama.cpp", LLAMA, ctx_size=4096)
    assert [name for name, knob in wrong.items() if not knob.ok] == ["--ctx-size log: llama_context"]
    assert engine.log_identity(LLAMA) == {
        "engine_version_logged": "b11434-ab12cd34",
        "kernel": "devices Vulkan0; CPU : AVX2 = 1 | AVX512 = 1 | REPACK = 1",
    }
    assert [k.ok for k in engine.log_knobs({}, "nothing")] == [False]


CHILD = "import os, sys, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\nfrom rungproof.measure.simulated import main\nsys.exit(main(sys.argv[1:]))\n"


def test_any_command_is_started_proven_and_ended_with_a_child_in_a_session_of_its_own(bench: Bench) -> None:
    """A server that is described by its words alone; a child that left its process group and session is ended with it."""
    source = Path(engines.__file__).resolve().parents[4]
    launch = {
        "engine": "command", "model": "m", "command": ["{python}", "-c", CHILD, "--port", "{port}", "--served-model-name", "{name}"],
        "arguments": {"start-s": 0.05}, "variables": {"PYTHONPATH": str(source)},
    }  # fmt: skip
    server = bench.start(replace(bench.order, launch=launch, python=sys.executable))
    assert (server.status, server.reasons) == ("ready", ())
    assert server.identity["engine"] == "command"
    assert server.pid is not None
    held = bench.guarded(2)
    (child,) = [(pid, start) for pid, start, _ in held.processes if pid != server.pid]
    assert os.getsid(child[0]) == child[0]
    closed = serving.stop(bench.folder)
    assert not procfs.alive(*child)
    assert [text for text in closed.leftovers if f"({child[0]})" in text] == list(closed.leftovers)
    assert len(closed.leftovers) == 1


def test_a_command_s_places_are_filled() -> None:
    """{python}, {model}, {name} and {port} wherever they stand in a word; arguments follow as they are written."""
    launch = {
        "engine": "command",
        "command": ["{python}", "s.py", "--at=127.0.0.1:{port}", "{model}", "{name}"],
        "arguments": {"x": 1},
        "variables": {},
    }
    argv = engines.find("command").argv(order(launch=launch), "m-1", 31000)
    assert argv == ["/env/bin/python", "s.py", "--at=127.0.0.1:31000", "/data/model", "m-1", "--x", "1"]


def test_a_native_server_is_known_by_its_program_and_the_libraries_that_came_with_it(tmp_path: Path) -> None:
    """Digests of the program, of what lies beside it and of llama.cpp's own; nothing of the system, and nothing half."""
    from rungproof.measure.serving import identity

    files = {
        "opt/l/llama-server": b"p",
        "opt/l/libx.so.1": b"x",
        "usr/lib/libggml-base.so.0": b"g",
        "usr/lib/libc.so.6": b"c",
    }
    process = tmp_path / "proc/7"
    for name, data in files.items():
        (process / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (process / "root" / name).write_bytes(data)
    (process / "exe").symlink_to("/opt/l/llama-server")
    (process / "maps").write_text("".join(f"7f00-7f01 r-xp 00000000 08:01 5 /{name}\n" for name in files))
    found = identity.programs(7, tmp_path / "proc")
    assert sorted(found) == ["libggml-base.so.0", "libx.so.1", "llama-server"]
    assert found["llama-server"] == hashlib.sha256(b"p").hexdigest()
    (process / "root/usr/lib/libggml-base.so.0").unlink()
    assert identity.programs(7, tmp_path / "proc") == {}
    assert identity.programs(8, tmp_path / "proc") == {}


def test_only_an_interpreter_is_asked_for_its_packages(tmp_path: Path) -> None:
    """A server's program is never run to find out what it is."""
    program = tmp_path / "llama-server"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    from rungproof.measure.serving import identity

    assert identity.interpreter(str(program)) == ("", [])
    assert not (tmp_path / "ran").exists()
    assert subprocess.run([str(program)], check=False).returncode == 0
    assert (tmp_path / "ran").exists()
