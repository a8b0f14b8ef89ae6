"""The simulated server's life: start faults, its port, its command line, SIGTERM, its child, and hostile bytes."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@dataclass
class Server:
    """A simulated server process; port 0: nobody waited for it. `log` is its stderr."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def call(self, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Status and body of a GET, or of a POST of `body`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET" if body is None else "POST", path, body)
            answer = connection.getresponse()
            return answer.status, answer.read()


@contextlib.contextmanager
def serving(
    folder: Path, *arguments: str, faults: object = None, wait: bool = True, name: str = "m"
) -> Iterator[Server]:
    """A server process in its own group, on a free port; the group is killed at the end."""
    log, file = folder / "log.txt", folder / "faults.json"
    file.write_text(json.dumps(faults or []))
    command = [sys.executable, "-m", "rungproof.measure.simulated", "--port", "0", "--served-model-name", name]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "RUNGPROOF_SIM_FAULTS": str(file)}
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [*command, "--start-s", "0", *arguments], stderr=stderr, env=environment, start_new_session=True
        )
    try:
        yield Server(process, wait_for_port(log, process) if wait else 0, log)
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


def test_exit_at_start_and_fault_line(tmp_path: Path) -> None:
    """A server can die while starting, with its code, after a fault line in its log."""
    faults = [{"do": "fault_line", "text": "FAULT: bus error"}, {"do": "exit_at_start", "code": 3}]
    with serving(tmp_path, faults=faults, wait=False) as server:
        assert server.process.wait(60) == 3
        assert "FAULT: bus error\n" in server.log.read_text()


def test_wrong_model_and_slow_start(tmp_path: Path) -> None:
    """A server can come up late and serve another model; the one asked for is then unknown there."""
    began = time.monotonic()
    with serving(tmp_path, faults=[{"do": "wrong_model"}, {"do": "slow_start", "seconds": 0.5}]) as server:
        assert time.monotonic() - began > 0.5
        assert json.loads(server.call("/v1/models")[1])["data"][0]["id"] == "another-model"
        assert server.call("/v1/completions", b'{"model":"m","prompt":"x"}')[0] == 404


def test_never_ready_does_not_listen(tmp_path: Path) -> None:
    """never_ready stays alive without listening, and only for the model it is meant for; SIGTERM still ends it."""
    faults = [{"do": "never_ready", "match": {"model_contains": "r001.a"}}]
    with serving(tmp_path, faults=faults, wait=False, name="r001.a.b") as server:
        assert wait_until(lambda: "Waiting for application startup" in server.log.read_text())
        time.sleep(0.3)
        assert server.process.poll() is None
        assert "startup complete" not in server.log.read_text()
        server.process.terminate()
        assert server.process.wait(60) == 0
    with serving(tmp_path, faults=faults, name="r001.other"):
        pass


def test_a_port_in_use_is_said_at_once(tmp_path: Path) -> None:
    """A server whose port is taken ends with code 1, names the port, and takes its child along."""
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        with serving(tmp_path, "--fork-child", "--start-s", "600", "--port", str(port), wait=False) as server:
            assert server.process.wait(60) == 1
            assert f"port {port}" in server.log.read_text()
            with pytest.raises(ProcessLookupError):
                os.killpg(server.process.pid, 0)


def children_of(pid: int) -> list[int]:
    """Pids of the children of a process."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")


@needs_proc
def test_sigterm_ends_server_streams_and_child(tmp_path: Path) -> None:
    """SIGTERM ends everything with code 0, also with a stream in flight that would go on for minutes."""
    with serving(tmp_path, "--fork-child", "--token-ms", "50") as server:
        (child,) = children_of(server.process.pid)
        assert os.getpgid(child) == server.process.pid
        body = b'{"prompt":"long","max_tokens":9999,"ignore_eos":true,"stream":true}'
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
            peer.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            assert peer.recv(100)
            server.process.terminate()
            assert server.process.wait(60) == 0
        assert wait_until(lambda: not running(child))
        assert "Traceback" not in server.log.read_text()


@needs_proc
def test_the_child_outlives_a_killed_parent(tmp_path: Path) -> None:
    """After SIGKILL of the parent the child is still there, as a real engine's is; SIGTERM ends it."""
    with serving(tmp_path, "--fork-child") as server:
        (child,) = children_of(server.process.pid)
        server.process.kill()
        server.process.wait(60)
        time.sleep(0.2)
        assert running(child)
        os.kill(child, signal.SIGTERM)
        assert wait_until(lambda: not running(child))


@needs_proc
def test_ignore_sigterm_holds_for_parent_and_child(tmp_path: Path) -> None:
    """With --ignore-sigterm neither process ends on SIGTERM, and the server still answers."""
    with serving(tmp_path, "--fork-child", "--ignore-sigterm") as server:
        (child,) = children_of(server.process.pid)
        os.killpg(server.process.pid, signal.SIGTERM)
        time.sleep(0.3)
        assert running(child)
        assert server.call("/health")[0] == 200


@needs_proc
def test_requested_knobs_can_be_read_from_proc(tmp_path: Path) -> None:
    """Arguments that the simulated server does not use are in its command line and its log, to be verified."""
    with serving(tmp_path, "--max-num-seqs", "16", "--enforce-eager") as server:
        words = Path(f"/proc/{server.process.pid}/cmdline").read_bytes().split(b"\0")
        assert words[words.index(b"--max-num-seqs") + 1] == b"16"
        assert '"max-num-seqs": "16"' in server.log.read_text()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all hostile bytes."""
    with serving(tmp_path_factory.mktemp("plain")) as server:
        yield server


def raw(port: int, data: bytes) -> bytes:
    """All that the server sends for these bytes until it closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as peer:
        peer.sendall(data)
        return b"".join(iter(lambda: peer.recv(65536), b""))


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00\xff\r\n\r\n",
        b"GET /health HTTP/1.1\r\nBad Header: x\r\n\r\n",
        b"GET /health HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nConnection: close\r\nContent-Length: 2\r\n\r\n[]",
    ],
)  # fmt: skip
def test_hostile_bytes_get_a_4xx(plain: Server, data: bytes) -> None:
    """Whatever arrives, the sender gets a 4xx with a JSON error and the server goes on."""
    answer = raw(plain.port, data)
    assert answer.startswith(b"HTTP/1.1 4")
    assert json.loads(answer.split(b"\r\n\r\n")[1])["error"]["message"]
    assert plain.call("/health")[0] == 200
