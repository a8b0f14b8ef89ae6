"""What the supervisor must know of an engine, and how arguments are written on a command line."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rungproof.measure.serving.order import Order
from rungproof.records.formats import Knob


@dataclass(frozen=True, slots=True)
class Engine:
    """One kind of server.

    argv(order, model, port): its command. python(order): the interpreter it runs in. passed: variables of ours it may
    see besides the common ones. log_knobs(arguments, log): what its own log says of the arguments in force.
    log_identity(log): further facts of its identity that only the log tells. phases: (regular expression of a log line,
    what the server does from then on), in the order of a start; for the terminal alone.
    """

    name: str
    argv: Callable[[Order, str, int], list[str]]
    python: Callable[[Order], str]
    passed: tuple[str, ...]
    log_knobs: Callable[[Mapping[str, Any], str], tuple[Knob, ...]]
    log_identity: Callable[[str], dict[str, str]]
    phases: tuple[tuple[str, str], ...]


def text(value: Any) -> str:
    """An argument's value as it stands on the command line."""
    if isinstance(value, (dict, list)):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return str(value)


def render(arguments: Mapping[str, Any]) -> list[str]:
    """true: --key; false: --no-key; objects and lists: compact JSON; all else: --key value."""
    made: list[str] = []
    for key, value in arguments.items():
        if isinstance(value, bool):
            made.append(f"--{key}" if value else f"--no-{key}")
        else:
            made += [f"--{key}", text(value)]
    return made
