"""Rows of the lists: which are claims, in which order, by which facets they can be filtered, and how they are cut into pages."""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rungproof.publish.site.found import ArmEntry, PackEntry

PAGE_ROWS = 80  # rows of one page: about 100 kB
RADIOS = 16  # a facet with more values on one page is filtered by its own pages alone
_UNSAFE = re.compile(r"[^a-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Row:
    """One arm of one pack."""

    pack: PackEntry
    arm: ArmEntry


@dataclass(frozen=True, slots=True)
class Facet:
    """One way to filter. `key`: prefix of its pages; value: what a row is under it."""

    key: str
    title: str
    value: Callable[[Row], str]


FACETS = (
    Facet("model", "Model", lambda row: row.arm.model),
    Facet("quantisation", "Quantisation", lambda row: row.arm.quantisation),
    Facet("engine", "Engine", lambda row: row.arm.engine),
    Facet("host", "Host", lambda row: row.pack.host),
    Facet("state", "State", lambda row: row.arm.state),
    Facet("proof", "Proof", lambda row: row.pack.standing.state),
)


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of a facet: how many rows it has, the page that lists them, and its number among the values of the facet."""

    facet: str
    value: str
    count: int
    page: str
    number: int


def claims(packs: Sequence[PackEntry]) -> list[Row]:
    """Rows of the packs that stand. First those with a qualified headline, highest first; then the others, newest first, whose
    values have no say in the order: what is not qualified is not ranked."""
    rows = [Row(pack, arm) for pack in packs if pack.status == "current" for arm in pack.arms]
    return sorted(rows, key=_order)


def _order(row: Row) -> tuple[bool, float, str, str, str]:
    value = row.arm.value
    newest = "".join(chr(0x10FFFF - ord(char)) for char in row.pack.measured)  # later dates first among equals
    return (value is None, -value if value is not None else 0.0, newest, row.pack.folder, row.arm.name)


def choices(rows: Sequence[Row], facet: Facet) -> list[Choice]:
    """The values of a facet, in the order of their names."""
    counts: dict[str, int] = {}
    for row in rows:
        value = facet.value(row)
        counts[value] = counts.get(value, 0) + 1
    return [
        Choice(facet.key, value, counts[value], page_of(facet.key, value), number)
        for number, value in enumerate(sorted(counts, key=natural))
    ]


def natural(name: str) -> list[tuple[bool, int, str]]:
    """A key by which model-2 comes before model-10."""
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"([0-9]{1,9})", name)]


def page_of(kind: str, name: str) -> str:
    """The file name of a page in `_site/`, different for different names whatever they hold."""
    safe = _UNSAFE.sub("-", name.lower())[:60].strip("-.") or "unnamed"
    if safe != name:
        safe += "-" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{kind}-{safe}.html"


def pages(rows: Sequence[Row]) -> list[Sequence[Row]]:
    """Rows cut into pages; one empty page where there is no row."""
    return [rows[at : at + PAGE_ROWS] for at in range(0, len(rows), PAGE_ROWS)] or [[]]


def page_name(first: str, number: int) -> str:
    """File name of page `number`, counted from 1, of a list whose first page is `first`."""
    return first if number == 1 else f"{first.removesuffix('.html')}.{number}.html"
