"""`rungproof selftest client`: the client held against the burst server of this host."""

import argparse
import json

from rungproof.cli.words import add, console, number, table
from rungproof.measure.selftest import check_client
from rungproof.records.codec import plain
from rungproof.records.formats import ClientCheck

HIGHEST = 4096


def add_options(to: argparse.ArgumentParser) -> None:
    """The options of the command."""
    to.add_argument("--streams", type=_streams, default=128, metavar="N", help="streams at once (default: %(default)s)")
    to.add_argument(
        "--interval-ms",
        type=_interval,
        default=20.0,
        metavar="MS",
        help="an event a stream each so many ms (default: 20)",
    )
    to.add_argument("--json", action="store_true", help="the record as JSON, and nothing else")


def _streams(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= HIGHEST):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {HIGHEST}")
    return int(text)


def _interval(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time from 0.1 to 10000 ms")
    return value


def client(options: argparse.Namespace) -> int:
    """Run it; exit code 1 where a request was lost."""
    found = check_client(options.streams, options.interval_ms, round_s=1.0)
    if options.json:
        print(json.dumps(plain(found), allow_nan=False))
    else:
        tell(found)
    return 1 if found.reasons else 0


def tell(found: ClientCheck) -> None:
    """Print the figures for a person."""
    made = table(
        f"{found.streams} streams, an event each {found.interval_ms:g} ms",
        {"figure": False, "value": True, "unit": False},
    )
    rows = {
        "stamp after the server's write, p50": (number(found.lag_p50_ms, 4), "ms"),
        "stamp after the server's write, p99": (number(found.lag_p99_ms, 4), "ms"),
        "stamp after the server's write, largest": (number(found.lag_max_ms, 4), "ms"),
        "error of the time to first token, p99": (number(found.ttft_error_p99_ms, 4), "ms"),
        "processor time of the client": (number(found.cpu_us_event), "us an event"),
        f"highest rate with p99 below {found.rate_lag_ms:g} ms": (number(found.rate_events_s, 0), f"events/s (ended by: {found.rate_ended_by})"),
        "the server's own ticks late, p99": (number(found.late_p99_ms, 4), "ms"),
        "stamps": (", ".join(found.stamp_source), f"{found.events} events in {found.rounds} rounds"),
    }  # fmt: skip
    for name, (value, unit) in rows.items():
        add(made, name, value, unit)
    console().print(made)
    for reason in found.reasons:
        print(f"not sound: {reason}")
