"""When a server is ready: our own process listens, it serves exactly our name, and it completes one token."""

import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import requests

from rungproof.measure.serving import procfs
from rungproof.measure.serving.procfs import Process
from rungproof.records.formats import Reason

EVERY_S = 0.1
FOREIGN_LOOKS = 5  # a listener that appears between two looks at our tree is not yet foreign
LOG = "logs/server.log"
MODELS, COMPLETIONS = "/v1/models", "/v1/completions"
ANSI = re.compile(r"\x1b\[[0-9;]*m")


class Tail:
    """Reads a growing log once, line by line, without the colours."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._held = b""

    def lines(self, ended: bool = False) -> list[str]:
        """The lines that have come since the last look; `ended`: the last one counts although no newline ends it."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return []
        self._offset += len(data)
        *found, self._held = (self._held + data).split(b"\n")
        return [ANSI.sub("", line.decode("utf-8", "replace")) for line in ([*found, self._held] if ended else found)]


class LogWatch:
    """Looks in a growing log for the lines that mean a fault. Raises re.error for a bad pattern."""

    def __init__(self, path: Path, patterns: Iterable[str]) -> None:
        self._tail = Tail(path)
        self._patterns = [re.compile(pattern) for pattern in patterns]

    def fault(self, ended: bool = False) -> str | None:
        """The first new line that matches; `ended`: the last line counts although no newline ends it."""
        for line in self._tail.lines(ended):
            if any(pattern.search(line) for pattern in self._patterns):
                return line.strip()
        return None


class PhaseWatch:
    """Tells from a growing log how far a starting server is. phases: (regular expression, words), in the order of a start."""

    def __init__(self, path: Path, phases: Sequence[tuple[str, str]]) -> None:
        self._tail = Tail(path)
        self._phases = [(re.compile(pattern), words) for pattern, words in phases]

    def reached(self) -> str | None:
        """Words of the latest phase that the new lines tell of; None where they tell of none. A phase is told once."""
        told = None
        for line in self._tail.lines():
            for place, (pattern, words) in enumerate(self._phases):
                if pattern.search(line):
                    told, self._phases = words, self._phases[place + 1 :]
                    break
        return told


class Probe:
    """The two control calls, made beside the watch: a first completion may take as long as a model takes to compile."""

    def __init__(self, url: str, model: str, deadline: float) -> None:
        self._url, self._model, self._deadline = url, model, deadline
        self.done = False
        self.reason: Reason | None = None
        self._answered: list[str] = []
        self._asking: tuple[str, float] | None = None  # the call in hand, and when it was begun
        self._said = ""
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self) -> None:
        """Start once; later calls do nothing."""
        if not self._thread.ident:
            self._thread.start()

    def told(self) -> str:
        """How far the server has come: which calls it has answered, and what became of the one in hand."""
        answered = "".join(f"; {path} answered" for path in self._answered)
        if (asking := self._asking) is None:
            return f"it listens{answered}; no further call was made yet"
        path, began = asking
        return f"it listens{answered}; {path}: {self._said or 'no answer'} after {time.monotonic() - began:.1f} s"

    def late(self) -> Reason:
        """Why it is not ready at the deadline."""
        return Reason("not ready in time", self.told(), "an answer within the deadline", self._url)

    def _run(self) -> None:
        with requests.Session() as session:
            session.trust_env = False
            for path, step in ((MODELS, self._models), (COMPLETIONS, self._completion)):
                self._said, self._asking = "", (path, time.monotonic())
                self.reason = self._until_answered(step, session)
                if self.reason is not None:
                    break
                self._asking = None
                self._answered.append(path)
        self.done = True

    def _until_answered(
        self, step: Callable[[requests.Session, float], Reason | None], session: requests.Session
    ) -> Reason | None:
        while (left := self._deadline - time.monotonic()) > 0:
            try:
                return step(session, left)
            except requests.Timeout:
                self._said = ""
            except (requests.RequestException, _Loading) as error:
                self._said = f"{type(error).__name__}: {error}"[:300]
                time.sleep(EVERY_S)
        return self.late()

    def _models(self, session: requests.Session, left: float) -> Reason | None:
        answer = session.get(f"{self._url}{MODELS}", timeout=min(left, 10))
        value = _json(answer)
        listed = value.get("data") if isinstance(value, dict) else None
        names = [item.get("id") for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
        if names == [self._model]:
            return None
        return Reason(
            "another model is served", ", ".join(map(str, names)) or "none", self._model, f"{self._url}{MODELS}"
        )

    def _completion(self, session: requests.Session, left: float) -> Reason | None:
        body: dict[str, str | int | float] = {
            "model": self._model,
            "prompt": "1 2 3",
            "max_tokens": 1,
            "temperature": 0.0,
        }
        value = _json(session.post(f"{self._url}{COMPLETIONS}", json=body, timeout=left))
        if isinstance(value, dict) and value.get("choices"):
            return None
        return Reason("no completion", str(value)[:300], "a choice of one token", f"{self._url}{COMPLETIONS}")


class _Loading(Exception):
    """The server says that it is not ready yet."""


def _json(answer: requests.Response) -> object:
    if answer.status_code == 503:
        raise _Loading(f"HTTP 503: {answer.text[:200]}")
    if answer.status_code != 200:
        return f"HTTP {answer.status_code}: {answer.text[:200]}"
    try:
        return answer.json()
    except ValueError:
        return f"no JSON: {answer.text[:200]}"


class PortWatch:
    """Who listens on the server's port: nobody yet, only processes of ours, or a foreign one."""

    def __init__(self, port: int, ours: Callable[[], list[Process]]) -> None:
        self._port, self._ours = port, ours
        self._foreign = 0
        self.owned = False

    def look(self) -> Reason | None:
        """A reason if a process that is not ours holds the port; sets `owned`."""
        found = procfs.listeners(self._port)
        held: set[int] = set()
        if found:
            held = set().union(*(procfs.sockets(one.pid) for one in self._ours()))
        self.owned = bool(found) and found <= held
        self._foreign = self._foreign + 1 if found - held else 0
        if self._foreign < FOREIGN_LOOKS:
            return None
        return Reason(
            "the port is held by another process",
            procfs.holder(found - held),
            "a process of our server",
            f"port {self._port}",
        )


def wait(
    log: LogWatch, port: PortWatch, probe: Probe, ended: Callable[[], tuple[Reason, ...]], deadline: float
) -> tuple[Reason, ...]:
    """Wait until ready; () if it is. `ended`: why to give up, as the server's exit. `deadline`: monotonic clock [s]."""
    while True:
        given_up = ended()
        if line := log.fault(ended=bool(given_up)):
            return (Reason("fault line in the log", line, "no such line", LOG), *given_up)
        if given_up:
            return given_up
        if reason := port.look():
            return (reason,)
        if port.owned:
            probe.begin()
        if probe.done and (probe.reason is not None or port.owned):
            return (probe.reason,) if probe.reason else ()
        if time.monotonic() >= deadline:
            silent = "its process runs, and nobody listens on its port"
            return (probe.late() if port.owned else Reason("not ready in time", silent, "a server that listens", LOG),)
        time.sleep(EVERY_S)
