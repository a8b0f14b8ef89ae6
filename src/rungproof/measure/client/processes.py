"""More streams than one core can carry: several processes behind one barrier, their stamps on one clock.

The monotonic clock is the same for all processes of a machine, so their records need no more than being put together.
This process plans and waits; the others measure. They are told what to do by pickle over their standard input, which
only this process can write to, and end when it closes.
"""

import os
import pickle
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rungproof.measure.client import clock
from rungproof.measure.client.loop import Limits
from rungproof.measure.client.planned import Address
from rungproof.measure.client.scheduling import Scheduling
from rungproof.measure.client.stream import Taken

LEAD_NS = 20_000_000  # from the last process being ready to the barrier: time enough to tell all of them
OVERTIME_S = 10.0  # a process that says nothing so long after the deadline is ended
SHORT = 8  # bytes of a time or a length


@dataclass(frozen=True, slots=True)
class Job:
    """The requests of one process: (key, body, request bytes, delay [ns]) each."""

    address: Address
    requests: Sequence[tuple[str, bytes, bytes, int]]
    limits: Limits


@dataclass(frozen=True, slots=True)
class Measured:
    """What a batch, or one process's part of it, came to. `cpu_ns`: processor time of all of them from the barrier;
    `wait_ns`: the longest that one of them waited for a processor, None where one of them cannot tell."""

    start_ns: int
    cpu_ns: int
    wait_ns: int | None
    scheduling: Scheduling
    mapping: clock.Mapping
    taken: list[Taken]
    processes: int = 1


def run_jobs(jobs: Sequence[Job], cancelled: Callable[[], bool] | None) -> Measured:
    """Run every job in a process of its own, all behind one barrier. A process that dies loses its requests, as
    `client_error`, and no others. Raises OSError where no process can be started."""
    workers = [_start() for _ in jobs]
    try:
        for worker, job in zip(workers, jobs, strict=True):
            _say(worker, pickle.dumps(job))
        for worker, job in zip(workers, jobs, strict=True):
            _listen(worker, job.limits.deadline_ns, cancelled, 1)  # it is connected
        start_ns = time.monotonic_ns() + LEAD_NS
        for worker in workers:
            _say(worker, start_ns.to_bytes(SHORT, "big"))
        parts = [_part(worker, job, start_ns, cancelled) for worker, job in zip(workers, jobs, strict=True)]
    finally:
        for worker in workers:
            _end(worker)
    mapping = parts[0].mapping
    for part in parts[1:]:
        mapping = clock.span(mapping, part.mapping)
    taken = [one for part in parts for one in part.taken]
    waits = [part.wait_ns for part in parts]
    wait_ns = None if None in waits else max(wait for wait in waits if wait is not None)
    scheduling: Scheduling = "fifo" if all(part.scheduling == "fifo" for part in parts) else "ordinary"
    return Measured(start_ns, sum(part.cpu_ns for part in parts), wait_ns, scheduling, mapping, taken, len(jobs))


def _start() -> subprocess.Popen[bytes]:
    source = str(Path(__file__).resolve().parents[3])
    paths = [source, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    argv = [sys.executable, "-m", "rungproof.measure.client.worker"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def _say(worker: subprocess.Popen[bytes], data: bytes) -> None:
    """Send words with their length; one that is gone is found when it is listened to."""
    assert worker.stdin is not None
    try:
        worker.stdin.write(len(data).to_bytes(SHORT, "big") + data)
        worker.stdin.flush()
    except (OSError, ValueError):
        return


def _end(worker: subprocess.Popen[bytes]) -> None:
    worker.kill()
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        with suppress(OSError):
            if pipe is not None:
                pipe.close()


def _listen(
    worker: subprocess.Popen[bytes], deadline_ns: int, cancelled: Callable[[], bool] | None, size: int
) -> bytes:
    """Exactly `size` bytes, or fewer where it died or is far over its time. Once cancelled, its input is closed."""
    assert worker.stdout is not None
    assert worker.stdin is not None
    handle, got = worker.stdout.fileno(), bytearray()
    while len(got) < size and time.monotonic_ns() < deadline_ns + OVERTIME_S * 1e9:
        if not select.select([handle], [], [], 0.1)[0]:
            if cancelled is not None and cancelled():
                worker.stdin.close()
            continue
        data = os.read(handle, size - len(got))
        if not data:
            break
        got += data
    return bytes(got)


def _part(worker: subprocess.Popen[bytes], job: Job, start_ns: int, cancelled: Callable[[], bool] | None) -> Measured:
    deadline_ns = job.limits.deadline_ns
    length = int.from_bytes(_listen(worker, deadline_ns, cancelled, SHORT), "big")
    data = _listen(worker, deadline_ns, cancelled, length) if length else b""
    if length and len(data) == length:
        measured: Measured = pickle.loads(data)
        return measured
    worker.kill()
    detail = f"the measuring process ended (exit code {worker.wait()}) and what it had received is lost"
    now = time.monotonic_ns()
    lost = [Taken(key, body, None, None, None, "client_error", now, detail, []) for key, body, _, _ in job.requests]
    return Measured(start_ns, 0, None, "ordinary", clock.sample(), lost)
