"""One start barrier: connect all, send all at once (or staggered), store what comes until each request has ended."""

import time
from collections.abc import Callable, Sequence

from rungproof.measure.client import clock
from rungproof.measure.client.connect import connect_all
from rungproof.measure.client.kept import Kept
from rungproof.measure.client.loop import Limits, exchange
from rungproof.measure.client.pauses import no_pauses
from rungproof.measure.client.planned import Address, Planned, body_bytes, check, request_bytes
from rungproof.measure.client.processes import Job, Measured, run_jobs
from rungproof.measure.client.scheduling import first_in_line
from rungproof.measure.client.stamps import switch_on
from rungproof.measure.client.stream import Stream, Taken
from rungproof.records import raw

MAX_CLOCK_ERROR_NS = 1_000_000  # a mapping known worse than this (the clock was stepped) is not used
STREAMS_A_PROCESS = 1024  # more are spread over several processes


def run_batch(
    address: Address,
    planned: Sequence[Planned],
    *,
    batch: str,
    path: str = "/v1/completions",
    deadline_s: float,
    idle_s: float,
    request_s: float | None = None,
    cancelled: Callable[[], bool] | None = None,
    kept: Kept | None = None,
    processes: int | None = None,
) -> tuple[raw.Batch, list[raw.Request]]:
    """Send every planned request behind one barrier; returns the batch and its requests in the order planned.

    deadline_s  from the call to the end of the last request; what is not over then ends as `timeout`
    idle_s      longest wait for the next byte (the first one too, so a prefill must fit in it); then `timeout`
    request_s   longest time of one request, from its own send; then `timeout`. None: the deadline alone
    cancelled   asked a few times a second; once it says True, what is not over ends as `cancelled`
    kept        connections to use again and to leave for the next batch; None: a fresh one for each request
    processes   how many share the streams, behind one barrier and on one clock; None: one for each STREAMS_A_PROCESS

    All connections are open before the barrier. Each request ends in exactly one EndKind and keeps the bytes it got;
    there are no retries and no proxies. Stamps are the kernel's where every received chunk has one and the clocks
    kept still, else they are this process's own, which `stamp_source` tells.

    Raises ValueError (or TypeError for a body that is no JSON) for a wrong call, before anything is sent; nothing for
    what a server does.
    """
    check(address, path, planned, deadline_s, idle_s if request_s is None else min(idle_s, request_s))
    count = -(-len(planned) // STREAMS_A_PROCESS) if processes is None else processes
    if not 1 <= count <= len(planned) or (kept is not None and count > 1):
        raise ValueError(f"found {count} processes; expected 1 to {len(planned)}, and 1 with kept connections")
    deadline_ns = time.monotonic_ns() + round(deadline_s * 1e9)
    limits = Limits(deadline_ns, round(idle_s * 1e9), round((deadline_s if request_s is None else request_s) * 1e9))
    requests = []
    for request in planned:
        body = body_bytes(request.body)
        requests.append((request.key, body, request_bytes(address, path, body), request.delay_ns))
    if count == 1:
        measured = _here(address, requests, limits, cancelled, kept)
    else:
        measured = run_jobs([Job(address, requests[at::count], limits) for at in range(count)], cancelled)
    order = {key: at for at, (key, *_) in enumerate(requests)}
    return _records(batch, sorted(measured.taken, key=lambda one: order[one.key]), measured)


def _here(
    address: Address, requests: Sequence[tuple[str, bytes, bytes, int]], limits: Limits,
    cancelled: Callable[[], bool] | None, kept: Kept | None,
) -> Measured:  # fmt: skip
    """Run the batch in this process."""
    streams = [Stream(*request, None if kept is None else kept.idle) for request in requests]
    try:
        switch_on()
        with no_pauses(), first_in_line() as scheduling:
            connect_all(address, streams, limits.deadline_ns, kept)
            before = clock.sample()
            ran = exchange(streams, limits, cancelled)
            mapping = clock.span(before, clock.sample())
    finally:
        taken = [stream.taken() for stream in streams]
    return Measured(ran.start_ns, ran.cpu_ns, ran.wait_ns, scheduling, mapping, taken)


def _records(batch: str, taken: Sequence[Taken], measured: Measured) -> tuple[raw.Batch, list[raw.Request]]:
    mapping = measured.mapping
    received = [chunk for one in taken for chunk in one.received]
    # A kernel stamp that maps to after its own read shows a clock that was stepped and stepped back.
    kernel = mapping.error_ns <= MAX_CLOCK_ERROR_NS and bool(received)
    kernel = kernel and all(
        stamp is not None and stamp - mapping.offset_ns <= read_ns + mapping.error_ns for stamp, read_ns, _ in received
    )
    head = raw.Batch(
        batch=batch,
        start_ns=measured.start_ns,
        planned=tuple(one.key for one in taken),
        stamp_source="kernel" if kernel else "user",
        offset_ns=mapping.offset_ns,
        error_ns=mapping.error_ns,
        cpu_ns=measured.cpu_ns,
        wait_ns=measured.wait_ns,
        scheduling=measured.scheduling,
        processes=measured.processes,
    )
    return head, [_record(batch, one, mapping.offset_ns if kernel else None) for one in taken]


def _record(batch: str, taken: Taken, offset_ns: int | None) -> raw.Request:
    chunks = tuple(
        (read_ns if offset_ns is None or kernel_ns is None else kernel_ns - offset_ns, len(data))
        for kernel_ns, read_ns, data in taken.received
    )
    return raw.Request(
        batch=batch,
        key=taken.key,
        body=taken.body.decode("latin-1"),
        connected_ns=taken.connected_ns,
        sent_ns=taken.sent_ns,
        sent_end_ns=taken.sent_end_ns,
        end=taken.end,
        end_ns=taken.end_ns,
        detail=taken.detail,
        chunks=chunks,
        bytes=b"".join(data for _, _, data in taken.received).decode("latin-1"),
    )
