"""The page's numbers for machines: the same points as CSV and as JSON."""

import csv
import io
import json
from typing import Any

from rungproof.publish.pages.charts import axis_of, interval_of
from rungproof.publish.pages.text import csv_cell
from rungproof.records.formats import Point
from rungproof.records.summary import Summary

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


def points_csv(summary: Summary) -> bytes:
    """UTF-8, a header line, LF line ends; text that a spreadsheet would run as a formula begins with a quote."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in (_row(summary, point) for point in summary.points):
        writer.writerow([csv_cell("; ".join(v) if isinstance(v, tuple) else v) for v in row.values()])
    return out.getvalue().encode("utf-8")


def points_json(summary: Summary) -> bytes:
    """`{"columns": {name: meaning and unit}, "points": [...]}`, one point a line, ASCII."""
    rows = [json.dumps(_row(summary, point), allow_nan=False) for point in summary.points]
    head: dict[str, Any] = {
        "format": "rungproof.points/1",
        "campaign": summary.campaign,
        "lock_sha256": summary.lock_sha256,
        "simulated": summary.simulated,
        "lossless_claim": summary.lossless_claim,
        "columns": COLUMNS,
        "missing": summary.missing,
    }
    text = json.dumps(head, allow_nan=False, indent=1)
    return f'{text[:-2]},\n "points": [\n{",".join(f"{chr(10)}  {row}" for row in rows).lstrip(chr(10))}\n ]\n}}\n'.encode()


def _row(summary: Summary, point: Point) -> dict[str, Any]:
    beside = (point.detail.get(name) for name in BESIDE)
    values = (
        *(point.id, point.state, point.arm, point.workload, point.item, point.metric),
        *(point.value, point.low, point.high, interval_of(point)),
        *(point.unit, point.x, axis_of(point).x_name if point.x is not None else "", *beside),
        *(point.k, point.n, summary.simulated, point.session, point.reasons, point.gates, point.evidence),
    )
    return dict(zip(COLUMNS, values, strict=True))
