"""A page's numbers for machines: the same rows as CSV, as JSON and as Parquet, the unit of each column in its name or beside it.

`points` is the page's own twin. Each chart has one with what it draws, the strict suite, the gates and the environment theirs.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rungproof.judge.host_facts import environment
from rungproof.publish.pages.charts import axis_of, interval_of
from rungproof.publish.pages.figures import Figure
from rungproof.publish.pages.text import csv_cell, visible
from rungproof.records.formats import Point, Verdict
from rungproof.records.summary import StrictRow, Summary

COLUMNS = {
    "point": "id of the number, <arm>/<workload>/<item>/<metric>",
    "state": "only qualified is a claim; a value beside another state is shown so that nothing is hidden",
    "arm": "what was configured",
    "workload": "what was measured",
    "item": "which part of the workload",
    "metric": "which number",
    "value_in_unit": "in the unit that the column unit names; empty where nothing was measured",
    "low_in_unit": "lower end of the interval, same unit",
    "high_in_unit": "upper end of the interval, same unit",
    "interval": "what low and high are",
    "unit": "unit of value, low and high",
    "x_in_x_unit": "place on the horizontal axis, in the unit that x_unit names",
    "x_unit": "unit of x",
    "ttft_ms_median": "median time to first token of the same requests, in ms",
    "step_ms_median": "median time between events, in ms; not the time per token",
    "tokens_per_step": "mean tokens an event",
    "drafted_tokens": "draft tokens proposed while these requests ran; empty where the server does not draft",
    "accepted_tokens": "draft tokens accepted; 0 means that identity says nothing about drafts",
    "acceptance_length": "1 + accepted tokens / drafts over the whole attempt; empty where a counter is absent or was reset",
    "client_lag_p99_ms": "how late the client's stamps were against a server of this host, p99, in ms",
    "client_wait_share": "largest share of a batch's time in which the client waited for a processor, 0 to 1",
    "fewest_distinct_ids": "fewest distinct token ids of any answer; few means that answers are degenerate",
    "per_user_in_unit": "aggregate divided by users, same unit as value",
    "identical_outputs": "k: outputs identical to their oracle, token for token",
    "compared_outputs": "n: outputs compared",
    "simulated": "true: the server was simulated and nothing was measured",
    "session": "which fresh server",
    "reasons": "why it is not a claim, joined by ; in CSV",
    "gates": "which verdicts guard it, joined by ; in CSV",
    "evidence": "files it was made from, relative to the campaign's folder, joined by ; in CSV",
}
BESIDE = (
    "ttft_ms_median", "step_ms_median", "tokens_per_step", "draft_tokens", "accepted_tokens", "acceptance_length",
    "client_lag_p99_ms", "client_wait_share", "fewest_distinct_ids", "per_user",
)  # fmt: skip


CHART = {
    "point": "id of the point, <arm>/<workload>/<item>/<metric>",
    "claim": "where the value can be checked: the point's id, or a JSON pointer into summary.json",
    "state": "only qualified is a claim; qualified is drawn filled, withheld hollow, others not at all",
    "arm": "what was configured",
    "x_in_x_unit": "place on the horizontal axis, in the unit that x_unit names",
    "x_unit": "unit of x",
    "value_in_unit": "in the unit that the column unit names; empty where nothing was measured",
    "low_in_unit": "lower end of the whisker, same unit",
    "high_in_unit": "upper end of the whisker, same unit",
    "unit": "unit of value, low and high",
    "interval": "what low and high are",
    "identical_outputs": "k: outputs identical to their oracle, token for token",
    "compared_outputs": "n: outputs compared",
}
STRICT = {
    "claim": "JSON pointer into summary.json to the row's rate",
    "arm": "what was configured",
    "replicate": "which fresh server",
    "class": "class of the prompt",
    "prompt": "name of the prompt",
    "decode_rate_tok_s": "tokens a second over the window; empty where the answer ended before it was full",
    "ttft_ms": "time to first token in ms",
    "step_ms": "median time between events in ms",
    "tokens_per_step": "mean tokens an event",
    "output_tokens": "length of the answer in tokens",
    "identical": "whether the output is the oracle's; empty for the oracle itself",
    "state": "how the request ended",
}
GATES = {
    "gate": "id of the gate",
    "kind": "which rule",
    "title": "the rule in words",
    "state": "qualified: passed",
    "identical_outputs": "k", "compared_outputs": "n", "identical_sites": "prompts whose every repeat was identical",
    "compared_sites": "prompts compared",
    "lower_bound_95_share": "exact one-sided 95 % lower bound of the share of sites, 0 to 1",
    "outputs_lower_bound_95_share": "the same of outputs",
    "stops": "points that it stops, joined by ; in CSV",
    "reasons": "why it did not pass, joined by ; in CSV",
}  # fmt: skip
ENVIRONMENT = {
    "key": "what was looked up",
    "value": "what was found, in words",
    "kind": "how it may differ between servers",
    "source": "where it was read",
    "sessions": "servers with this value, joined by ; in CSV; empty: all",
}


@dataclass(frozen=True, slots=True)
class Twin:
    """One table. `columns`: name -> meaning and unit; `rows`: values in that order, numbers, text, flags or tuples of text."""

    name: str
    columns: Mapping[str, str]
    rows: Sequence[Mapping[str, Any]]

    def files(self, summary: Summary) -> dict[str, bytes]:
        """File name -> bytes, in the three formats."""
        return {
            f"{self.name}.csv": self._csv(),
            f"{self.name}.json": self._json(summary),
            f"{self.name}.parquet": self._parquet(summary),
        }

    def _csv(self) -> bytes:
        """UTF-8, a header line, LF line ends; text that a spreadsheet would run as a formula begins with a quote."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows:
            writer.writerow([csv_cell("; ".join(v) if isinstance(v, tuple) else v) for v in row.values()])
        return out.getvalue().encode("utf-8", "replace")

    def _json(self, summary: Summary) -> bytes:
        """`{"columns": {name: meaning and unit}, "<name>": [...]}`, one row a line, ASCII."""
        rows = [json.dumps(row, allow_nan=False) for row in self.rows]
        head: dict[str, Any] = {
            "format": "rungproof.points/1" if self.name == "points" else "rungproof.twin/1",
            "campaign": summary.campaign,
            "lock_sha256": summary.lock_sha256,
            "simulated": summary.simulated,
            "lossless_claim": summary.lossless_claim,
            "columns": dict(self.columns),
            "missing": summary.missing,
        }
        text = json.dumps(head, allow_nan=False, indent=1)
        listed = ",".join(f"{chr(10)}  {row}" for row in rows).lstrip(chr(10))
        name = "points" if self.name == "points" else "rows"
        return f'{text[:-2]},\n "{name}": [\n{listed}\n ]\n}}\n'.encode()

    def _parquet(self, summary: Summary) -> bytes:
        said = {"rungproof.twin": self.name, "rungproof.lock_sha256": summary.lock_sha256}
        return parquet(self.columns, self.rows, said)


def parquet(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]], said: Mapping[str, str]) -> bytes:
    """Rows as Parquet. columns: name -> meaning and unit, which stand in the metadata beside what is `said` of the table."""
    table = pa.table(
        {name: pa.array([_plain(row[name]) for row in rows], _kind([row[name] for row in rows])) for name in columns},
    )
    metadata = {**said, **{f"column.{name}": meaning for name, meaning in columns.items()}}
    out = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata), out, compression="zstd", version="2.6", store_schema=True)
    return out.getvalue()


def _plain(value: Any) -> Any:
    """Text that no encoder refuses: halves of surrogate pairs stand as their code."""
    if isinstance(value, str):
        return visible(value)
    return [visible(one) for one in value] if isinstance(value, tuple) else value


def _kind(values: Sequence[Any]) -> pa.DataType:
    """One type for a column by what stands in it; whole numbers only where all are."""
    known = [value for value in values if value is not None]
    for kind, made in ((bool, pa.bool_()), (int, pa.int64()), (tuple, pa.list_(pa.string()))):
        if known and all(type(value) is kind for value in known):
            return made
    return pa.float64() if known and all(type(value) in (int, float) for value in known) else pa.string()


def twins(summary: Summary, charts: Sequence[Figure]) -> list[Twin]:
    """All twins of a campaign's pages."""
    same, differ, _ = environment(summary.sessions)
    return [
        Twin("points", COLUMNS, [_row(summary, point) for point in summary.points]),
        *(Twin(chart.file, CHART, [_drawn(p, claim) for p, claim in chart.points]) for chart in charts),
        Twin("strict", STRICT, [_strict(i, row) for i, row in enumerate(summary.strict)]),
        Twin("gates", GATES, [_gate(verdict) for verdict in summary.verdicts]),
        Twin(
            "environment", ENVIRONMENT, [{name: getattr(row, name) for name in ENVIRONMENT} for row in (*same, *differ)]
        ),
    ]


def _drawn(point: Point, claim: str) -> dict[str, Any]:
    values = (
        *(point.id, claim, point.state, point.arm, point.x, axis_of(point).x_name, point.value, point.low, point.high),
        *(point.unit, interval_of(point), point.k, point.n),
    )
    return dict(zip(CHART, values, strict=True))


def _strict(index: int, row: StrictRow) -> dict[str, Any]:
    values = (
        *(f"/strict/{index}/rate", row.arm, row.replicate, row.prompt_class, row.prompt, row.rate, row.ttft_ms),
        *(row.step_ms, row.tokens_per_step, row.tokens, row.identical, row.state),
    )
    return dict(zip(STRICT, values, strict=True))


def _gate(v: Verdict) -> dict[str, Any]:
    values = (
        *(v.gate, v.kind, v.title, v.state, v.k, v.n, v.sites_k, v.sites_n, v.bound, v.repeats_bound),
        *(v.stops, tuple(str(reason) for reason in v.reasons)),
    )
    return dict(zip(GATES, values, strict=True))


def _row(summary: Summary, point: Point) -> dict[str, Any]:
    beside = (point.detail.get(name) for name in BESIDE)
    values = (
        *(point.id, point.state, point.arm, point.workload, point.item, point.metric),
        *(point.value, point.low, point.high, interval_of(point)),
        *(point.unit, point.x, axis_of(point).x_name if point.x is not None else "", *beside),
        *(point.k, point.n, summary.simulated, point.session, point.reasons, point.gates, point.evidence),
    )
    return dict(zip(COLUMNS, values, strict=True))
