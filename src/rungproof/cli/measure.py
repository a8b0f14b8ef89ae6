"""`rungproof measure`: its options. What is measured is in rungproof.measure.external, how it is told in cli.measured."""

import argparse
import json
import math
import sys
from pathlib import Path

from rungproof.cli import measured
from rungproof.cli.words import clean
from rungproof.measure.external import Ask, measure
from rungproof.measure.external.prompts import load_prompts
from rungproof.measure.external.run import VENDOR
from rungproof.measure.external.target import find_engine, find_model, parse_url
from rungproof.records.codec import plain
from rungproof.records.errors import ConfigError

INTERRUPTED = 130
HIGHEST = 4096  # connections at once; above 1,024 several processes share them


def add_options(to: argparse.ArgumentParser) -> None:
    """The options of the command."""
    new = to.add_argument
    new("--url", required=True, help="the server, such as http://127.0.0.1:8000; a base path and /v1 are allowed")
    new("--model", default="", help="the model's name there (default: the only one that /v1/models lists)")
    new("--concurrency", type=_rungs, default=(1, 2, 4), metavar="N,N...", help="requests at once (default: 1,2,4)")
    new("--tokens", type=_count, default=128, metavar="N", help="tokens of each answer (default: %(default)s)")
    new("--passes", type=_count, default=2, metavar="N", help="passes of each concurrency (default: %(default)s)")
    new(
        "--prompts", type=Path, metavar="FILE",
        help="a prompt a line, or .json: a list, or .yaml: a ladder suite (default: ladder-v1 of the checkout)",
    )  # fmt: skip
    new("--plain", action="store_true", help=f"send only what OpenAI's own interface has: not {', '.join(VENDOR)}")
    new("--json", action="store_true", help="print the whole report as one line of JSON; progress stays on stderr")
    new("--out", type=Path, metavar="DIR", help="keep every byte received, and the report, in a new folder")
    new("--requests", action="store_true", help="list every request, not only those with something against them")
    new("--deadline", type=_seconds, default=900.0, metavar="S", help="longest time of one batch [s] (default: 900)")
    new(
        "--idle", type=_seconds, default=120.0, metavar="S",
        help="longest wait for the next byte, the first one too [s] (default: 120)",
    )  # fmt: skip
    new("--root", type=Path, default=Path(), metavar="DIR", help="the checkout (default: this folder)")


def run(options: argparse.Namespace) -> int:
    """Measure and tell. 0: every request is complete; 1: one or more are not; 130: interrupted."""
    target = parse_url(options.url)
    prompts = load_prompts(options.prompts, options.root, options.concurrency[-1])
    ask = Ask(
        target, _sendable(options.model or find_model(target)), prompts, options.concurrency, options.tokens, options.passes,
        options.plain, options.deadline, options.idle, options.out, find_engine(target),
    )  # fmt: skip
    try:
        report = measure(ask, lambda line: print(clean(line), file=sys.stderr, flush=True))
    except KeyboardInterrupt:
        kept = f"; the batches that had ended are in {clean(options.out)}" if options.out else ""
        print(f"rungproof: interrupted{kept}", file=sys.stderr)
        return INTERRUPTED
    if options.json:
        print(json.dumps(plain(report), sort_keys=True, allow_nan=False))
    else:
        measured.tell(report, options.requests)
        print(
            f"Raw bytes and report: {clean(options.out)}"
            if options.out
            else "Nothing was kept; --out DIR keeps every byte."
        )
    for line in measured.advice(report):
        print(f"rungproof: {clean(line)}", file=sys.stderr)
    return 0 if report.complete else 1


def _sendable(model: str) -> str:
    try:
        model.encode("utf-8")
    except UnicodeEncodeError:
        raise ConfigError("--model: the name is not valid UTF-8; check how it was typed") from None
    return model


def _rungs(text: str) -> tuple[int, ...]:
    """Ascending numbers, each once."""
    found = tuple(_count(part.strip()) for part in text.split(","))
    if tuple(sorted(set(found))) != found or found[-1] > HIGHEST:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected ascending numbers up to {HIGHEST}, each once, such as 1,2,4"
        )
    return found


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 8 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from 1")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of seconds above 0, at most 86400")
    return value
