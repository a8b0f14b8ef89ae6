"""Servers for the tests of `rungproof measure`: the simulated one, and one that answers as llama.cpp's server does."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = (
    "\x1b[31m<b>red</b>\x07\x9b2J‮"  # what no terminal may get: escape codes, a bell, a C1 code, a turn of the writing
)


@contextlib.contextmanager
def simulated(folder: Path, *arguments: str, faults: object = ()) -> Iterator[str]:
    """The URL of a simulated server that serves the model `m`; it is ended afterwards."""
    log, file = folder / "server.log", folder / "faults.json"
    file.write_text(json.dumps(list(faults)))  # type: ignore[call-overload]
    command = [sys.executable, "-m", "rungproof.measure.simulated", "--port", "0", "--served-model-name", "m"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "RUNGPROOF_SIM_FAULTS": str(file)}
    with log.open("wb") as stderr:
        process = subprocess.Popen([*command, "--start-s", "0", *arguments], stderr=stderr, env=environment)
    try:
        yield f"http://127.0.0.1:{_port(log, process)}"
    finally:
        process.kill()
        process.wait(60)


def _port(log: Path, process: "subprocess.Popen[bytes]") -> int:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        text = log.read_text()
        if " on http://127.0.0.1:" in text and text.endswith("\n"):
            return int(text.split(" on http://127.0.0.1:")[1].split()[0])
        time.sleep(0.02)
    raise AssertionError(f"the server did not start: {log.read_text()}")


class TextServer:
    """Answers like llama.cpp's server that was not asked for more: text alone, no token ids, usage in the last event.

    usage     whether the last event holds usage
    refuses   parameters that it refuses with status 400, as a server with a closed list of parameters does
    natural   tokens after which an answer ends by itself, whatever is asked
    at_once   the answer comes as one document although a stream was asked for
    status    status of every completion other than 200
    models    names under /v1/models
    base      base path of everything
    owner     what each model says as owned_by
    """

    def __init__(
        self, *, usage: bool = True, refuses: tuple[str, ...] = (), natural: int = 10**6, at_once: bool = False, status: int = 200,
        models: tuple[str, ...] = ("tiny.gguf",), base: str = "", words: str = "no such parameter", owner: Any = "",
    ) -> None:  # fmt: skip
        self.usage, self.refuses, self.natural, self.at_once = usage, refuses, natural, at_once
        self.status, self.models, self.base, self.words = status, models, base, words
        self.owner = owner
        self.asked: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """Its URL, with the base path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}{self.base}"

    def __enter__(self) -> "TextServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)


def _handler(server: TextServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            listed = {
                "object": "list",
                "data": [{"id": name, "object": "model", "owned_by": server.owner} for name in server.models],
            }
            found = self.path == f"{server.base}/v1/models"
            self._document(200 if found else 404, listed if found else {"error": {"message": "File Not Found"}})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            server.asked.append(body)
            unknown = [name for name in server.refuses if name in body]
            if self.path != f"{server.base}/v1/completions":
                self._document(404, {"error": {"message": "File Not Found"}})
            elif unknown or server.status != 200:
                self._document(400 if unknown else server.status, {"error": {"message": f"{server.words}: {unknown}"}})
            elif server.at_once:
                self._document(200, {"choices": [{"text": "a b", "finish_reason": "stop"}], "usage": _usage(body, 2)})
            else:
                self._stream(body, min(server.natural, int(body["max_tokens"])))

        def _document(self, status: int, value: object) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _stream(self, body: dict[str, Any], count: int) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for number in range(count):
                self._event({"choices": [{"text": f" {number}", "index": 0, "logprobs": None, "finish_reason": None}]})
                time.sleep(0.001)
            reason = "length" if count == body["max_tokens"] else "stop"
            last: dict[str, Any] = {"choices": [{"text": "", "index": 0, "logprobs": None, "finish_reason": reason}]}
            self._event(last | ({"usage": _usage(body, count)} if server.usage else {}))
            self._chunk(b"data: [DONE]\n\n")
            self._chunk(b"")

        def _event(self, value: dict[str, Any]) -> None:
            fixed = {"object": "text_completion", "model": "tiny.gguf", "system_fingerprint": "b1-x"}
            self._chunk(f"data: {json.dumps(value | fixed)}\n\n".encode())

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    return Handler


def _usage(body: dict[str, Any], count: int) -> dict[str, int]:
    prompt = len(str(body["prompt"]).split())
    return {"completion_tokens": count, "prompt_tokens": prompt, "total_tokens": prompt + count}
