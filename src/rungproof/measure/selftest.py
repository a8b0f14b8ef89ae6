"""The client held against a server whose events carry their own send stamps: how late, how dear, how fast it is here and now."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import requests

from rungproof.judge.rates import percentile
from rungproof.judge.stats import median
from rungproof.judge.wire import parse_response
from rungproof.measure.client import Address, Planned, run_batch
from rungproof.measure.serving.children import module_environment
from rungproof.records import raw
from rungproof.records.errors import HostError
from rungproof.records.formats import ClientCheck, Reason

RATE_LAG_MS = 0.1  # the rate's bound on the lag's p99
BEHIND = 0.05  # share of ticks that the server may skip before it is the server that cannot keep up
START_S = 90.0
DOUBLINGS = 12  # of the rate, at most
SEARCH_EVENTS = 4000  # at one rate, at most
LEAST_INTERVAL_MS = 0.01  # the burst server's own
_SHOWN = "Burst server running on http://127.0.0.1:"


@dataclass(frozen=True, slots=True)
class Round:
    """One batch on the burst server. `lags_ns`: stamp - server's stamp, an event each; `first_ns`: error of each time to
    first token; `lost`: requests that did not complete with all their tokens; `stats`: the server's own, see burst.Ticks."""

    lags_ns: list[int]
    first_ns: list[int]
    cpu_ns: int | None
    wall_ns: int
    lost: int
    stamp_source: str
    stats: dict[str, Any]
    lines: tuple[raw.Line, ...]


@contextmanager
def burst_server(interval_ms: float) -> Iterator[Address]:
    """A burst server in a process of its own, which ends with this block or with this process. Raises HostError."""
    argv = [sys.executable, "-m", "rungproof.measure.simulated", "--port", "0", "--served-model-name", "burst"]
    argv += ["--burst-ms", str(interval_ms), "--end-with-stdin"]
    server = subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=module_environment())
    assert server.stdin is not None
    assert server.stderr is not None
    try:
        yield Address("127.0.0.1", _port(server.stderr.fileno()))
    finally:
        with suppress(OSError):
            server.stdin.close()
        try:
            server.wait(5)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        server.stderr.close()


def _port(log: int) -> int:
    said, deadline = "", time.monotonic() + START_S
    while "\n" not in said and time.monotonic() < deadline:
        if select.select([log], [], [], 0.1)[0]:
            data = os.read(log, 4096).decode("utf-8", "replace")
            if not data:
                break
            said += data
    if _SHOWN not in said:
        raise HostError(f"the burst server of the self-test did not start; it said {said[-500:]!r}")
    return int(said.split(_SHOWN)[1].split()[0])


def one_round(address: Address, streams: int, interval_ms: float, tokens: int, processes: int | None = None) -> Round:
    """One batch of `streams` requests, each of `tokens` events, one every `interval_ms`."""
    body = {
        "model": "burst", "max_tokens": tokens, "interval_ms": interval_ms, "stream": True, "stream_options": {"include_usage": True},
    }  # fmt: skip
    planned = [Planned(f"s{i:04d}", {**body, "prompt": [i]}) for i in range(streams)]
    deadline_s = 30.0 + 3 * tokens * interval_ms / 1000
    batch, answers = run_batch(
        address, planned, batch="selftest", deadline_s=deadline_s, idle_s=10.0, processes=processes
    )
    lags: list[int] = []
    first: list[int] = []
    lost = 0
    for answer in answers:
        events, data, at = [], answer.data(), 0
        for at_ns, length in answer.chunks:
            events.append((at_ns, data[at : at + length]))
            at += length
        found = parse_response(events)
        said = [(one.at_ns, one.text) for one in found.events]
        count = sum(len(one.token_ids) for one in found.events)
        lost += answer.end != "framed" or found.error is not None or not found.done or count != tokens
        lags += [at_ns - int(text.split(">")[-1]) for at_ns, text in said]
        if said and answer.sent_ns is not None:
            arrived, sent = map(int, said[0][1].split(">"))
            first.append((said[0][0] - answer.sent_ns) - (sent - arrived))
    return Round(
        lags, first, batch.cpu_ns, max((a.end_ns for a in answers), default=batch.start_ns) - batch.start_ns, lost,
        batch.stamp_source, _stats(address), (batch, *answers),
    )  # fmt: skip


def _stats(address: Address) -> dict[str, Any]:
    with requests.Session() as session:
        session.trust_env = False
        found = session.get(f"http://{address.host}:{address.port}/stats", timeout=10).json()
    return found if isinstance(found, dict) else {}


def check_client(
    streams: int, interval_ms: float, *, session: str = "", boot: str = "", rounds: int = 3, round_s: float = 0.25, search: bool = True
) -> ClientCheck:  # fmt: skip
    """Measure the client at this number of streams. Raises HostError where no burst server can be had.

    rounds x round_s  time for the lag; where `search`, the rate is doubled after that, half a round each, until the lag's
                      p99 passes RATE_LAG_MS, the server itself falls behind, or a request is lost
    """
    with burst_server(interval_ms) as address:
        one_round(address, streams, interval_ms, 2)  # first uses: imports, buffers, the server's own
        tokens = max(8, round(round_s * 1000 / interval_ms))
        done = [one_round(address, streams, interval_ms, tokens) for _ in range(rounds)]
        ended: Literal["lag", "server", "lost", "not searched"] = "not searched"
        rate = None
        if search:
            rate, ended = _search(address, streams, interval_ms, round_s / 2, done)
    lags = [one.lags_ns for one in done if one.lags_ns]
    lost = sum(one.lost for one in done)
    events = sum(map(len, lags))
    return ClientCheck(
        session=session, boot=boot, streams=streams, interval_ms=interval_ms, rounds=rounds, events=events,
        lag_p50_ms=_middle([percentile(one, 0.5) / 1e6 for one in lags]),
        lag_p99_ms=_middle([percentile(one, 0.99) / 1e6 for one in lags]),
        lag_max_ms=max((max(one) / 1e6 for one in lags), default=None),
        ttft_error_p99_ms=_middle([percentile([abs(e) for e in one.first_ns], 0.99) / 1e6 for one in done if one.first_ns]),
        cpu_us_event=_middle([one.cpu_ns / 1e3 / len(one.lags_ns) for one in done if one.cpu_ns is not None and one.lags_ns]),
        late_p99_ms=_middle([one.stats["late_p99_ms"] for one in done if one.stats.get("late_p99_ms") is not None]),
        rate_events_s=rate, rate_lag_ms=RATE_LAG_MS, rate_ended_by=ended,
        stamp_source=tuple(sorted({one.stamp_source for one in done})),
        reasons=(Reason("requests lost", f"{lost} of {rounds * streams}", "0", "self-test"),) if lost or not events else (),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )  # fmt: skip


def _middle(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _search(
    address: Address, streams: int, interval_ms: float, round_s: float, done: Sequence[Round]
) -> tuple[float | None, Literal["lag", "server", "lost"]]:
    """Double the rate until something gives way; the highest rate that held [events/s], and what gave way.

    A low rate may fail where a higher one holds (processor and caches go to sleep between events), so one that fails ends the
    search only after one has held, or after DOUBLINGS.
    """
    p99s = [percentile(one.lags_ns, 0.99) if one.lags_ns else float("inf") for one in done]
    best = streams / interval_ms * 1000 if median(p99s) <= RATE_LAG_MS * 1e6 else None
    for _ in range(DOUBLINGS):
        interval_ms /= 2
        if interval_ms < LEAST_INTERVAL_MS:
            return best, "server"
        tokens = max(8, round(min(round_s * 1000 / interval_ms, SEARCH_EVENTS / streams)))
        found = one_round(address, streams, interval_ms, tokens)
        if found.lost:
            return best, "lost"
        if found.stats["skipped"] > found.stats["ticks"] * BEHIND or found.stats["burst_p50_ms"] > interval_ms:
            return best, "server"
        if percentile(found.lags_ns, 0.99) <= RATE_LAG_MS * 1e6:
            best = streams / interval_ms * 1000
        elif best is not None:
            break
    return best, "lag"


def session_interval_ms(streams: int) -> float:
    """The interval at which a session's client is checked: 10,000 events a second, but no faster than a tick a millisecond."""
    return max(1.0, streams / 10)
