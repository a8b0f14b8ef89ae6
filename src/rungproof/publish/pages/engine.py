"""The templates of every page, with their filters: one way to escape and to write numbers."""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from rungproof.plan.builds import source_digest
from rungproof.publish.pages import geometry, text
from rungproof.records.shown import shown, whole


@cache
def maker() -> str:
    """What stands in each page as its generator: this program, by the digest of everything that decides on the page's bytes."""
    home = Path(__file__).resolve().parents[2]
    return f"rungproof {source_digest(home / 'publish', home / 'judge', home / 'records')[:16]}"


@cache
def templates() -> Environment:
    """Everything is escaped; a name that is not there is an error; invisible characters are shown."""
    made = Environment(
        loader=PackageLoader("rungproof.publish.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
    made.filters.update(
        number=shown,
        whole=whole,
        evidence=text.evidence_link,
        shortened=text.shortened,
        short=geometry.short,
    )
    made.globals.update(anchor=text.anchor, count_of=text.count_of, metric_name=text.metric_name, maker=maker)
    return made


def _shown(value: Any) -> Any:
    """What every expression of a template passes through before it is escaped."""
    if hasattr(value, "__html__") or not isinstance(value, str):
        return value
    return text.visible(value)
