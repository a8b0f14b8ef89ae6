"""The page that sets packs beside each other: what differs first, then each rate with its ratio or the reason why there is none."""

import os
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from rungproof.publish.comparing import COLUMNS, Pair, Side, compare_csv, compare_json, differences, rows_of
from rungproof.publish.pages.engine import templates
from rungproof.publish.pages.twins import parquet
from rungproof.records.files import write_atomic
from rungproof.records.formats import Point
from rungproof.records.shown import shown

CONDITIONS = 60  # conditions of a pair on the page; all of them are in the JSON


def write_compare(pairs: Sequence[Pair], to: Path) -> list[Path]:
    """Write index.html and its twins compare.csv, .json and .parquet into the folder `to`. Raises HostError when the disk refuses."""
    made = {
        "index.html": compare_html(pairs, to).encode("utf-8"),
        "compare.csv": compare_csv(pairs),
        "compare.json": compare_json(pairs),
        "compare.parquet": parquet(COLUMNS, rows_of(pairs), {"rungproof.twin": "compare"}),
    }
    for name, data in made.items():
        write_atomic(to / name, data)
    return [to / name for name in made]


def compare_html(pairs: Sequence[Pair], to: Path) -> str:
    """The page's text; `to`: the folder it will lie in, for links to the packs' own pages."""
    return (
        templates()
        .get_template("compare.html.j2")
        .render(
            title="Measurements beside each other", pairs=pairs, differences=differences, limit=CONDITIONS, value=_value,
            page=lambda side: _link(side, to), simulated=any(s.summary.simulated for p in pairs for s in (p.reference, p.other)),
        )
    )  # fmt: skip


def _value(side: Side, point: Point | None) -> Markup:
    """A point's value with its claim; a value that is no claim says so in its state."""
    if point is None or point.value is None:
        return Markup('<span class="quiet">none</span>')
    state = Markup("") if point.state == "qualified" else Markup(' data-state="{}"').format(point.state)
    number = shown(point.value)
    return Markup('<data value="{}" data-pack="{}" data-claim="{}"{}>{}</data>').format(
        repr(point.value), side.name, point.id, state, number if point.state == "qualified" else f"({number})"
    )


def _link(side: Side, to: Path) -> str:
    """The way from the page to a side's own page, as files lie; "" where it has none."""
    page = side.folder / "page/index.html"
    return Path(os.path.relpath(page.resolve(), to.resolve())).as_posix() if page.is_file() else ""
