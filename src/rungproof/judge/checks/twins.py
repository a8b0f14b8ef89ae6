"""The twins of the pages, as CSV and as JSON, against the recomputed summary, column by column.

`points` has a row a point, `strict` a row an answer, `gates` a row a verdict, each in the summary's order; a chart's twin names the
claim of each of its rows, `environment` the facts of the servers in the order of the page. Parquet needs a library: it is held against
a page that is made again, which an installed rungproof does.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rungproof.judge.checks.found import Found, Level
from rungproof.judge.host_facts import environment
from rungproof.records.codec import build, load_json, plain
from rungproof.records.errors import EvidenceError
from rungproof.records.formats import Reason
from rungproof.records.summary import SessionInfo
from rungproof.records.text import csv_cell

Row = Mapping[str, Any]
Value = Callable[[Row, Row], Any]  # of an entry of the summary's list, and the summary


def _of(key: str) -> Value:
    return lambda entry, _summary: entry[key]


def _beside(key: str) -> Value:
    return lambda point, _summary: point["detail"].get(key)


POINTS: dict[str, Value] = {
    "point": _of("id"), "state": _of("state"), "arm": _of("arm"), "workload": _of("workload"), "item": _of("item"),
    "metric": _of("metric"), "value_in_unit": _of("value"), "low_in_unit": _of("low"), "high_in_unit": _of("high"),
    "unit": _of("unit"), "x_in_x_unit": _of("x"), "ttft_ms_median": _beside("ttft_ms_median"),
    "step_ms_median": _beside("step_ms_median"), "tokens_per_step": _beside("tokens_per_step"),
    "drafted_tokens": _beside("draft_tokens"), "accepted_tokens": _beside("accepted_tokens"),
    "acceptance_length": _beside("acceptance_length"), "client_lag_p99_ms": _beside("client_lag_p99_ms"),
    "client_wait_share": _beside("client_wait_share"), "fewest_distinct_ids": _beside("fewest_distinct_ids"),
    "per_user_in_unit": _beside("per_user"), "identical_outputs": _of("k"), "compared_outputs": _of("n"),
    "simulated": lambda _point, summary: summary["simulated"], "session": _of("session"), "reasons": _of("reasons"),
    "gates": _of("gates"), "evidence": _of("evidence"),
}  # fmt: skip
STRICT: dict[str, Value] = {
    "claim": lambda entry, summary: f"/strict/{summary['strict'].index(entry)}/rate",
    "arm": _of("arm"), "replicate": _of("replicate"), "class": _of("prompt_class"), "prompt": _of("prompt"),
    "decode_rate_tok_s": _of("rate"), "ttft_ms": _of("ttft_ms"), "step_ms": _of("step_ms"), "tokens_per_step": _of("tokens_per_step"),
    "output_tokens": _of("tokens"), "identical": _of("identical"), "state": _of("state"),
}  # fmt: skip
GATES: dict[str, Value] = {
    "gate": _of("gate"), "kind": _of("kind"), "title": _of("title"), "state": _of("state"), "identical_outputs": _of("k"),
    "compared_outputs": _of("n"), "identical_sites": _of("sites_k"), "compared_sites": _of("sites_n"),
    "lower_bound_95_share": _of("bound"), "outputs_lower_bound_95_share": _of("repeats_bound"), "stops": _of("stops"),
    "reasons": lambda entry, _summary: [str(build(Reason, reason, "reason")) for reason in entry["reasons"]],
}  # fmt: skip
# Columns of a chart that follow from the point that its row names; the value follows from the row's claim.
CHART: dict[str, Value] = {
    "state": _of("state"), "arm": _of("arm"), "x_in_x_unit": _of("x"), "identical_outputs": _of("k"), "compared_outputs": _of("n"),
}  # fmt: skip
ENVIRONMENT: dict[str, Value] = {name: _of(name) for name in ("key", "value", "kind", "source", "sessions")}
FACTS = "facts of the servers"
TABLES = {
    "points": ("points", POINTS), "strict": ("strict", STRICT), "gates": ("verdicts", GATES), "environment": (FACTS, ENVIRONMENT),
}  # fmt: skip
WORDS = frozenset(("interval", "x_unit", "unit"))  # named, but no numbers, where a table does not compute them
OF_IDENTITY = frozenset(
    (
        "state", "identical_outputs", "compared_outputs", "identical_sites", "compared_sites", "reasons", "stops", "identical",
        "lower_bound_95_share", "outputs_lower_bound_95_share",
    )
)  # fmt: skip
# A whisker of a chart whose value is a figure beside the point's own: the ends are figures beside it, too.
WHISKERS = {"ttft_ms_median": ("ttft_ms_low", "ttft_ms_high")}
NEEDED = ("points.csv", "points.json")


def check_twins(files: Mapping[str, bytes], recomputed: Row, sessions: Sequence[SessionInfo], found: Found) -> None:
    """Every twin. files: name in page/ -> bytes, of CSV and JSON files; those of the points have to be there. recomputed: the summary in
    its plain form; sessions: of the same summary."""
    same, differ, _ = environment(sessions)
    summary = {**recomputed, FACTS: plain((*same, *differ))}
    found.need("L2", "rows of twins")
    for name in NEEDED:
        if name not in files:
            found.fail("L2", f"page/{name}: there is no such file")
    for name, data in files.items():
        table, _, kind = name.rpartition(".")
        if name == "standing.json":
            continue
        try:
            rows = _csv(data, f"page/{name}") if kind == "csv" else _json(data, f"page/{name}", table)
            _table(f"page/{name}", table, rows, summary, found, text=kind == "csv")
        except EvidenceError as error:
            found.fail("L2", str(error))


def _table(where: str, table: str, rows: Sequence[Row], summary: Row, found: Found, text: bool) -> None:
    if table in TABLES:
        key, columns = TABLES[table]
        entries = summary[key]
        first = next(iter(columns))
        wanted = [columns[first](entry, summary) for entry in entries]
        if [row.get(first) for row in rows] != [csv_cell(one) if text else one for one in wanted]:
            level: Level = "L2" if key == FACTS else "L3"
            found.fail(level, f"{where}: its rows are not the {len(entries)} {key} of the summary, in their order")
            return
        for row, entry in zip(rows, entries, strict=True):
            _row(
                where,
                str(entry.get("id", entry.get("key", ""))),
                row,
                {c: of(entry, summary) for c, of in columns.items()},
                found,
                text,
            )
    elif table.startswith("chart-"):
        points = {point["id"]: point for point in summary["points"]}
        for row in rows:
            _drawn(where, row, points, summary, found, text)
    else:
        raise EvidenceError(f"{where}: not a twin of ours, so nobody has checked it")


def _drawn(where: str, row: Row, points: Mapping[str, Row], summary: Row, found: Found, text: bool) -> None:
    """One row of a chart: what its claim leads to, and what its point says."""
    name, claim = str(row.get("point")), str(row.get("claim"))
    if name not in points:
        raise EvidenceError(f"{where}: {name!r:.80} is no point of the summary")
    point = points[name]
    own = f"/points/{summary['points'].index(point)}/"
    if claim != name and not claim.startswith(own):
        raise EvidenceError(f"{where}: {name}: its claim {claim!r:.80} leads to another point")
    detail = claim.removeprefix(f"{own}detail/")
    if claim == name:
        value, low, high = point["value"], point["low"], point["high"]
    elif detail != claim and "/" not in detail:  # a figure beside the point's own; none where nothing was measured
        value, (low, high) = (
            point["detail"].get(detail),
            (point["detail"].get(k) for k in WHISKERS.get(detail, ("", ""))),
        )
    else:
        raise EvidenceError(f"{where}: {name}: its claim {claim!r:.80} is to no figure of the point")
    wanted = {"point": name, "claim": claim, "value_in_unit": value, "low_in_unit": low, "high_in_unit": high}
    wanted |= {column: of(point, summary) for column, of in CHART.items()}
    _row(where, name, row, wanted, found, text)


def _row(where: str, name: str, row: Row, wanted: Mapping[str, Any], found: Found, text: bool) -> None:
    found.count("rows of twins")
    if odd := sorted((set(row) ^ set(wanted)) - WORDS, key=str):
        raise EvidenceError(f"{where}: column {odd[0]!r:.60} is missing or not one of ours")
    for column, value in wanted.items():
        cell = csv_cell("; ".join(map(str, value)) if isinstance(value, list) else value) if text else value
        if row[column] != cell:
            level: Level = "L3" if column in OF_IDENTITY else "L2"
            found.fail(level, f"{where}: {name}: {column}: says {row[column]!r:.60}, recomputed {cell!r:.60}")


def _csv(data: bytes, where: str) -> list[Row]:
    try:
        return list(csv.DictReader(io.StringIO(data.decode("utf-8"), newline=""), strict=True))
    except (ValueError, csv.Error) as error:
        raise EvidenceError(f"{where}: not a CSV file in UTF-8 ({error})") from error


def _json(data: bytes, where: str, table: str) -> list[Row]:
    value = load_json(data, where)
    rows = value.get("points" if table == "points" else "rows") if isinstance(value, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise EvidenceError(f"{where}: holds no list of rows")
    return rows
