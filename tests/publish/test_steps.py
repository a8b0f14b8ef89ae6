"""Steps, drafts and the client's own error as a reader sees them: on the page and in the tables."""

import re
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from publish.parsed import Page
from publish.sample import sample
from rungproof.publish.details import figure, shares
from rungproof.publish.pages.claimed import Claims
from rungproof.publish.pages.render import html, pages
from rungproof.publish.pages.steps import client_rows, step_rows
from rungproof.publish.tables import read_table, write_tables
from rungproof.records.standing import Standing


def words(made: Markup) -> str:
    """Its text without the elements around it."""
    return re.sub(r"<[^>]+>", "", made)


def test_acceptance_stands_on_the_page_by_position() -> None:
    """A draft arm shows its length and each position's share; one without drafts says none, never 0."""
    rows = {row.point.id: row for row in step_rows(sample(), Claims(sample()))}
    drafted = next(row for name, row in rows.items() if name.startswith("draft3/depth"))
    assert (words(drafted.length), words(drafted.positions)) == ("2.03", "61.0\u00a0%, 30.0\u00a0%, 12.5\u00a0%")
    plain = next(row for name, row in rows.items() if name.startswith("base/"))
    assert [words(one) for one in (plain.length, plain.positions, plain.at_once)] == ["none"] * 3
    page = Page(pages(sample(), Standing())["numbers"])
    assert "61.0\u00a0%, 30.0\u00a0%, 12.5\u00a0%" in page.section("allsteps").text
    main = Page(html(sample())).section("steps").text
    assert "draft3 depth 512" in main and "base depth 512" not in main


def test_every_session_shows_its_client() -> None:
    """Each server's check is a row, with how much finer it was than the shortest step measured there; no check, no row."""
    summary = sample()
    rows = client_rows(summary, Claims(summary))
    assert [row.session for row in rows] == [session.session for session in summary.sessions]
    first = next(row for row in rows if row.session == "r001.base.a")
    assert [words(figure) for figure in first.figures] == [
        "16",
        "0.004",
        "0.0104",
        "0.31",
        "8.70",
        "80\u202f000",
        "2826.9",
    ]  # 29.4 ms / 0.0104 ms
    unchecked = replace(summary, sessions=tuple(replace(s, client=None) for s in summary.sessions))
    assert client_rows(unchecked, Claims(unchecked)) == []
    assert 'id="client-c"' not in pages(unchecked, Standing())["numbers"]


def test_details_that_are_no_numbers_are_none() -> None:
    """A detail is an open record, so anything may stand where a number is looked for."""
    assert figure({"x": True}, "x") is None
    assert figure({"x": "1"}, "x") is None
    assert shares({"acceptance_by_position": [0.5, None]}) is None
    assert shares({"acceptance_by_position": []}) is None
    assert shares({"acceptance_by_position": (0.5, 1)}) == [0.5, 1.0]


def test_tables_hold_them_in_columns_of_their_own(tmp_path: Path) -> None:
    """Steps and acceptance by point, the client by session, with null for what is not known."""
    paths = write_tables(sample(), [], tmp_path)
    rungs = read_table(paths["rungs"], "rungs").set_index("point")
    drafted = rungs.loc["draft3/ladder/c1/aggregate"]
    assert list(drafted["acceptance_by_position"]) == [0.61, 0.3, 0.125]
    assert drafted["acceptance_length"] == 2.0333
    assert rungs.loc["base/ladder/c1/aggregate"]["acceptance_by_position"] is None
    assert rungs.loc["draft3/ladder/c1/aggregate":]["decoding"].isna().all()
    sessions = read_table(paths["sessions"], "sessions")
    assert set(sessions["client_lag_p99_ms"]) == {0.0104}
