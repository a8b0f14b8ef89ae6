"""Numbers on a page: each one in `<data>` with its full value and the claim that says where it can be checked.

A claim is the id of a point, or a JSON pointer (RFC 6901) into `summary.json`. The text of a number follows from its value
and its form alone (records/shown.py), so whoever recomputes the summary can check every digit of a page.
"""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from rungproof.publish.pages.text import evidence_link
from rungproof.records.codec import plain
from rungproof.records.formats import Point
from rungproof.records.shown import shown
from rungproof.records.summary import Summary

NONE = Markup('<span class="quiet">none</span>')


class Claims:
    """The numbers of one summary. A missing one is the word none, never 0."""

    def __init__(self, summary: Summary) -> None:
        self._plain = plain(summary)
        self._points = {point.id: index for index, point in enumerate(summary.points)}

    def at(self, *path: str | int, form: str = "", state: str = "qualified") -> Markup:
        """The number at a place in the summary; `state`: of the point that it belongs to.

        Raises KeyError, IndexError or TypeError where there is no such place.
        """
        value = self.value(*path)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return NONE
        return data(value, pointer(path), form, state)

    def value(self, *path: str | int) -> Any:
        """What stands at a place in the summary."""
        found = self._plain
        for part in path:
            found = found[part]
        return found

    def point(self, point: Point) -> Markup:
        """The value of a point."""
        return NONE if point.value is None else data(point.value, point.id, "", point.state)

    def of(self, point: Point, *path: str | int, form: str = "") -> Markup:
        """Another number of a point, such as one of its detail."""
        return self.at(*self.path(point, *path), form=form, state=point.state)

    def linked(self, point: Point, *path: str | int) -> Markup:
        """The value of a point, or another number of it, as a link to its first raw file."""
        made = self.of(point, *path) if path else self.point(point)
        link = link_of(point)
        return Markup('<a href="{}">{}</a>').format(link, made) if link and made is not NONE else made

    def path(self, point: Point, *path: str | int) -> tuple[str | int, ...]:
        """Where a point, or something of it, lies in the summary."""
        return ("points", self._points[point.id], *path)

    def counted(self, *path: str | int, between: str = " of ") -> Markup:
        """`7 of 8` from the `k` and `n` at a place in the summary, or words where nothing was compared."""
        if not self.value(*path, "n"):
            return Markup('<span class="quiet">not compared</span>')
        return Markup("{}{}{}").format(self.at(*path, "k"), between, self.at(*path, "n"))

    def pair(self, *path: str | int) -> Markup:
        """`7/8` from a pair of counts at a place in the summary."""
        return Markup("{}/{}").format(self.at(*path, 0), self.at(*path, 1))


def pointer(path: Sequence[str | int]) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def data(value: float, claim: str, form: str = "", state: str = "qualified") -> Markup:
    """One number as an element. `state` is written where it is not qualified, so that no reader of `data` takes it for a result."""
    more = Markup("")
    if form:
        more += Markup(' data-form="{}"').format(form)
    if state != "qualified":
        more += Markup(' data-state="{}"').format(state)
    return Markup('<data value="{}" data-claim="{}"{}>{}</data>').format(repr(value), claim, more, shown(value, form))


def link_of(point: Point) -> str | None:
    """The first evidence of a point that lies in the campaign's folder."""
    return next((link for path in point.evidence if (link := evidence_link(path))), None)
