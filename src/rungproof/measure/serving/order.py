"""What a job asks of the supervisor (`control/order.json`), and where a session's files lie."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rungproof.records.codec import canonical, read
from rungproof.records.files import write_atomic
from rungproof.records.secrecy import hidden


@dataclass(frozen=True, slots=True)
class Order:
    """One server to start. `launch` is hashed and holds no machine path; what is this machine's own is beside it.

    port 0: choose a free one. lock: the host's lock file. owner_pid, owner_start: the process whose end closes the
    session. canary: handed to the canary as it is. fault_lines, kernel_fault_lines: regular expressions; a line of the
    server's log, or of the kernel's, that matches one ends the session. rivals: launch digests of the plan's other arms, whose configuration must
    differ from this one's. devices: accelerators that the server uses; holders: names of processes that may hold them too;
    expect: facts of the environment that must have this value. container_engine, container_arguments: the command that runs
    containers on this host, and what it needs here for each. lock_sha256: digest of the plan that asks. Deadlines in seconds.
    """

    session: str
    campaign: str
    arm: str
    replicate: str
    launch: dict[str, Any]
    launch_sha256: str
    python: str
    model_path: str
    model_identity: dict[str, Any]
    port: int
    ready_deadline_s: float
    stop_grace_s: float
    lock: str
    owner_pid: int
    owner_start: int
    canary: dict[str, Any]
    fault_lines: tuple[str, ...]
    rivals: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    expect: dict[str, Any] = field(default_factory=dict)
    kernel_fault_lines: tuple[str, ...] = ()
    container_engine: tuple[str, ...] = ()
    container_arguments: tuple[str, ...] = ()
    lock_sha256: str = ""

    @property
    def census(self) -> dict[str, dict[str, str]]:
        """Demands on the server's own log, by name: `appears` or `absent`, and perhaps `value`."""
        return dict(self.launch.get("census", {}))

    @property
    def arguments(self) -> dict[str, Any]:
        """Requested server arguments."""
        return dict(self.launch.get("arguments", {}))

    @property
    def variables(self) -> dict[str, str]:
        """Requested environment variables."""
        return {name: str(value) for name, value in self.launch.get("variables", {}).items()}

    def portable(self, text: str) -> str:
        """A text, such as a line of the server's log, with <model> and <environment> for their paths on this machine."""
        places = ((self.model_path, "<model>"), (str(Path(self.python).parent.parent), "<environment>"))
        for path, name in places:
            text = text.replace(path, name) if len(path) > 1 else text
        return text


@dataclass(frozen=True, slots=True)
class Places:
    """The files of one session folder."""

    folder: Path

    @property
    def order(self) -> Path:
        """What was asked."""
        return self.folder / "control" / "order.json"

    @property
    def tree(self) -> Path:
        """Processes of this session, by pid and start time."""
        return self.folder / "control" / "tree.json"

    @property
    def stop(self) -> Path:
        """Its presence asks the supervisor to close."""
        return self.folder / "control" / "stop"

    @property
    def job(self) -> Path:
        """The job that measures now: {"pid", "start"}."""
        return self.folder / "control" / "job.json"

    @property
    def guard(self) -> Path:
        """What the guard did after it lost its supervisor."""
        return self.folder / "control" / "guard.json"

    @property
    def server(self) -> Path:
        """The record of the server."""
        return self.folder / "server.json"

    @property
    def closed(self) -> Path:
        """The record of the end; always written last."""
        return self.folder / "closed.json"

    @property
    def kept_closed(self) -> Path:
        """The supervisor's own copy of closed.json."""
        return self.folder / "control" / "closed.json"

    @property
    def cache(self) -> Path:
        """Compile caches and working directory of the server; empty at its start, removed after its end."""
        return self.folder / "cache"

    @property
    def server_log(self) -> Path:
        """Standard output and error of the server."""
        return self.folder / "logs" / "server.log"

    @property
    def supervisor_log(self) -> Path:
        """Standard output and error of the supervisor and the guard."""
        return self.folder / "logs" / "supervisor.log"

    @property
    def container(self) -> Path:
        """The container of this session, so that whoever comes later can end it: {"engine", "name"}."""
        return self.folder / "control" / "container.json"

    @property
    def env(self) -> Path:
        """What the server ran on, before and after."""
        return self.folder / "env.json"

    @property
    def samples(self) -> Path:
        """What was seen each second while it ran."""
        return self.folder / "env.samples.jsonl"

    def canary(self, when: str) -> Path:
        """The canary of `when`: before or after."""
        return self.folder / f"canary_{when}.json"


def write_order(folder: Path, order: Order) -> None:
    """Write control/order.json."""
    write_atomic(Places(folder).order, canonical(order))


def read_order(folder: Path) -> Order:
    """Read control/order.json. Raises EvidenceError."""
    return read(Order, Places(folder).order)


def last_lines(path: Path, count: int = 15, limit: int = 4000) -> str:
    """The last lines of a log, for a reason's text, which is published: without what looks like a secret; "" if there are none."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 64 * 1024))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return hidden("\n".join(lines[-count:]))[-limit:]
