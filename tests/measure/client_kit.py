"""Sending to the small server and reading back what came."""

import time
from collections.abc import Callable
from typing import Any

from measure.client_server import TOKENS, Server
from rungproof.judge.outcome import result_of
from rungproof.measure.client import Address, Planned, run_batch
from rungproof.records import raw


def plans(count: int, delay_ns: int = 0) -> list[Planned]:
    """`count` requests, each `delay_ns` after the one before."""
    return [Planned(f"k{i}", {"prompt": [i], "stream": True}, delay_ns * i) for i in range(count)]


def go(address: Address, path: str, planned: list[Planned], **how: Any) -> tuple[raw.Batch, list[raw.Request]]:
    """One batch. Its limits are only for what never ends: a test in which one passes sets another."""
    return run_batch(address, planned, batch="b", path=path, **{"deadline_s": 120.0, "idle_s": 60.0, **how})


def received(request: raw.Request) -> bytes:
    """The bytes of the response."""
    return request.bytes.encode("latin-1")


def judge(request: raw.Request, tokens: int = TOKENS) -> str:
    """The state of a request."""
    return result_of(request, window=2, tokens=tokens, exact_length=True, prompt_tokens=1).state


def stamped(request: raw.Request) -> list[tuple[int, bytes]]:
    """The chunks of a response with their stamps."""
    data, at, made = received(request), 0, []
    for at_ns, length in request.chunks:
        made.append((at_ns, data[at : at + length]))
        at += length
    assert at == len(data)
    return made


def once_answered(server: Server, hits: int) -> Callable[[], bool]:
    """True some time after the server has had so many requests: long enough for the first tokens of their answers to come."""
    seen: list[float] = []

    def asked() -> bool:
        if len(server.hits) >= hits:
            seen.append(time.monotonic())
        return bool(seen) and time.monotonic() - seen[0] > 0.3

    return asked
