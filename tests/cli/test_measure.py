"""`rungproof measure` as a user calls it: exit codes, words, JSON, and a terminal that nothing hostile reaches."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.kit import HOSTILE, ROOT, TextServer, simulated
from rungproof.cli import main
from rungproof.measure.external.run import VENDOR
from rungproof.records import raw

SHORT = ("--concurrency", "1,2", "--tokens", "16", "--passes", "1", "--root", str(ROOT))
REPORT_KEYS = {
    "format", "url", "model", "plain", "exact_length", "prompts", "prompts_sha256", "tokens", "passes", "seed", "window", "at", "client",
    "complete", "qualified", "why_not_qualified", "refused", "refused_status", "rungs",
}  # fmt: skip
RUNG_KEYS = {
    "concurrency", "state", "planned", "states", "aggregate", "per_user", "decode_rate", "ttft_ms_median", "passes", "identity", "doubts",
    "counters", "batches", "requests", "raw",
}  # fmt: skip
REQUEST_KEYS = {
    "batch", "key", "state", "reasons", "token_ids", "completion_tokens", "prompt_tokens", "cached_tokens", "finish_reason", "text", "sent_ns",
    "ttft_ns", "last_token_ns", "decode_rate", "steps", "step_median_ns", "content_ttft_ns", "reasoning_tokens", "end_ns", "body_sha256", "margins",
}  # fmt: skip
IDENTITY_KEYS = {"k", "n", "sites_k", "sites_n", "minority_share", "divergences", "cannot"}
PASS_KEYS = {
    "batch", "complete", "planned", "completion_tokens", "aggregate", "per_user", "decode_rate", "ttft_ms_median", "ttft_ms_max", "identical",
    "compared",
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A simulated server without faults."""
    with simulated(tmp_path_factory.mktemp("server")) as url:
        yield url


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one call."""
    code = main(["measure", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_measurement_is_told_and_cannot_be_qualified(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The model is found, each pass has its row, identity is counted, and it is said why nothing of it is a proof."""
    code, out, err = call(capsys, "--url", server, *SHORT)
    assert code == 0
    assert f"{server}, model m" in out
    assert "c2: 4 of 4 requests complete; 2/2 outputs identical to one at a time on this server" in out
    assert "Not qualified, and cannot be: rungproof did not launch this server" in out
    assert "Nothing was kept" in out
    assert err.splitlines()[-1] == "c2: batch 3/3 pass-1: 2/2 complete"
    rows = [line.split() for line in out.splitlines() if line.startswith((" c1 ", " c2 "))]
    assert [(row[0], row[1], row[2], row[-1]) for row in rows] == [("c1", "1", "1/1", "1/1"), ("c2", "1", "2/2", "2/2")]


def test_json_is_valid_and_its_keys_are_stable(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line of JSON on standard output and nothing else; scripts can rely on these names."""
    code, out, _ = call(capsys, "--url", server, "--json", *SHORT)
    assert (code, out.count("\n")) == (0, 1)
    value: dict[str, Any] = json.loads(out)
    assert (value["format"], value["complete"], value["qualified"]) == ("rungproof.external/1", True, False)
    assert value.keys() == REPORT_KEYS
    for rung in value["rungs"]:
        assert rung.keys() == RUNG_KEYS
        assert rung["identity"].keys() == IDENTITY_KEYS
        assert {frozenset(one) for one in rung["requests"]} == {frozenset(REQUEST_KEYS)}
        assert {frozenset(one) for one in rung["passes"]} == {frozenset(PASS_KEYS)}
    assert [len(rung["requests"]) for rung in value["rungs"]] == [2, 4]


def test_every_request_can_be_listed(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--requests shows state, counts and stamps of each request; without it only those with something against them."""
    _, out, _ = call(capsys, "--url", server, "--requests", *SHORT)
    for name in (
        "c1 oracle-00 p00",
        "c1 pass-1 p00",
        "c2 oracle-00 p00",
        "c2 oracle-01 p01",
        "c2 pass-1 p00",
        "c2 pass-1 p01",
    ):
        (row,) = [line for line in out.splitlines() if f" {name} " in line]
        assert row.split()[3:6:2] == ["complete", "16"]
    assert "c1 oracle-00 p00" not in call(capsys, "--url", server, *SHORT)[1]


def test_a_dropped_stream_gives_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A request that did not complete is listed with its reason, in words and in JSON, and the exit code says so."""
    lost = {"do": "drop", "match": {"inflight_at_least": 2, "prompt_contains": "Late one evening"}, "after_tokens": 3}
    with simulated(tmp_path, "--token-ms", "20", faults=[lost]) as url:
        code, out, err = call(capsys, "--url", url, *SHORT)
        json_code, document, _ = call(capsys, "--url", url, "--json", *SHORT)
    assert (code, json_code) == (1, 1)
    assert "c2: 3 of 4 requests complete, 1 truncated" in out
    assert any("c2 pass-1 p01" in line and "truncated" in line for line in out.splitlines())
    assert "a request that was not complete ends its rung" in err
    assert json.loads(document)["complete"] is False


def test_a_server_without_token_ids_makes_no_claim(capsys: pytest.CaptureFixture[str]) -> None:
    """Speed is given from the server's own counts; identity is said to be impossible to compare, and nothing looks identical."""
    with TextServer() as server:
        code, out, _ = call(capsys, "--url", server.url, *SHORT)
    assert code == 0
    assert "c2: 4 of 4 requests complete; cannot be compared: the server gives no token ids" in out
    assert "No decode rate: it needs token ids" in out
    assert "Doubt: cached tokens not reported, expected 0 in each: c1: 2 of 2 requests; c2: 4 of 4 requests\n" in out
    assert "c1, c2: preemptions and other users cannot be seen\n" in out
    row = next(line.split() for line in out.splitlines() if line.startswith(" c2 "))
    assert float(row[3]) > 0
    assert (row[5], row[-1]) == ("-", "-")
    assert "identical to" not in out


def test_refused_parameters_are_told_with_plain_as_the_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    """Status 400: the server's own words, which parameters may be meant, and --plain, which then works."""
    with TextServer(refuses=("return_token_ids",), words="extra fields not permitted") as server:
        code, _, err = call(capsys, "--url", server.url, *SHORT)
        plain_code, out, _ = call(capsys, "--url", server.url, "--plain", *SHORT)
    assert (code, plain_code) == (1, 0)
    assert "HTTP status 400: extra fields not permitted" in err
    assert "try --plain" in err
    assert all(name in err for name in VENDOR)
    assert "without vendor parameters (--plain) the server gives no token ids" in out


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"status": 401}, "sends no API key"),
        ({"status": 404}, "check --url and --model"),
        ({"natural": 5}, "--plain allows natural ends"),
    ],
)
def test_what_to_do_is_said(how: dict[str, Any], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No key, no such path, answers that end early: each comes with the next step."""
    with TextServer(**how) as server:
        _, _, err = call(capsys, "--url", server.url, *SHORT)
    assert says in err


def test_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong URL: exit code 6 when the model was to be asked for, 1 when requests were lost, both in words."""
    with TextServer() as server:
        url = server.url
    code, _, err = call(capsys, "--url", url, *SHORT)
    assert (code, "no answer (Connection refused)" in err) == (6, True)
    code, _, err = call(capsys, "--url", url, "--model", "m", *SHORT)
    assert (code, "is the server running, and is --url right?" in err) == (1, True)


@pytest.mark.parametrize(
    "words",
    [
        ("--url", "ftp://h:1"), ("--url", "h:1"), ("--url", "http://h:1", "--prompts", "/dev/null"), ("--url", "http://h:1", "--root", "/"),
        ("--url", "http://h:1", "--concurrency", "99"),
    ],
)  # fmt: skip
def test_wrong_options_give_exit_code_2(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong URL, no prompts, too few prompts: told in one line, nothing is sent."""
    code, out, err = call(capsys, "--root", str(ROOT), "--model", "m", *words)
    assert (code, out) == (2, "")
    assert err.startswith("rungproof: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        (), ("--url",), ("--url", "u", "--concurrency", "2,1"), ("--url", "u", "--concurrency", "0"), ("--url", "u", "--concurrency", "1,1"),
        ("--url", "u", "--concurrency", "4097"), ("--url", "u", "--tokens", "-1"), ("--url", "u", "--tokens", "1.5"), ("--url", "u", "--passes", "0"),
        ("--url", "u", "--idle", "0"), ("--url", "u", "--deadline", "nan"), ("--url", "u", "--unknown"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_meant(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers out of range and unknown options end with exit code 2 and the usage."""
    with pytest.raises(SystemExit) as caught:
        main(["measure", *words])
    assert caught.value.code == 2
    assert "usage: rungproof" in capsys.readouterr().err


def harmless(text: str) -> bool:
    """Nothing in it but printable characters and line ends."""
    return all(char.isprintable() or char == "\n" for char in text)


def test_nothing_hostile_reaches_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Escape codes in prompts, file names, model names, answers and errors are stripped; HTML is only text; JSON is pure ASCII."""
    prompts = tmp_path / f"pro{HOSTILE[:5]}.txt"
    prompts.write_text(f"{HOSTILE} one\n{HOSTILE} two\n", encoding="utf-8")
    words = ("--prompts", str(prompts), *SHORT)
    with TextServer(models=(HOSTILE,), status=400, words=HOSTILE) as server:
        refused = call(capsys, "--url", server.url, *words)
    with TextServer(models=(HOSTILE, "b")) as server:
        named = call(capsys, "--url", server.url, *words)
    with TextServer(models=(HOSTILE,)) as server:
        good = call(capsys, "--url", server.url, "--requests", "--out", str(tmp_path / HOSTILE), *words)
        document = call(capsys, "--url", server.url, "--json", *words)
        assert server.asked[0]["prompt"] == f"{HOSTILE} one"
    assert (refused[0], named[0], good[0], document[0]) == (1, 2, 0, 0)
    for _, out, err in (refused, named, good, document):
        assert harmless(out)
        assert harmless(err)
    assert "<b>red</b>" in good[1]
    assert "<b>red</b>" in refused[2]
    assert document[1].isascii()
    assert json.loads(document[1])["model"] == HOSTILE


def test_interrupting_keeps_what_was_measured(tmp_path: Path) -> None:
    """Ctrl-C: exit code 130, no traceback, and the batches that had ended are in the raw file."""
    out = tmp_path / "out"
    with simulated(tmp_path, "--token-ms", "20", faults=[{"do": "hang", "match": {"concurrent": 2}}]) as url:
        command = [sys.executable, "-m", "rungproof.cli", "measure", "--url", url, "--out", str(out), *SHORT]
        process = subprocess.Popen(
            command,
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        seen = ""
        while "c2: batch 2/3" not in seen:
            line = process.stderr.readline()
            assert line
            seen += line
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert f"the batches that had ended are in {out}" in err
    lines = raw.decode((out / "c2.raw.jsonl.gz").read_bytes(), "raw")
    assert [line.batch for line in lines if isinstance(line, raw.Batch)] == ["oracle-00", "oracle-01"]
