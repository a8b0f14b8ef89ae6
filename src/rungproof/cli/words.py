"""How the command line writes: nothing from a server, a file or a model reaches the terminal with control characters."""

import sys

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rungproof.records.text import clean, clean_lines

__all__ = ["add", "clean", "clean_lines", "console", "number", "table"]
PLAIN_WIDTH = 160  # columns where there is no terminal to ask


def console() -> Console:
    """Standard output, plain; as wide as the terminal."""
    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)


def table(title: str, columns: dict[str, bool]) -> Table:
    """An empty table; columns: heading -> whether it holds numbers."""
    made = Table(title=Text(clean(title)) if title else None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading, numbers in columns.items():
        made.add_column(heading, justify="right" if numbers else "left", overflow="fold")
    return made


def add(to: Table, *cells: object) -> None:
    """A row of cleaned cells, never read as markup."""
    to.add_row(*(Text(clean(cell)) for cell in cells))


def number(value: float | None, digits: int = 1) -> str:
    """A figure, or a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"
