"""What can be completed: the commands of a parser with their options and the kind of value each takes."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CONFIG = {
    "CAMPAIGN": "campaigns",
    "LANE": "lanes",
    "HOST": "hosts",
}  # metavar -> folder of config/ whose files are the values


@dataclass(frozen=True, slots=True)
class Value:
    """What a value may be: `choices`; names of files in config/`config`; `files` or `folders`; none of them: anything."""

    name: str
    choices: tuple[str, ...] = ()
    config: str = ""
    files: bool = False
    folders: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """One option; `value` None: a flag."""

    names: tuple[str, ...]
    help: str
    value: Value | None


@dataclass(frozen=True, slots=True)
class Command:
    """One command; `path` () is the program itself, `below` its commands with their help."""

    path: tuple[str, ...]
    options: tuple[Option, ...]
    values: tuple[Value, ...]
    below: tuple[tuple[str, str], ...]


def tree(parser: argparse.ArgumentParser) -> list[Command]:
    """Every command, parents first."""
    return list(_walk(parser, ()))


def _walk(parser: argparse.ArgumentParser, path: tuple[str, ...]) -> Iterator[Command]:
    options, values = [], []
    below: dict[str, argparse.ArgumentParser] = {}
    helps: dict[str, str] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below = dict(action.choices)
            helps = {one.dest: _first(one.help) for one in action._choices_actions}
        elif action.option_strings:
            value = None if action.nargs == 0 else _value(action)
            options.append(Option(tuple(action.option_strings), _first(action.help), value))
        else:
            values.append(_value(action))
    yield Command(path, tuple(options), tuple(values), tuple((name, helps.get(name, "")) for name in below))
    for name, one in below.items():
        yield from _walk(one, (*path, name))


def _first(text: str | None) -> str:
    """Help up to its first bracket or semicolon, as one line without argparse's own fields."""
    return (text or "").split(" (")[0].split(";")[0].split(", such")[0].strip()


def _value(action: argparse.Action) -> Value:
    name = action.metavar if isinstance(action.metavar, str) else action.dest
    if action.choices is not None:
        return Value(name, choices=tuple(str(choice) for choice in action.choices))
    if name in CONFIG:
        return Value(name, config=CONFIG[name])
    place = action.type is Path or name == "PACK"  # a pack may also be an address, which no Path holds
    return Value(name, files=place and name != "DIR", folders=place and name == "DIR")
