"""Writing the site: every page in memory first, then index, feeds and `_site/` in their places."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rungproof.publish.log import locked
from rungproof.publish.pages.engine import templates
from rungproof.publish.site import feeds, history, listing, things
from rungproof.publish.site.found import OWN, Found, PackEntry, find
from rungproof.publish.site.listing import FACETS, RADIOS, Choice, Row
from rungproof.records.errors import HostError
from rungproof.records.files import write_atomic

ASIDE = ("simulated", "superseded", "withdrawn", "unlogged")


@dataclass(frozen=True, slots=True)
class Site:
    """What was written. `size`: of all pages and feeds [bytes]."""

    reports: Path
    packs: int
    damaged: int
    pages: int
    size: int

    def __str__(self) -> str:
        bad = f", {self.damaged} damaged" if self.damaged else ""
        return f"{self.reports / 'index.html'}: {self.packs} packs{bad}, {self.pages} files, {self.size / 1e6:.2f} MB"


def build_site(reports: Path) -> Site:
    """Write index.html, index.json, index.csv, feed.xml and _site/ over the packs below `reports`. The same packs and log give the same bytes.

    Raises HostError where the disk refuses; the site of before then stays.
    """
    with locked(reports):  # a publisher's call and a withdrawal may end at the same moment
        return _build(reports)


def _build(reports: Path) -> Site:
    found = find(reports)
    made = dict(site_files(found))
    try:
        with tempfile.TemporaryDirectory(prefix=".site-", dir=reports) as temporary:
            fresh = Path(temporary) / OWN
            fresh.mkdir()
            for name, data in made.items():
                if name.startswith(f"{OWN}/"):
                    (fresh / name.removeprefix(f"{OWN}/")).write_bytes(data)
            before = Path(temporary) / "before"
            if (reports / OWN).exists():
                (reports / OWN).rename(before)
            try:
                fresh.rename(reports / OWN)
            except BaseException:
                if before.exists():
                    before.rename(reports / OWN)
                raise
            shutil.rmtree(before, ignore_errors=True)
    except OSError as error:
        raise HostError(
            f"{reports}: the site could not be written ({error.strerror or error}); free some space or mend the permissions"
        ) from error
    for name, data in made.items():
        if not name.startswith(f"{OWN}/"):
            write_atomic(reports / name, data)
    return Site(reports, len(found.packs), len(found.damaged), len(made), sum(map(len, made.values())))


def site_files(found: Found) -> Iterator[tuple[str, bytes]]:
    """Path below reports/ -> bytes of every file of the site."""
    claims = listing.claims(found.packs)
    made = {facet.key: listing.choices(claims, facet) for facet in FACETS}
    common = {"found": found, "facets": FACETS, "choices": made, "statuses": Counter(p.status for p in found.packs)}
    yield from _list(common, claims, "", "Published measurements", "index.html", "")
    for facet in FACETS:
        for choice in made[facet.key]:
            rows = [row for row in claims if facet.value(row) == choice.value]
            yield from _list(common, rows, facet.key, f"{facet.title}: {choice.value}", choice.page, choice.value)
        every = made[facet.key]
        title = f"{facet.title}: every value"
        yield f"{OWN}/every-{facet.key}.html", _page("site_facet.html.j2", common, "../", title=title, listed=every)
    for study in sorted({pack.study for pack in found.packs}):
        yield _study(common, study, [pack for pack in found.packs if pack.study == study])
    aside = [pack for status in ASIDE for pack in found.packs if pack.status == status]
    yield f"{OWN}/aside.html", _page("site_aside.html.j2", common, "../", title="Not among the claims", packs=aside)
    rules, suites, lanes = things.rules(found), things.suites(found), things.lanes(found)
    for thing in (*rules, *suites, *lanes):
        yield f"{OWN}/{thing.page}", _page("site_thing.html.j2", common, "../", title=thing.title, thing=thing)
    yield (
        f"{OWN}/about.html",
        _page(
            "site_about.html.j2",
            common,
            "../",
            title="Suites, lanes and rules",
            groups=(("Rules", rules), ("Suites", suites), ("Lanes", lanes)),
        ),
    )
    yield "index.json", feeds.index_json(found)
    yield "index.csv", feeds.index_csv(claims)
    yield "feed.xml", feeds.feed(found)
    yield ".nojekyll", b""


def _list(
    common: dict[str, Any], rows: Sequence[Row], facet: str, title: str, first: str, value: str
) -> Iterator[tuple[str, bytes]]:
    """A list of rows, cut into pages; the first page of the whole list is the index itself."""
    cut, whole = listing.pages(rows), first == "index.html"
    further = "all.html" if whole else first
    for number, part in enumerate(cut, start=1):
        is_index = whole and number == 1
        root, name = ("", first) if is_index else ("../", f"{OWN}/{listing.page_name(further, number)}")
        links = [
            f"{root}index.html" if whole and n == 1 else _sibling(root, further, n) for n in range(1, len(cut) + 1)
        ]
        more = {"rows": part, "total": len(rows), "facet": facet, "value": value, "number": number, "parts": links}
        yield name, _page("site_list.html.j2", common, root, title=title, filters=_filters(part, facet), **more)


def _sibling(root: str, first: str, number: int) -> str:
    return ("" if root else f"{OWN}/") + listing.page_name(first, number)


def _filters(rows: Sequence[Row], but: str) -> list[tuple[str, str, list[Choice]]]:
    """Facets that tell the rows of one page apart, with the values they have there."""
    made = []
    for facet in FACETS:
        found = listing.choices(rows, facet)
        if facet.key != but and 1 < len(found) <= RADIOS:
            made.append((facet.key, facet.title, found))
    return made


def _study(common: dict[str, Any], study: str, packs: Sequence[PackEntry]) -> tuple[str, bytes]:
    page = listing.page_of("study", study)
    newest = max(packs, key=lambda pack: (pack.status == "current", pack.measured, pack.id))
    data = _page(
        "site_study.html.j2", common, "../", title=f"{newest.title}", study=study, histories=history.histories(packs)
    )
    return f"{OWN}/{page}", data


def _page(template: str, common: dict[str, Any], root: str, **more: Any) -> bytes:
    """One page. root: the way from it to reports/; site: to `_site/`."""
    site = "" if root else f"{OWN}/"
    text = templates().get_template(template).render(
        **common, **more, root=root, site=site, page_of=listing.page_of, suite_page=things.suite_page,
        number_of={facet.key: {c.value: c.number for c in listing.choices(more.get("rows", ()), facet)} for facet in FACETS},
    )  # fmt: skip
    return text.encode("utf-8")
