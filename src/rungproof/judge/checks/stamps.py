"""Whether the stamps of an attempt make sense: in order, inside the attempt, and in step with every other clock that was read.

Other clocks: UTC of the host (the attempt's record), the server's own seconds (`created` of its answers, its latency sums in
/metrics), and of a session the processor ticks between its samples. Rates come from these stamps alone, so stamps that were
scaled must disagree with one of them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rungproof.judge import prometheus
from rungproof.judge.checks.found import Found
from rungproof.judge.checks.moments import seconds
from rungproof.judge.stats import median
from rungproof.records import raw
from rungproof.records.environment import Sample
from rungproof.records.formats import Attempt, Judged

SLACK_NS = 5_000_000  # between stamps of the kernel and of the program
MARGIN_S = 0.5  # between UTC moments and stamps: reading prompts, connecting, a step of the clock
IDLE_S = 2.0  # between reading the server's counters and the wire: connecting, records synced to the disk, on a busy machine too
SHARE = 0.05  # of the attempt's length, that may lie before its first and after its last stamp
LATENCY = ("vllm:e2e_request_latency_seconds_sum", "sglang:e2e_request_latency_seconds_sum")
DECODE = ("vllm:request_decode_time_seconds_sum",)
LEAST, LATE_S = 0.98, 0.01  # a client sees at least so much of what the server counted, less so much for each request
CREATED = re.compile(rb'"created"\s*:\s*(\d{1,12})\b')
TICKS_S = 100  # processor ticks a second, as Linux shows them to programs (USER_HZ)
LONG_S = 4.0  # samples over less say too little about ticks


@dataclass(frozen=True, slots=True)
class Span:
    """When an attempt's requests were on the wire: first send, last byte [ns, monotonic], and UTC minus that clock [ns]."""

    first_ns: int
    last_ns: int
    offset_ns: int


def check_stamps(where: str, attempt: Attempt, judged: Judged, lines: Sequence[raw.Line], found: Found) -> Span | None:
    """One accepted attempt; None where there is no request to look at, which fails."""
    requests = [line for line in lines if isinstance(line, raw.Request) and line.sent_ns is not None]
    batches = {line.batch: line for line in lines if isinstance(line, raw.Batch)}
    if not requests or not batches:
        found.fail("L4", f"{where}: no stamps to check")
        return None
    found.count("attempts with stamps")
    _order(where, requests, batches, lines, found)
    span = Span(
        min(r.sent_ns for r in requests if r.sent_ns is not None),
        max(r.end_ns for r in requests),
        next(iter(batches.values())).offset_ns,
    )
    read = [line.at_ns for line in lines if isinstance(line, raw.Metrics)]
    _inside(where, attempt, span, (read[0], read[-1]) if len(read) > 1 else None, found)
    _server_clock(where, requests, batches, judged, lines, found)
    return span


def _order(
    where: str, requests: Sequence[raw.Request], batches: dict[str, raw.Batch], lines: Sequence[raw.Line], found: Found
) -> None:
    ended = 0
    for batch in batches.values():
        mine = [r for r in requests if r.batch == batch.batch]
        if batch.start_ns < ended - SLACK_NS:
            found.fail("L4", f"{where}: batch {batch.batch} began before the one before it had ended")
        ended = max([ended, *(r.end_ns for r in mine)])
        for r in mine:
            stamps = [at for at, _ in r.chunks]
            steps = [batch.start_ns, r.sent_ns or 0, *stamps]
            late = batch.error_ns + SLACK_NS
            if any(later < earlier - late for earlier, later in pairwise(steps)) or (
                stamps and r.end_ns < stamps[-1] - late
            ):
                found.fail("L4", f"{where}: {r.batch}/{r.key}: stamps go back in time")
                return
    offsets = [batch.offset_ns for batch in batches.values()]
    if max(offsets) - min(offsets) > MARGIN_S * 1e9:
        found.fail(
            "L4", f"{where}: the clocks' offset changed by {(max(offsets) - min(offsets)) / 1e9:.3f} s between batches"
        )
    read = [line.at_ns for line in lines if isinstance(line, raw.Metrics)]
    first, last = min(batch.start_ns for batch in batches.values()), max(r.end_ns for r in requests)
    if read and (read[0] > first + SLACK_NS or read[-1] < last - SLACK_NS):
        found.fail("L4", f"{where}: the server's counters were not read before the first and after the last request")


def _inside(where: str, attempt: Attempt, span: Span, read: tuple[int, int] | None, found: Found) -> None:
    """The stamps lie inside the attempt, by UTC and by its own length, and fill it. read: when the server's counters were read first
    and last [ns], with which an attempt begins and ends; None: its first send and last byte are all there is."""
    began, ended = seconds(attempt.began), seconds(attempt.ended)
    if began is None or ended is None:
        found.fail("L4", f"{where}: began {attempt.began!r:.40} or ended {attempt.ended!r:.40} is no moment in UTC")
        return
    first, last = ((ns + span.offset_ns) / 1e9 for ns in (span.first_ns, span.last_ns))
    if first < began - MARGIN_S or last > ended + MARGIN_S:
        found.fail("L4", f"{where}: its stamps lie outside {attempt.began} to {attempt.ended}")
    if abs((ended - began) - attempt.seconds) > MARGIN_S:
        found.fail(
            "L4",
            f"{where}: says {attempt.seconds:g} s, from {attempt.began} to {attempt.ended} are {ended - began:.3f} s",
        )
    wire = (span.last_ns - span.first_ns) / 1e9
    whole = (read[1] - read[0]) / 1e9 if read else wire
    for of, long, idle in ((attempt.seconds, whole, MARGIN_S), (whole, wire, IDLE_S)):
        allowed = idle + SHARE * attempt.seconds
        if not -0.01 <= of - long <= allowed:
            found.fail(
                "L4",
                f"{where}: its stamps span {long:.3f} s of {of:.3f} s, in an attempt of {attempt.seconds:.3f} s (expected all but {allowed:.2f} s)",
            )
            break


def _server_clock(
    where: str,
    requests: Sequence[raw.Request],
    batches: dict[str, raw.Batch],
    judged: Judged,
    lines: Sequence[raw.Line],
    found: Found,
) -> None:
    """The server's own clock: the second in which it says an answer was made, and its sums of latencies."""
    for r in requests:
        told = CREATED.search(r.data()[:4096])
        if told is None or r.batch not in batches:
            continue
        found.count("answers dated by the server")
        sent, end = ((ns + batches[r.batch].offset_ns) / 1e9 for ns in (r.sent_ns or 0, r.end_ns))
        if not sent - 1 - MARGIN_S <= int(told[1]) <= end + MARGIN_S:
            found.fail(
                "L4",
                f"{where}: {r.batch}/{r.key}: stamped {sent - int(told[1]):+.1f} s from the second that the server gave",
            )
            break
    read = [line.text for line in lines if isinstance(line, raw.Metrics)]
    whole = [r for r in judged.requests if r.last_token_ns is not None and r.ttft_ns is not None]
    if len(read) < 2 or len(whole) != len(judged.requests):
        return
    ours = {
        LATENCY: sum(r.last_token_ns - r.sent_ns for r in whole if r.last_token_ns is not None) / 1e9,
        DECODE: sum(r.last_token_ns - r.sent_ns - (r.ttft_ns or 0) for r in whole if r.last_token_ns is not None) / 1e9,
    }
    for name, client in ((name, client) for names, client in ours.items() for name in names):
        server = prometheus.delta(read[0], read[-1], name)
        if server is None:
            continue
        found.count("latency sums of the server")
        if client < LEAST * server - LATE_S * len(whole):
            found.fail(
                "L4",
                f"{where}: stamps give {client:.3f} s in all, the server's own {name} grew by {server:.3f} s",
            )


def check_samples(where: str, samples: Sequence[Sample], every_s: float, processors: object, found: Found) -> None:
    """A session's samples: in order, as far apart as they were planned, in step with the processors' ticks."""
    gaps = [(b.at_ns - a.at_ns) / 1e9 for a, b in pairwise(samples)]
    if len(samples) < 2 or min(gaps) <= 0:
        found.fail(
            "L4",
            f"{where}: {len(samples)} samples, or not in order; expected at least 2, each later than the one before",
        )
        return
    found.count("sessions with samples")
    if len(gaps) >= 3 and not 0.75 * every_s <= median(gaps) <= 1.5 * every_s:
        found.fail("L4", f"{where}: samples are {median(gaps):.3f} s apart by their stamps, {every_s:g} s were planned")
    names = ("cpu.busy_ticks", "cpu.idle_ticks", "cpu.stolen_ticks")
    first, last = samples[0], samples[-1]
    span = (last.at_ns - first.at_ns) / 1e9
    known = all(name in sample.values for name in names for sample in (first, last))
    if span < LONG_S or not known or type(processors) is not int or processors < 1:
        return
    ticks = sum(last.values[name] - first.values[name] for name in names) / (TICKS_S * processors)
    found.count("sessions in step with processor ticks")
    if not 0.9 * span <= ticks <= 1.1 * span:
        found.fail("L4", f"{where}: by stamps the samples span {span:.2f} s, by the processors' ticks {ticks:.2f} s")
