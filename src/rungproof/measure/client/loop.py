"""The measured exchange: one thread, one selector; between two waits only reads, stamps and framing."""

import selectors
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rungproof.measure.client.scheduling import waited_ns, waits
from rungproof.measure.client.stream import Stream

WATCH_NS = 200_000_000  # how often idle streams and cancellation are looked for; a quarter of a limit at most


@dataclass(frozen=True, slots=True)
class Limits:
    """When waiting ends. All [ns]: `deadline_ns` on the monotonic clock, the others are lengths."""

    deadline_ns: int
    idle_ns: int
    request_ns: int


@dataclass(frozen=True, slots=True)
class Ran:
    """`start_ns`: the barrier on the monotonic clock; `cpu_ns`: processor time from it to the end of the last request;
    `wait_ns`: time in which this process could have run and had no processor, None where the kernel does not tell."""

    start_ns: int
    cpu_ns: int
    wait_ns: int | None


def exchange(
    streams: Sequence[Stream],
    limits: Limits,
    cancelled: Callable[[], bool] | None,
    barrier: Callable[[], int] = time.monotonic_ns,
) -> Ran:
    """Run the connected streams from the barrier to the end of each.

    `barrier` returns when they may begin, and says when that was. Every stream is finished afterwards; those that
    were finished before stay as they are.
    """
    with selectors.DefaultSelector() as selector:
        waiting = deque(sorted((stream for stream in streams if stream.end is None), key=lambda one: one.delay_ns))
        for stream in waiting:
            if stream.socket is not None:
                selector.register(stream.socket, selectors.EVENT_READ, stream)
        start_ns = barrier()
        cpu_ns, queued = time.process_time_ns(), waits()
        _run(selector, waiting, start_ns, limits, cancelled)
        cpu_ns, wait_ns = time.process_time_ns() - cpu_ns, waited_ns(queued, waits())
    for stream in streams:
        stream.finish("cancelled", "cancelled by the caller")
    return Ran(start_ns, cpu_ns, wait_ns)


def _run(
    selector: selectors.BaseSelector, waiting: deque[Stream], start_ns: int, limits: Limits,
    cancelled: Callable[[], bool] | None,
) -> None:  # fmt: skip
    """Serve every registered stream until none is left, the deadline passes, or the caller cancels."""
    watch_ns = min(WATCH_NS, max(min(limits.idle_ns, limits.request_ns) // 4, 1_000_000))
    next_watch_ns = start_ns + watch_ns
    while selector.get_map():
        now = time.monotonic_ns()
        while waiting and start_ns + waiting[0].delay_ns <= now:
            _admit(waiting.popleft(), selector)
        if now >= limits.deadline_ns:
            _finish_all(selector, "the deadline of the batch passed")
            return
        if now >= next_watch_ns:
            next_watch_ns = now + watch_ns
            if cancelled is not None and cancelled():
                return
            _end_late(selector, now, limits)
        until_ns = min(limits.deadline_ns, next_watch_ns)
        if waiting:
            until_ns = min(until_ns, start_ns + waiting[0].delay_ns)
        for key, mask in selector.select(max(0.0, (until_ns - now) / 1e9)):
            _serve(key.data, mask, selector)


def _admit(stream: Stream, selector: selectors.BaseSelector) -> None:
    if stream.socket is None:
        return
    stream.send()
    if stream.sending:
        selector.modify(stream.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, stream)


def _serve(stream: Stream, mask: int, selector: selectors.BaseSelector) -> None:
    connection = stream.socket
    if connection is None:
        return
    if mask & selectors.EVENT_WRITE and stream.sending:
        stream.send()
        if not stream.sending:
            selector.modify(connection, selectors.EVENT_READ, stream)
    if mask & selectors.EVENT_READ:
        # The selector finds a socket by its descriptor, which closing takes away: so it is asked for before.
        handle = connection.fileno()
        stream.receive()
        if stream.end is not None:
            selector.unregister(handle)


def _end_late(selector: selectors.BaseSelector, now: int, limits: Limits) -> None:
    """The watchdog: a stream that stalls, or takes longer than a request may, ends with the bytes it has."""
    for key in list(selector.get_map().values()):
        stream: Stream = key.data
        if stream.sent_ns is None:
            continue
        if now - stream.progress_ns > limits.idle_ns:
            detail = f"no byte came for {(now - stream.progress_ns) / 1e9:.1f} s"
        elif now - stream.sent_ns > limits.request_ns:
            detail = f"no end came within {(now - stream.sent_ns) / 1e9:.1f} s of the request"
        else:
            continue
        selector.unregister(key.fileobj)
        stream.finish("timeout", detail)


def _finish_all(selector: selectors.BaseSelector, detail: str) -> None:
    for key in list(selector.get_map().values()):
        selector.unregister(key.fileobj)
        stream: Stream = key.data
        stream.finish("timeout", detail)
