"""One process of several that measure a batch together: what it is told and hands over stands in `processes`."""

import pickle
import select
import sys
import time
from typing import IO

from rungproof.measure.client import clock
from rungproof.measure.client.connect import connect_all
from rungproof.measure.client.loop import exchange
from rungproof.measure.client.pauses import no_pauses
from rungproof.measure.client.processes import SHORT, Job, Measured
from rungproof.measure.client.scheduling import first_in_line
from rungproof.measure.client.stamps import switch_on
from rungproof.measure.client.stream import Stream


def _work(told: IO[bytes], said: IO[bytes]) -> None:
    """One worker: connect, say so, wait for the barrier's time, measure, hand over."""
    job: Job = pickle.loads(_hear(told))
    streams = [Stream(*request) for request in job.requests]

    def barrier() -> int:
        said.write(b"+")
        said.flush()
        start_ns = int.from_bytes(_hear(told), "big")
        if (left_ns := start_ns - time.monotonic_ns() - 1_000_000) > 0:
            time.sleep(left_ns / 1e9)
        while time.monotonic_ns() < start_ns:
            pass  # a sleep ends some 60 us late, which would differ from process to process
        return start_ns

    switch_on()
    with no_pauses(), first_in_line() as scheduling:
        connect_all(job.address, streams, job.limits.deadline_ns)
        before = clock.sample()
        ran = exchange(streams, job.limits, lambda: bool(select.select([told], [], [], 0)[0]), barrier)
        mapping = clock.span(before, clock.sample())
    taken = [stream.taken() for stream in streams]
    data = pickle.dumps(Measured(ran.start_ns, ran.cpu_ns, ran.wait_ns, scheduling, mapping, taken))
    said.write(len(data).to_bytes(SHORT, "big") + data)
    said.flush()


def _hear(told: IO[bytes]) -> bytes:
    """Words with their length, unbuffered, so that the end of the input can be seen by select. Raises EOFError."""

    def exactly(size: int) -> bytes:
        got = b""
        while len(got) < size:
            data = told.read(size - len(got))
            if not data:
                raise EOFError("the measuring process was given up before its barrier")
            got += data
        return got

    return exactly(int.from_bytes(exactly(SHORT), "big"))


def main() -> int:
    """A worker's life. It ends quietly when it is given up."""
    try:
        with open(0, "rb", buffering=0, closefd=False) as told:
            _work(told, sys.stdout.buffer)
    except (EOFError, BrokenPipeError):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
