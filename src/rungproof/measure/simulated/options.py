"""The command line of the simulated server: its own knobs, and any others as a real engine would be given."""

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

MAX_DEPTH = 64


@dataclass(frozen=True, slots=True)
class Options:
    """What one simulated server was asked to be. Times in the unit of the name; `extra`: arguments it does not know."""

    port: int
    host: str
    served_model_name: str
    start_s: float
    token_ms: float
    prefill_ms: float
    draft_depth: int
    flip_at_inflight: int
    max_model_len: int
    ignore_sigterm: bool
    fork_child: bool
    prompt_tokens_details: bool
    burst_ms: float
    end_with_stdin: bool
    tell_rows: bool
    extra: dict[str, str | bool] = field(default_factory=dict)


def parse(argv: Sequence[str] | None = None) -> Options:
    """Options from a command line (default: this process's). A bad value ends in SystemExit(2), with a message.

    The draft depth is `--draft-depth`, or `num_speculative_tokens` of a vLLM `--speculative-config`, so that one
    launch description serves both engines; where both are given they must agree.
    """
    parser = _parser()
    known, rest = parser.parse_known_args(sys.argv[1:] if argv is None else list(argv))
    depth: int = known.draft_depth or 0
    planned = known.speculative_config
    if planned is not None:
        if known.draft_depth is not None and known.draft_depth != planned:
            parser.error(
                f"--draft-depth {known.draft_depth} and --speculative-config (num_speculative_tokens {planned}) "
                "disagree; give one of them"
            )
        depth = planned
    return Options(
        port=known.port,
        host=known.host,
        served_model_name=known.served_model_name,
        start_s=known.start_s,
        token_ms=known.token_ms,
        prefill_ms=known.prefill_ms,
        draft_depth=depth,
        flip_at_inflight=known.flip_at_inflight,
        max_model_len=known.max_model_len,
        ignore_sigterm=known.ignore_sigterm,
        fork_child=known.fork_child,
        prompt_tokens_details=known.enable_prompt_tokens_details,
        burst_ms=known.burst_ms,
        end_with_stdin=known.end_with_stdin,
        tell_rows=known.tell_rows,
        extra=_extra(parser, rest),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rungproof simulate",
        description="A server for tests that speaks like vLLM but has no model. No figure from it is a measurement.",
        epilog="Other --key value and --flag arguments are accepted and remembered, like knobs of a real engine.",
        allow_abbrev=False,
    )
    switch = argparse.BooleanOptionalAction
    add = parser.add_argument
    add("--port", type=_whole(0, 65535), required=True, help="0: any free port; it is written to the log")
    add("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    add("--served-model-name", type=_name, required=True, help="the model's name on the wire")
    add("--start-s", type=_time, default=0.2, help="seconds from the process's start to ready (default: %(default)s)")
    add("--token-ms", type=_time, default=0.2, help="milliseconds an engine step (default: %(default)s)")
    add("--prefill-ms", type=_time, default=1.0, help="milliseconds before the first token (default: %(default)s)")
    add("--draft-depth", type=_whole(0, MAX_DEPTH), help="draft tokens a step; 0: no speculation (default: 0)")
    add("--speculative-config", type=_speculative, metavar="JSON", help="as vLLM's; num_speculative_tokens is used")
    add("--flip-at-inflight", type=_whole(0, 10**6), default=0, help="break identity at this load; 0: never")
    add("--max-model-len", type=_whole(2, 10**8), default=40960, help="context in tokens (default: %(default)s)")
    add("--burst-ms", type=_time, default=0.0, help="be the burst server S33 with a tick each so many ms; 0: do not")
    add("--end-with-stdin", action=switch, default=False, help="the burst server ends when its standard input does")
    add("--tell-rows", action=switch, default=False, help="the burst server logs when its ticks begin and end")
    add("--ignore-sigterm", action=switch, default=False, help="stay alive on SIGTERM, children too")
    add("--fork-child", action=switch, default=False, help="have a helper process that outlives its parent")
    add("--enable-prompt-tokens-details", action=switch, default=True, help="report usage.prompt_tokens_details")
    return parser


def _whole(low: int, high: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 12 and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return convert


def _time(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 86_400_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; give a number from 0 to 86400000")
    return value


def _name(text: str) -> str:
    if not text or not text.isprintable():
        raise argparse.ArgumentTypeError(f"{text!r} is not a model name; give printable text that is not empty")
    return text


def _speculative(text: str) -> int:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    depth = value.get("num_speculative_tokens") if isinstance(value, dict) else None
    if not isinstance(depth, int) or isinstance(depth, bool) or not 1 <= depth <= MAX_DEPTH:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a JSON object whose num_speculative_tokens is a whole number from 1 to {MAX_DEPTH}"
        )
    return depth


def _extra(parser: argparse.ArgumentParser, rest: Sequence[str]) -> dict[str, str | bool]:
    found: dict[str, str | bool] = {}
    key = ""
    for word in rest:
        if word.startswith("--") and len(word) > 2:
            name, given, value = word[2:].partition("=")
            found[name] = value if given else True
            key = "" if given else name
        elif key:
            found[key] = word
            key = ""
        else:
            parser.error(f"{word!r} belongs to no argument; give each value after its --key")
    return found
