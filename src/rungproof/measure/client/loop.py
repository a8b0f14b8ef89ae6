"""The measured exchange: one thread, one selector; between two waits only reads, stamps and framing."""

import selectors
import time
from collections import deque
from collections.abc import Callable, Sequence

from rungproof.measure.client.stream import Stream

WATCH_NS = 200_000_000  # how often idle streams and cancellation are looked for; a quarter of the idle limit at most


def exchange(streams: Sequence[Stream], deadline_ns: int, idle_ns: int, cancelled: Callable[[], bool] | None) -> int:
    """Run the connected streams from the barrier to the end of each; returns the barrier [ns].

    Every stream is finished afterwards; those that were finished before stay as they are.
    """
    watch_ns = min(WATCH_NS, max(idle_ns // 4, 1_000_000))
    with selectors.DefaultSelector() as selector:
        waiting = deque(sorted((stream for stream in streams if stream.end is None), key=lambda one: one.delay_ns))
        for stream in waiting:
            if stream.socket is not None:
                selector.register(stream.socket, selectors.EVENT_READ, stream)
        start_ns = time.monotonic_ns()
        next_watch_ns = start_ns + watch_ns
        while selector.get_map():
            now = time.monotonic_ns()
            while waiting and start_ns + waiting[0].delay_ns <= now:
                _admit(waiting.popleft(), selector)
            if now >= deadline_ns:
                _finish_all(selector, "the deadline of the batch passed")
                break
            if now >= next_watch_ns:
                next_watch_ns = now + watch_ns
                if cancelled is not None and cancelled():
                    break
                _end_idle(selector, now, idle_ns)
            until_ns = min(deadline_ns, next_watch_ns, start_ns + waiting[0].delay_ns if waiting else deadline_ns)
            for key, mask in selector.select(max(0.0, (until_ns - now) / 1e9)):
                _serve(key.data, mask, selector)
    for stream in streams:
        stream.finish("cancelled", "cancelled by the caller")
    return start_ns


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
        # The selector finds a socket by its descriptor, which closing takes away: so it must let go before.
        handle = connection.fileno()
        stream.receive()
        if stream.end is not None:
            selector.unregister(handle)


def _end_idle(selector: selectors.BaseSelector, now: int, idle_ns: int) -> None:
    for key in list(selector.get_map().values()):
        stream: Stream = key.data
        if stream.sent_ns is not None and now - stream.progress_ns > idle_ns:
            selector.unregister(key.fileobj)
            stream.finish("timeout", f"no byte came for {(now - stream.progress_ns) / 1e9:.1f} s")


def _finish_all(selector: selectors.BaseSelector, detail: str) -> None:
    for key in list(selector.get_map().values()):
        selector.unregister(key.fileobj)
        stream: Stream = key.data
        stream.finish("timeout", detail)
