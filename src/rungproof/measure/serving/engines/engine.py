"""What the supervisor must know of an engine, and how arguments are written on a command line."""

import ast
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rungproof.measure.serving.order import Order
from rungproof.records.formats import Knob


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


def flags(arguments: Mapping[str, Any]) -> list[str]:
    """As `render`, for engines whose flags have no negation: false is written by leaving the flag away."""
    return render({key: value for key, value in arguments.items() if value is not False})


@dataclass(frozen=True, slots=True)
class Engine:
    """One kind of server.

    argv(order, model, port): its command. python(order): the interpreter or program it runs in. passed: variables of ours it
    may see besides the common ones. log_knobs(arguments, log): what its own log says of the arguments in force.
    log_identity(log): further facts of its identity that only the log tells. stated(log): arguments in force as its log
    states them, defaults too, by the names of our arguments. write: how arguments are written. version_at: where it
    answers with its version (path, keys); distributions: under which names its package may be installed. phases: (regular
    expression of a log line, what the server does from then on), in the order of a start; for the terminal alone.
    """

    name: str
    argv: Callable[[Order, str, int], list[str]]
    python: Callable[[Order], str]
    passed: tuple[str, ...]
    log_knobs: Callable[[Mapping[str, Any], str], tuple[Knob, ...]]
    log_identity: Callable[[str], dict[str, str]]
    stated: Callable[[str], dict[str, str]]
    write: Callable[[Mapping[str, Any]], list[str]] = render
    version_at: tuple[str, ...] = ()
    distributions: tuple[str, ...] = ()
    phases: tuple[tuple[str, str], ...] = ()


def agrees(asked: Any, found: str) -> bool:
    """Whether an engine's own Python text of a value is what was asked. Of objects every item asked for must stand there."""
    if not isinstance(asked, dict):
        return found.strip("'\"") in (str(asked), text(asked))
    try:
        stated = ast.literal_eval(found)
    except (ValueError, SyntaxError):  # it holds objects of the engine
        return all(
            re.search(rf"['\"]{re.escape(key)}['\"]: {re.escape(repr(item))}(?!\w)", found)
            for key, item in asked.items()
        )
    return isinstance(stated, dict) and all(key in stated and stated[key] == item for key, item in asked.items())


def expression(line: str, before: str) -> str | None:
    """The Python expression that follows `before`, up to a comma or bracket outside of all brackets and quotes."""
    match = re.search(rf"(?<![\w.]){re.escape(before)}", line)
    if match is None:
        return None
    depth, quote, end = 0, "", match.end()
    for end in range(match.end(), len(line)):
        char = line[end]
        if quote:
            quote = "" if char == quote and line[end - 1] != "\\" else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}" or char == ",":
            if depth == 0:
                return line[match.end() : end].strip()
            depth -= char != ","
    return line[match.end() :].strip()
