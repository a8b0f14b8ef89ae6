"""The simulated server over its sockets: the form of its answers, load, and each fault while serving."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@dataclass
class Server:
    """A running simulated server; `log` is its stderr, `faults` its faults file."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    faults: Path

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of a GET."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def counter(self, name: str, labels: str = "") -> float | None:
        """The value of one row of /metrics, or None."""
        for line in self.get("/metrics")[1].decode().splitlines():
            if line.startswith(f"vllm:{name}{{") and labels in line:
                return float(line.split()[-1])
        return None

    def ask(self, prompt: object, **more: Any) -> tuple[int, bytes]:
        """Status and body of a completions request; a cut body raises http.client.IncompleteRead."""
        body = {"model": "m", "prompt": prompt, "max_tokens": 64, "stream": True, "return_token_ids": True} | more
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("POST", "/v1/completions", json.dumps(body))
            answer = connection.getresponse()
            return answer.status, answer.read()

    def ids(self, prompt: object, **more: Any) -> list[int]:
        """The token ids of a streamed answer."""
        return [code for event in events(self.ask(prompt, **more)[1]) for code in ids_of(event)]

    def together(self, prompts: list[str], **more: Any) -> list[list[int]]:
        """The token ids of answers asked for at the same time: no thread asks before all are there."""
        barrier = threading.Barrier(len(prompts))

        def ids(prompt: str) -> list[int]:
            barrier.wait(60)
            return self.ids(prompt, **more)

        with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
            return list(pool.map(ids, prompts))

    def set_faults(self, *entries: dict[str, Any]) -> None:
        """From the next request on, these are the faults."""
        self.faults.write_text(json.dumps(entries))


def events(body: bytes) -> list[dict[str, Any]]:
    """The JSON events of a streamed body, without [DONE]."""
    frames = [frame.removeprefix(b"data: ") for frame in body.split(b"\n\n") if frame]
    return [json.loads(frame) for frame in frames if frame != b"[DONE]"]


def ids_of(event: dict[str, Any]) -> list[int]:
    """The ids that an event carries."""
    return [code for choice in event.get("choices", []) for code in choice["token_ids"]]


@contextlib.contextmanager
def serving(
    folder: Path, *arguments: str, faults: object = None, wait: bool = True, name: str = "m"
) -> Iterator[Server]:
    """A server process on a free port; it is killed at the end."""
    log, file = folder / "log.txt", folder / "faults.json"
    command = [sys.executable, "-m", "rungproof.measure.simulated", "--port", "0", "--served-model-name", "m"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "RUNGPROOF_SIM_FAULTS": str(file)}
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [*command, "--start-s", "0", *arguments], stderr=stderr, env=environment, start_new_session=True
        )
    try:
        yield Server(process, wait_for_port(log, process), log, file)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)


def wait_for_port(log: Path, process: subprocess.Popen[bytes]) -> int:
    """The port that the log names once the server listens."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        text = log.read_text()
        if " on http://127.0.0.1:" in text and text.endswith("\n"):
            return int(text.split(" on http://127.0.0.1:")[1].split()[0])
        time.sleep(0.01)
    raise AssertionError(f"the server did not start: {log.read_text()}")


def wait_until(condition: Any, seconds: float = 60) -> bool:
    """Whether `condition()` comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server without faults for the tests that change nothing."""
    with serving(tmp_path_factory.mktemp("plain")) as server:
        yield server


@pytest.fixture
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A fresh server whose faults file a test writes."""
    with serving(tmp_path_factory.mktemp("faulty")) as server:
        yield server


def test_the_control_pages_say_what_is_served(plain: Server) -> None:
    """Model name, context length, health and version are answered as an OpenAI-compatible server does."""
    model = json.loads(plain.get("/v1/models")[1])["data"][0]
    assert (model["id"], model["max_model_len"]) == ("m", 40960)
    assert plain.get("/health")[0] == 200
    assert json.loads(plain.get("/version")[1])["version"]
    assert (plain.get("/nothing")[0], plain.get("/v1/completions")[0]) == (404, 405)


def test_a_stream_has_the_shape_of_the_real_one(plain: Server) -> None:
    """Prompt ids come once, ids and usage agree, the finish reason comes with the last token, [DONE] ends it."""
    status, body = plain.ask("hello", max_tokens=30, stream_options={"include_usage": True})
    *tokens, usage = events(body)
    assert status == 200
    assert body.endswith(b"data: [DONE]\n\n")
    assert [event["choices"][0]["prompt_token_ids"] for event in tokens] == [list(b"hello")] + [None] * 29
    assert [event["choices"][0]["finish_reason"] for event in tokens] == [None] * 29 + ["length"]
    assert usage["choices"] == []
    expected = {"prompt_tokens": 5, "total_tokens": 35, "completion_tokens": 30}
    assert usage["usage"] == expected | {"prompt_tokens_details": {"cached_tokens": 0}}


def test_streamed_or_not_and_text_or_ids_are_one_answer(plain: Server) -> None:
    """The same prompt gives the same ids and text in every form of asking."""
    body = plain.ask("form")[1]
    whole = json.loads(plain.ask(list(b"form"), stream=False, seed=7, temperature=0.5)[1])
    assert whole["choices"][0]["token_ids"] == [code for event in events(body) for code in ids_of(event)]
    assert whole["choices"][0]["text"] == "".join(event["choices"][0]["text"] for event in events(body))
    assert len(whole["choices"][0]["token_ids"]) == whole["usage"]["completion_tokens"] == 64


def test_a_connection_is_kept_and_ends_where_asked(plain: Server) -> None:
    """Two requests go over one connection; HTTP/1.0 gets a body without chunks, ended by the close."""
    connection = http.client.HTTPConnection("127.0.0.1", plain.port, timeout=60)
    with contextlib.closing(connection):
        bodies = []
        for _ in range(2):
            connection.request("POST", "/v1/completions", '{"prompt":"keep","max_tokens":5,"stream":true}')
            bodies.append(connection.getresponse().read().count(b"data: "))
            assert connection.sock is not None
        assert bodies == [6, 6]
    request = b'{"prompt":"old","max_tokens":5,"stream":true}'
    answer = raw(plain.port, b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%b" % (len(request), request))
    assert b"chunked" not in answer
    assert answer.endswith(b"data: [DONE]\n\n")


def raw(port: int, data: bytes) -> bytes:
    """All that the server sends for these bytes until it closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as peer:
        peer.sendall(data)
        return b"".join(iter(lambda: peer.recv(65536), b""))


def test_answers_end_by_themselves_unless_told_otherwise(plain: Server) -> None:
    """A natural end lies between 110 and 440 tokens with reason stop; ignore_eos reaches max_tokens exactly."""
    last = json.loads(plain.ask("natural", max_tokens=1000, stream=False)[1])
    assert 110 <= last["usage"]["completion_tokens"] <= 440
    assert last["choices"][0]["finish_reason"] == "stop"
    longer = json.loads(plain.ask("natural", max_tokens=500, ignore_eos=True, stream=False)[1])
    assert (longer["usage"]["completion_tokens"], longer["choices"][0]["finish_reason"]) == (500, "length")
    assert longer["choices"][0]["token_ids"][: last["usage"]["completion_tokens"]] == last["choices"][0]["token_ids"]


def test_canary_questions_are_answered_on_the_wire(plain: Server) -> None:
    """A literal answer arrives whole, also with characters of several bytes, and ends by itself."""
    choice = json.loads(plain.ask("Repeat exactly: Crème brûlée ✓", stream=False)[1])["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("Crème brûlée ✓", "stop")


def test_sixteen_streams_are_quick_and_true(plain: Server) -> None:
    """Load changes no token of a healthy server, and sixteen streams at once take no longer than one after the other."""
    prompts = [f"stream {number}" for number in range(16)]
    began = time.monotonic()
    alone = [plain.ids(prompt, max_tokens=128, ignore_eos=True) for prompt in prompts]
    alone_s, began = time.monotonic() - began, time.monotonic()
    assert plain.together(prompts, max_tokens=128, ignore_eos=True) == alone
    assert time.monotonic() - began < 2 * alone_s + 10


def test_counters_agree_with_the_answers(plain: Server) -> None:
    """Generated and prompt tokens in /metrics grow by exactly what was answered; no draft counters without drafts."""
    before = [plain.counter("generation_tokens_total"), plain.counter("prompt_tokens_total")]
    plain.together(["abc", "abcd"], max_tokens=20)
    after = [plain.counter("generation_tokens_total"), plain.counter("prompt_tokens_total")]
    assert None not in before
    assert [b - a for a, b in zip(before, after, strict=True) if a is not None and b is not None] == [40, 7]
    assert plain.counter("num_requests_running") == 0
    assert plain.counter("prefix_cache_hits_total") == plain.counter("num_preemptions_total") == 0
    assert plain.counter("spec_decode_num_drafts_total") is None


def test_drafts_share_events_and_change_no_token(plain: Server, tmp_path: Path) -> None:
    """With drafts, up to d+1 tokens share an event, the ids stay the same, and the draft counters add up."""
    alone = plain.ids("draft", max_tokens=128, ignore_eos=True)
    with serving(tmp_path, "--speculative-config", '{"method":"ngram","num_speculative_tokens":3}') as server:
        carried = [ids_of(event) for event in events(server.ask("draft", max_tokens=128, ignore_eos=True)[1])]
        assert [code for ids in carried for code in ids] == alone
        assert {len(ids) for ids in carried} == {1, 2, 3, 4}
        drafts = server.counter("spec_decode_num_drafts_total")
        assert drafts == len(carried) - 1
        assert server.counter("spec_decode_num_draft_tokens_total") == 3 * drafts
        assert server.counter("spec_decode_num_accepted_tokens_total") == 128 - len(carried)
        places = [server.counter("spec_decode_num_accepted_tokens_per_pos_total", f'position="{k}"') for k in range(3)]
        assert places == [sum(len(ids) > k + 1 for ids in carried) for k in range(3)]


@pytest.mark.parametrize("depth", ["0", "3"])
def test_load_flips_some_answers_at_token_44(plain: Server, tmp_path: Path, depth: str) -> None:
    """With --flip-at-inflight 2, one request alone is true; at c2 to c16 some answers, never all, break at 44."""
    prompts = [f"flip {number}" for number in range(16)]
    alone = dict(zip(prompts, plain.together(prompts, ignore_eos=True), strict=True))
    with serving(tmp_path, "--flip-at-inflight", "2", "--prefill-ms", "300", "--draft-depth", depth) as server:
        assert server.ids(prompts[1], ignore_eos=True) == alone[prompts[1]]
        for size in (2, 4, 16):
            answers = zip(prompts, server.together(prompts[:size], ignore_eos=True), strict=False)
            wrong = [(got, alone[prompt]) for prompt, got in answers if got != alone[prompt]]
            assert len(wrong) == size // 2
            for got, true in wrong:
                assert got[:44] == true[:44]
                assert all(a != b for a, b in zip(got[44:], true[44:], strict=True))


def test_a_client_that_leaves_frees_its_place(plain: Server) -> None:
    """A broken connection aborts its request, so it does not count as in flight for ever."""
    aborted = plain.counter("request_success_total", "abort")
    body = b'{"prompt":"leave","max_tokens":40000,"ignore_eos":true,"stream":true}'
    with socket.create_connection(("127.0.0.1", plain.port), timeout=60) as peer:
        peer.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        assert peer.recv(100)
    assert wait_until(lambda: plain.counter("num_requests_running") == 0)
    assert aborted is not None
    assert plain.counter("request_success_total", "abort") == aborted + 1


def test_drop_cuts_the_body(faulty: Server) -> None:
    """drop closes the socket after so many tokens, without the end of the chunked body; `times` 1 spares the next."""
    faulty.set_faults({"do": "drop", "after_tokens": 7, "times": 1})
    with pytest.raises(http.client.IncompleteRead) as cut:
        faulty.ask("drop")
    assert sum(len(ids_of(event)) for event in events(cut.value.partial)) == 7
    assert len(faulty.ids("drop")) == 64


def test_error_in_band_keeps_status_200(faulty: Server) -> None:
    """error_in_band puts an error object after some tokens of a 200 stream and still says [DONE]."""
    faulty.set_faults({"do": "error_in_band", "after_tokens": 3})
    status, body = faulty.ask("error")
    assert (status, len(events(body))) == (200, 4)
    assert events(body)[-1]["error"]["code"] == 500
    assert body.endswith(b"data: [DONE]\n\n")


def test_cut_no_done_ends_properly_but_early(faulty: Server) -> None:
    """cut_no_done has complete framing and no [DONE]; with after_tokens it has no finish reason and no usage either."""
    faulty.set_faults({"do": "cut_no_done", "after_tokens": 9})
    body = faulty.ask("cut", stream_options={"include_usage": True})[1]
    assert len(events(body)) == 9
    assert all(event["choices"][0]["finish_reason"] is None for event in events(body))
    faulty.set_faults({"do": "cut_no_done"})
    body = faulty.ask("cut")[1]
    assert (len(events(body)), b"[DONE]" in body) == (64, False)


def test_http_500_and_matching(faulty: Server) -> None:
    """http_500 answers 500 only where its conditions hold."""
    faulty.set_faults({"do": "http_500", "match": {"prompt_contains": "unlucky", "model_contains": "m"}})
    assert faulty.ask("unlucky one")[0] == 500
    assert faulty.ask("lucky one")[0] == 200


@pytest.mark.parametrize("condition", ["inflight_at_least", "concurrent"])
def test_faults_can_wait_for_load(tmp_path: Path, condition: str) -> None:
    """A fault bound to load comes at that load and not at a smaller one."""
    with serving(tmp_path, "--prefill-ms", "300") as server:
        server.set_faults({"do": "short", "after_tokens": 12, "match": {condition: 4}})
        assert len(server.ids("one")) == 64
        assert {len(ids) for ids in server.together(["p1", "p2"])} == {64}
        assert 12 in {len(ids) for ids in server.together(["p1", "p2", "p3", "p4"])}


def test_short_stops_early(faulty: Server) -> None:
    """short ends an answer before its length with finish reason stop and an honest usage."""
    faulty.set_faults({"do": "short", "after_tokens": 11})
    whole = json.loads(faulty.ask("short", ignore_eos=True, stream=False)[1])
    assert (whole["choices"][0]["finish_reason"], whole["usage"]["completion_tokens"]) == ("stop", 11)
    assert len(whole["choices"][0]["token_ids"]) == 11


def test_hang_sends_nothing_more(faulty: Server) -> None:
    """hang leaves the stream open and silent, and other requests are served meanwhile."""
    faulty.set_faults({"do": "hang", "after_tokens": 2, "match": {"prompt_contains": "hang"}})
    body = b'{"prompt":"hang","max_tokens":64,"stream":true}'
    with socket.create_connection(("127.0.0.1", faulty.port), timeout=60) as peer:
        peer.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        received = b""
        while received.count(b"data: ") < 2 or not received.endswith(b"\n\n\r\n"):
            chunk = peer.recv(65536)
            assert chunk, "the server closed the stream"
            received += chunk
        assert received.count(b"data: ") == 2
        peer.settimeout(0.4)
        with pytest.raises(TimeoutError):
            peer.recv(65536)
        assert len(faulty.ids("other")) == 64
    assert wait_until(lambda: faulty.counter("num_requests_running") == 0)


def test_die_ends_the_process(faulty: Server) -> None:
    """die ends the server in the middle of an answer with code 70 and a line in the log."""
    faulty.set_faults({"do": "die", "after_tokens": 4})
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        faulty.ask("die")
    assert faulty.process.wait(60) == 70
    assert "died" in faulty.log.read_text()


def test_flip_breaks_identity_from_a_token_on(faulty: Server) -> None:
    """flip makes every token wrong from its position on, and none before."""
    true = faulty.ids("flip")
    faulty.set_faults({"do": "flip", "after_tokens": 20})
    wrong = faulty.ids("flip")
    assert wrong[:20] == true[:20]
    assert all(a != b for a, b in zip(wrong[20:], true[20:], strict=True))


def test_script_is_in_the_text(faulty: Server) -> None:
    """script puts live HTML into the answer, in text and ids alike."""
    faulty.set_faults({"do": "script"})
    choice = json.loads(faulty.ask("script", stream=False)[1])["choices"][0]
    assert "<script>alert(1)</script><img src=x onerror=alert(1)>" in choice["text"]
    assert bytes(choice["token_ids"]).startswith(b"<script>")


def test_slow_stretches_the_steps(faulty: Server) -> None:
    """slow adds its milliseconds to each step."""
    faulty.set_faults({"do": "slow", "step_ms": 10})
    began = time.monotonic()
    assert len(faulty.ids("slow", max_tokens=31)) == 31
    assert time.monotonic() - began > 0.29


def test_preemption_and_cache_hit_show_in_the_counters(faulty: Server) -> None:
    """preempt raises its counter; cache_hit shows in usage and in the hit counter, alike."""
    faulty.set_faults({"do": "preempt", "times": 1}, {"do": "cache_hit", "times": 1})
    whole = json.loads(faulty.ask("12345678", stream=False)[1])
    assert whole["usage"]["prompt_tokens_details"]["cached_tokens"] == 4
    faulty.ask("12345678")
    assert faulty.counter("num_preemptions_total") == 1
    assert (faulty.counter("prefix_cache_hits_total"), faulty.counter("prefix_cache_queries_total")) == (4, 8)


def test_a_broken_faults_file_is_loud(faulty: Server) -> None:
    """A faults file that cannot be read gives HTTP 500 and a log line; mended, the server goes on."""
    faulty.faults.write_text("[{")
    status, body = faulty.ask("broken")
    assert status == 500
    assert "faults.json" in json.loads(body)["error"]["message"]
    assert "faults.json: no readable JSON" in faulty.log.read_text()
    faulty.faults.unlink()
    assert faulty.ask("broken")[0] == 200


def test_usage_details_can_be_missing(tmp_path: Path) -> None:
    """--no-enable-prompt-tokens-details gives null details, so that a missing value can be told from 0."""
    with serving(tmp_path, "--no-enable-prompt-tokens-details") as server:
        usage = json.loads(server.ask("x", stream=False)[1])["usage"]
    assert usage["prompt_tokens_details"] is None
