"""The two records of a session's life, server.json and closed.json."""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from rungproof.measure.serving.order import Order, Places
from rungproof.records.codec import canonical, read
from rungproof.records.environment import Environment
from rungproof.records.errors import EvidenceError, HostError
from rungproof.records.files import write_atomic
from rungproof.records.formats import Canary, Closed, Knob, Reason, Server

TRIES = 5


def now() -> str:
    """This moment in UTC, for people."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def server(
    order: Order,
    reasons: tuple[Reason, ...],
    *,
    boot: str = "",
    url: str = "",
    model: str = "",
    knobs: tuple[Knob, ...] = (),
    identity: dict[str, Any] | None = None,
    environment: dict[str, Any] | None = None,
    pid: int | None = None,
    ready_s: float | None = None,
) -> Server:
    """The server's record: ready if there is no reason against it."""
    return Server(
        session=order.session,
        arm=order.arm,
        replicate=order.replicate,
        status="failed" if reasons else "ready",
        reasons=reasons,
        boot=boot,
        url=url,
        model=model,
        launch=order.launch,
        launch_sha256=order.launch_sha256,
        knobs=knobs,
        identity=identity or {},
        environment=environment or {},
        pid=pid,
        at=now(),
        ready_s=ready_s,
        lock_sha256=order.lock_sha256,
    )


def unsound(places: Places, boot: str) -> tuple[Reason, ...]:
    """Why this session's measurements cannot be used; () if both canaries passed on this boot."""
    made: list[Reason] = []
    for when in ("before", "after"):
        path = places.canary(when)
        try:
            canary = read(Canary, path)
        except EvidenceError as error:
            made.append(Reason("no canary", str(error) if path.exists() else "no file", "a passed canary", path.name))
            continue
        if canary.status != "passed":
            made.append(Reason("canary not passed", canary.status, "passed", path.name))
        if canary.boot != boot:
            made.append(Reason("canary of another server", canary.boot, boot, path.name))
    return tuple(made)


def closed(
    order: Order,
    boot: str,
    by: Literal["job", "supervisor", "repair"],
    sound: bool,
    reasons: tuple[Reason, ...],
    exit_text: str,
    leftovers: tuple[str, ...],
    lived_s: float | None,
) -> Closed:
    """The record of the end."""
    return Closed(order.session, boot, by, sound, reasons, exit_text, leftovers, now(), lived_s)


def save(path: Path, record: Server | Closed | Environment) -> bool:
    """Write a record; a full disk is waited for a little. False if it could not be written."""
    for _ in range(TRIES):
        try:
            write_atomic(path, canonical(record))
            return True
        except HostError as error:
            print(error, file=sys.stderr, flush=True)
            time.sleep(1.0)
    return False
