"""One start barrier: connect all, send all at once (or staggered), store what comes until each request has ended."""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rungproof.measure.client import clock
from rungproof.measure.client.connect import connect_all
from rungproof.measure.client.loop import exchange
from rungproof.measure.client.planned import Address, Planned, body_bytes, check, request_bytes
from rungproof.measure.client.stream import Stream
from rungproof.records import raw

MAX_CLOCK_ERROR_NS = 1_000_000  # a mapping known worse than this (the clock was stepped) is not used


def run_batch(
    address: Address,
    planned: Sequence[Planned],
    *,
    batch: str,
    path: str = "/v1/completions",
    deadline_s: float,
    idle_s: float,
    cancelled: Callable[[], bool] | None = None,
) -> tuple[raw.Batch, list[raw.Request]]:
    """Send every planned request behind one barrier; returns the batch and its requests in the order planned.

    deadline_s  from the call to the end of the last request; what is not over then ends as `timeout`
    idle_s      longest wait for the next byte (the first one too, so a prefill must fit in it); then `timeout`
    cancelled   asked a few times a second; once it says True, what is not over ends as `cancelled`

    All connections are open before the barrier. Each request ends in exactly one EndKind and keeps the bytes it got;
    there are no retries and no proxies. Stamps are the kernel's where every received chunk has one and the clocks
    kept still, else they are this process's own, which `stamp_source` tells.

    Raises ValueError (or TypeError for a body that is no JSON) for a wrong call, before anything is sent; nothing for
    what a server does.
    """
    check(address, path, planned, deadline_s, idle_s)
    deadline_ns = time.monotonic_ns() + round(deadline_s * 1e9)
    streams = []
    for request in planned:
        body = body_bytes(request.body)
        streams.append(Stream(request.key, body, request_bytes(address, path, body), request.delay_ns))
    try:
        with _no_pauses():
            connect_all(address, streams, deadline_ns)
            before = clock.sample()
            start_ns = exchange(streams, deadline_ns, round(idle_s * 1e9), cancelled)
            mapping = clock.span(before, clock.sample())
    finally:
        for stream in streams:
            stream.finish("cancelled", "interrupted")
    return _records(batch, streams, start_ns, mapping)


@contextmanager
def _no_pauses() -> Iterator[None]:
    """No garbage collection inside: what lives already is set aside, and nothing is collected until the end."""
    enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()


def _records(
    batch: str, streams: Sequence[Stream], start_ns: int, mapping: clock.Mapping
) -> tuple[raw.Batch, list[raw.Request]]:
    received = [chunk for stream in streams for chunk in stream.received]
    # A kernel stamp that maps to after its own read shows a clock that was stepped and stepped back.
    kernel = mapping.error_ns <= MAX_CLOCK_ERROR_NS and bool(received)
    kernel = kernel and all(
        stamp is not None and stamp - mapping.offset_ns <= read_ns + mapping.error_ns for stamp, read_ns, _ in received
    )
    head = raw.Batch(
        batch=batch,
        start_ns=start_ns,
        planned=tuple(stream.key for stream in streams),
        stamp_source="kernel" if kernel else "user",
        offset_ns=mapping.offset_ns,
        error_ns=mapping.error_ns,
    )
    return head, [_record(batch, stream, mapping.offset_ns if kernel else None) for stream in streams]


def _record(batch: str, stream: Stream, offset_ns: int | None) -> raw.Request:
    chunks = tuple(
        (read_ns if offset_ns is None or kernel_ns is None else kernel_ns - offset_ns, len(data))
        for kernel_ns, read_ns, data in stream.received
    )
    return raw.Request(
        batch=batch,
        key=stream.key,
        body=stream.body.decode("latin-1"),
        connected_ns=stream.connected_ns,
        sent_ns=stream.sent_ns,
        sent_end_ns=stream.sent_end_ns,
        end=stream.end or "cancelled",
        end_ns=stream.end_ns,
        detail=stream.detail,
        chunks=chunks,
        bytes=b"".join(data for _, _, data in stream.received).decode("latin-1"),
    )
