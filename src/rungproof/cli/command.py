"""What a command is: its words, what its help teaches, its options and its function."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """One command. `run` None: it has commands below it; `examples` are whole command lines."""

    path: tuple[str, ...]
    short: str
    teaches: str
    examples: tuple[str, ...]
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int] | None


def none(_to: argparse.ArgumentParser) -> None:
    """A command without options of its own."""
