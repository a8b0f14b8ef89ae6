"""The comparison of clients: errors are computed from the server's stamps, and every tool's own files are read as they are."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "bench/client"))

import page  # noqa: E402
from processor import tree_ns, waited_s  # noqa: E402
from tools import TOOLS, Load  # noqa: E402
from truth import Answer, Outcome, figures, rank, stamps_of  # noqa: E402

TEXT = "1000000000>1020000000 1040000000 1060500000 "
READ = {tool.name: tool.read for tool in TOOLS}


def test_the_truth_stands_in_the_text() -> None:
    """Arrival and send stamps of a stream are read back from what a client kept of it."""
    assert stamps_of(TEXT) == (1_000_000_000, [1_020_000_000, 1_040_000_000, 1_060_500_000])
    assert stamps_of("t0 t1 ") == (None, [])


def test_errors_are_reported_minus_true() -> None:
    """A first token reported 3 ms late and a gap 0.5 ms short are just that; a list of another length is not compared."""
    one = Answer(True, 23.0, [20.0, 20.0], 3, TEXT)
    other = Answer(True, 20.0, [20.0], 3, TEXT)
    found = figures(Outcome("x", "c2", [one, other], 0), 2, 3)
    assert (found["ttft_error_p50_ms"], found["ttft_error_p99_ms"]) == (0.0, 3.0)
    assert (found["itl_compared"], found["itl_error_p50_ms"], found["itl_error_p99_ms"]) == (2, 0.0, 0.5)
    assert (found["ok"], found["tokens_counted"], found["tokens_sent"], found["tokens_in_texts"]) == (2, 6, 6, 6)


def test_nothing_reported_is_none() -> None:
    """A tool that saved nothing has no figures, never zeros."""
    found = figures(Outcome("x", "c2", words="gone"), 2, 3)
    assert (found["ttft_error_p99_ms"], found["itl_error_p99_ms"], found["tokens_counted"]) == (None, None, None)
    assert rank([], 0.5) is None
    assert "gone" in page.table([found])
    assert "none" in page.table([{**found, "words": ""}])


def saved(name: str, folder: Path) -> None:
    """What a tool leaves behind, cut down to what is read."""
    if name in ("rungproof", "aiohttp"):
        answer = {"ok": True, "ttft_ms": 20.0, "itl_ms": [20.0, 20.5], "tokens": 3, "text": TEXT}
        (folder / "answers.json").write_text(json.dumps([answer]))
    elif name == "vllm bench serve":
        value = {
            "ttfts": [0.02], "itls": [[0.02, 0.0205]], "output_lens": [3], "generated_texts": [TEXT], "errors": [""],
        }  # fmt: skip
        (folder / "result.json").write_text(json.dumps(value))
    elif name == "GuideLLM":
        one = {"time_to_first_token_ms": 20.0, "output_tokens": 3, "output": TEXT}
        value = {"benchmarks": [{"requests": {"successful": [one], "errored": [], "incomplete": None}}]}
        (folder / "result.json").write_text(json.dumps(value))
    else:
        packets = [{"packets": [{"value": json.dumps({"choices": [{"text": part + " "}]})}]} for part in TEXT.split()]
        packets.append({"packets": [{"value": "[DONE]"}]})
        metrics = {"time_to_first_token": 20.0, "inter_chunk_latency": [20.0, 20.5], "output_sequence_length": 3}
        record = {"metadata": {"x_request_id": "a"}, "metrics": {k: {"value": v} for k, v in metrics.items()}}
        (folder / "profile_export.jsonl").write_text(json.dumps(record) + "\n")
        (folder / "profile_export_raw.jsonl").write_text(json.dumps({**record, "responses": packets}) + "\n")


@pytest.mark.parametrize("name", READ)
def test_every_tool_is_read(name: str, tmp_path: Path) -> None:
    """The same stream, as each tool saves it, is the same answer; a tool that keeps no gaps has none."""
    saved(name, tmp_path)
    (found,) = READ[name](tmp_path)
    gaps = None if name == "GuideLLM" else pytest.approx([20.0, 20.5])
    assert (found.ok, found.ttft_ms, found.itl_ms, found.tokens) == (True, pytest.approx(20.0), gaps, 3)
    assert stamps_of(found.text or "") == stamps_of(TEXT)


@pytest.mark.parametrize("tool", TOOLS, ids=[tool.name for tool in TOOLS])
def test_every_tool_gets_the_same_load(tool: Any, tmp_path: Path) -> None:
    """Number of streams, tokens, server and model stand in each command line."""
    load = Load("c7", "http://127.0.0.1:1", "the-model", 7, 64, tmp_path)
    words = " ".join(tool.command(Path("/env/bin/python"), load, tmp_path))
    assert all(part in words for part in ("http://127.0.0.1:1", "the-model", "7", "64"))


def test_the_tables_hold_every_case() -> None:
    """Loads by their size, hard streams a client a row, and the page escapes what a tool said."""
    rows = [figures(Outcome(name, case, [Answer(True, 1.0, None, 5, "x")], 0, words=words), 4, 12)
            for name, words in (("rungproof", ""), ("other", "<b>no</b>"))
            for case in ("c128", "c1", "S37", "S11", "S15", "S16")]  # fmt: skip
    head, body = page.loads(rows)
    assert [cells[0] for cells in body] == ["c1", "c1", "c128", "c128"]
    assert all(len(cells) == len(head) for cells in body)
    assert [cells[1] for cells in page.hard(rows)[1]] == ["5 (exit code 0)", "<b>no</b> (exit code 0)"]
    text = page.html(rows)
    assert "<b>no</b>" not in text
    assert "&lt;b&gt;no" in text


def test_processor_time_of_a_tree() -> None:
    """Time that a child of a child burns is counted, while it runs and after it was waited for."""
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint('x', flush=True)\ninput()"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    before = waited_s()
    with subprocess.Popen([sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert tree_ns(child.pid) > 250_000_000
        child.communicate(b"\n")
    assert waited_s() - before > 0.25
