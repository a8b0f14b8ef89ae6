"""Completion scripts, made from the parser itself: a new option is completed without a line written for it."""

import argparse
from collections.abc import Callable

from rungproof.cli.completion import bash, fish, zsh
from rungproof.cli.completion.tree import Command, tree

SHELLS: dict[str, Callable[[list[Command]], str]] = {"bash": bash.script, "zsh": zsh.script, "fish": fish.script}


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The script for one of SHELLS."""
    return SHELLS[shell](tree(parser))
