"""A campaign's tables as Parquet: campaigns, sessions, requests, tokens, rungs, passes, verdicts.

Every file names its schema in its metadata under `rungproof.table`, as `rungproof.<table>/<version>`, and the digest of the
plan under `rungproof.lock_sha256`. Columns carry their unit in their name; a missing value is null, never 0 or NaN. Rows
are sorted by their keys, so that equal records give equal bytes (with one version of pyarrow).
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from rungproof.judge.stats import lower_bound
from rungproof.publish.details import figure, shares
from rungproof.publish.passes import passes_of
from rungproof.records.codec import canonical
from rungproof.records.errors import EvidenceError
from rungproof.records.files import write_atomic
from rungproof.records.formats import Judged, Point, RequestResult, Verdict
from rungproof.records.summary import SessionInfo, Summary

VERSION = 1
# Figures of a point's detail that have a column of their own.
DETAILS = (
    "step_ms_median", "tokens_per_step", "acceptance_length", "in_flight", "decoding", "dispatch_ms", "client_lag_p99_ms",
    "client_wait_share",
)  # fmt: skip
# Figures of a session's client check, which have `client_` before their name there.
CHECKED = ("streams", "lag_p50_ms", "lag_p99_ms", "lag_max_ms", "ttft_error_p99_ms", "cpu_us_event", "rate_events_s")
_REALS = pa.list_(pa.float64())
_TEXT, _INT, _REAL, _FLAG, _TEXTS = pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.list_(pa.string())
_REQUEST_KEY = {
    **dict.fromkeys(("campaign", "seat", "workload", "item", "session"), _TEXT),
    **{"batch": _TEXT, "key": _TEXT},
}
SCHEMAS: dict[str, dict[str, pa.DataType]] = {
    "campaigns": {
        **dict.fromkeys(("campaign", "title", "purpose", "host", "claim"), _TEXT),
        **{"simulated": _FLAG, "lossless_claim": _FLAG, "missing": _TEXTS, "arms_json": _TEXT, "rules_json": _TEXT},
        **{"suites_json": _TEXT, "lock_sha256": _TEXT},
    },
    "sessions": {
        **dict.fromkeys(("campaign", "session", "arm", "replicate", "boot", "status"), _TEXT),
        **{"current": _FLAG, "sound": _FLAG, "canary_before": _TEXT, "canary_after": _TEXT},
        **{"ready_s": _REAL, "lived_s": _REAL, "at_utc": _TEXT, "exit": _TEXT, "reasons": _TEXTS},
        **{"knobs_json": _TEXT, "identity_json": _TEXT, "environment_json": _TEXT},
        **{f"client_{name}": _REAL for name in CHECKED},
    },
    "requests": {
        **_REQUEST_KEY,
        **{
            "record_state": _TEXT,
            "state": _TEXT,
            "finish_reason": _TEXT,
            "completion_tokens": _INT,
            "received_tokens": _INT,
        },
        **{"prompt_tokens": _INT, "cached_tokens": _INT, "sent_ns": _INT, "last_token_ns": _INT, "ttft_ms": _REAL},
        **{"decode_rate_tok_s": _REAL, "steps": _INT, "step_median_ms": _REAL, "reasons": _TEXTS, "text": _TEXT},
        **{"content_ttft_ms": _REAL, "reasoning_tokens": _INT, "end_ns": _INT},
    },
    "tokens": {**_REQUEST_KEY, "index": _INT, "id": _INT},
    "rungs": {
        **dict.fromkeys(("campaign", "point", "arm", "workload", "item", "metric", "state"), _TEXT),
        **{"x_users_or_prompt_tokens": _REAL, "value_in_unit": _REAL, "low_in_unit": _REAL, "high_in_unit": _REAL},
        **{"unit": _TEXT, "identical_outputs": _INT, "compared_outputs": _INT, "session": _TEXT},
        **{"reasons": _TEXTS, "gates": _TEXTS, "evidence": _TEXTS, "detail_json": _TEXT, "simulated": _FLAG},
        **dict.fromkeys(DETAILS, _REAL),
        "acceptance_by_position": _REALS,
    },
    "passes": {
        **dict.fromkeys(("campaign", "point", "arm", "workload", "item", "state"), _TEXT),
        **{"pass": _INT, "aggregate_tok_s": _REAL, "identical_outputs": _INT, "compared_outputs": _INT},
        **{"lower_bound_95_share": _REAL, "shown": _FLAG, "must_be_exact": _FLAG},
    },
    "verdicts": {
        **dict.fromkeys(("campaign", "gate", "kind", "title", "state"), _TEXT),
        **{"identical_outputs": _INT, "compared_outputs": _INT, "identical_sites": _INT, "compared_sites": _INT},
        **{"lower_bound_95_share": _REAL, "outputs_lower_bound_95_share": _REAL, "minority_share": _REAL},
        **{"reasons": _TEXTS, "guards": _TEXTS, "stops": _TEXTS, "bistable": _TEXTS, "unstable": _TEXTS},
        **{"oracle_in_minority": _TEXTS, "rule_json": _TEXT, "passes_json": _TEXT, "divergences_json": _TEXT},
        **{"copies_json": _TEXT, "collisions_json": _TEXT, "inputs_json": _TEXT},
    },
}
KEYS: dict[str, tuple[str, ...]] = {
    "campaigns": ("campaign",),
    "sessions": ("session",),
    "requests": tuple(_REQUEST_KEY),
    "tokens": (*_REQUEST_KEY, "index"),
    "rungs": ("point",),
    "passes": ("point", "pass"),
    "verdicts": ("gate",),
}


def write_tables(summary: Summary, accepted: Sequence[Judged], to: Path) -> dict[str, Path]:
    """Write all tables into the folder `to`; return {table: path}. Equal input gives equal bytes.

    `accepted`: the record in use of each item, in any order; the column `record_state` says which may be shown.
    Raises EvidenceError where two rows of a table have the same key, HostError when the disk refuses.
    """
    rows: dict[str, Iterable[dict[str, Any]]] = {
        "campaigns": [_campaign(summary)],
        "sessions": (_session(summary.campaign, session) for session in summary.sessions),
        "requests": (_request(summary.campaign, item, one) for item in accepted for one in item.requests),
        "rungs": (_rung(summary, point) for point in summary.points),
        "passes": (row for point in summary.points for row in _passes(summary, point)),
        "verdicts": (_verdict(summary.campaign, verdict) for verdict in summary.verdicts),
    }
    frames = {name: _columns(name, made) for name, made in rows.items()}
    frames["tokens"] = _tokens(summary.campaign, accepted)
    made = {}
    for name in SCHEMAS:
        made[name] = to / f"{name}.parquet"
        write_atomic(made[name], _parquet(name, frames[name], summary.lock_sha256))
    return made


def read_table(path: Path, name: str) -> pd.DataFrame:
    """One of our tables, whole numbers with gaps as pandas' nullable Int64.

    Raises EvidenceError for another table, another schema version, or a file that is not Parquet.
    """
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise EvidenceError(f"{path}: cannot be read as Parquet ({error}); expected the table {name}") from error
    found = (table.schema.metadata or {}).get(b"rungproof.table", b"no table of ours").decode("utf-8", "replace")
    if found != f"rungproof.{name}/{VERSION}":
        raise EvidenceError(f"{path}: found {found}; expected rungproof.{name}/{VERSION}; make the tables again")
    kinds = {_INT: pd.Int64Dtype(), _REAL: pd.Float64Dtype(), _FLAG: pd.BooleanDtype()}
    frame: pd.DataFrame = table.to_pandas(types_mapper=kinds.get)
    return frame


def same_parquet(one: Path, two: Path) -> bool:
    """Whether two Parquet files hold the same, metadata too; another version of pyarrow writes other bytes. Any other file: False."""
    if one.suffix != ".parquet":
        return False
    try:
        a, b = pq.read_table(one), pq.read_table(two)
    except (OSError, pa.ArrowException):
        return False
    return bool(a.equals(b, check_metadata=True))


def _columns(name: str, rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    ordered = sorted(rows, key=lambda row: tuple(row[key] for key in KEYS[name]))
    keys = [tuple(row[key] for key in KEYS[name]) for row in ordered]
    for before, after in pairwise(keys):
        if before == after:
            raise EvidenceError(f"table {name}: two rows for {' / '.join(map(str, after))}; expected each once")
    return {column: [row[column] for row in ordered] for column in SCHEMAS[name]}


def _parquet(name: str, columns: Mapping[str, Sequence[Any]], lock_sha256: str) -> bytes:
    metadata = {"rungproof.table": f"rungproof.{name}/{VERSION}", "rungproof.lock_sha256": lock_sha256}
    schema = pa.schema([pa.field(column, kind) for column, kind in SCHEMAS[name].items()], metadata=metadata)
    table = pa.table({column: pa.array(columns[column], kind) for column, kind in SCHEMAS[name].items()}, schema=schema)
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd", version="2.6", store_schema=True)
    return out.getvalue()


def _json(value: Any) -> str:
    return canonical(value).decode("utf-8").rstrip("\n")


def _campaign(summary: Summary) -> dict[str, Any]:
    return {
        **{name: getattr(summary, name) for name in ("campaign", "title", "purpose", "host", "claim")},
        **{"simulated": summary.simulated, "lossless_claim": summary.lossless_claim, "missing": list(summary.missing)},
        **{"arms_json": _json(summary.arms), "rules_json": _json(summary.rules), "suites_json": _json(summary.suites)},
        "lock_sha256": summary.lock_sha256,
    }


def _session(campaign: str, session: SessionInfo) -> dict[str, Any]:
    same = ("session", "arm", "replicate", "boot", "status", "current", "sound", "canary_before", "canary_after")
    return {
        "campaign": campaign,
        **{name: getattr(session, name) for name in (*same, "ready_s", "lived_s", "exit")},
        **{"at_utc": session.at, "reasons": list(session.reasons), "knobs_json": _json(session.knobs)},
        **{"identity_json": _json(session.identity), "environment_json": _json(session.environment)},
        **{f"client_{name}": session.client and getattr(session.client, name) for name in CHECKED},
    }


def _request_key(campaign: str, item: Judged, one: RequestResult) -> dict[str, Any]:
    seat = f"{item.arm}.{item.replicate}"
    values = (campaign, seat, item.workload, item.item, item.session, one.batch, one.key)
    return dict(zip(_REQUEST_KEY, values, strict=True))


def _request(campaign: str, item: Judged, one: RequestResult) -> dict[str, Any]:
    same = ("state", "completion_tokens", "prompt_tokens", "cached_tokens", "sent_ns", "last_token_ns", "steps")
    return {
        **_request_key(campaign, item, one),
        "record_state": item.state,
        **{name: getattr(one, name) for name in same},
        **{"finish_reason": one.finish_reason, "received_tokens": len(one.token_ids), "text": one.text},
        **{"ttft_ms": _ms(one.ttft_ns), "step_median_ms": _ms(one.step_median_ns)},
        **{"content_ttft_ms": _ms(one.content_ttft_ns), "reasoning_tokens": one.reasoning_tokens, "end_ns": one.end_ns},
        **{"decode_rate_tok_s": one.decode_rate, "reasons": [str(reason) for reason in one.reasons]},
    }


def _ms(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e6


def _tokens(campaign: str, accepted: Sequence[Judged]) -> dict[str, list[Any]]:
    """Column by column: a campaign has far more tokens than anything else. `_columns` has refused equal keys of requests."""
    keyed = [(_request_key(campaign, item, one), one.token_ids) for item in accepted for one in item.requests]
    keyed.sort(key=lambda pair: tuple(pair[0].values()))
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMAS["tokens"]}
    for key, ids in keyed:
        for name, value in key.items():
            columns[name] += [value] * len(ids)
        columns["index"] += range(len(ids))
        columns["id"] += ids
    return columns


def _rung(summary: Summary, point: Point) -> dict[str, Any]:
    return {
        **{"campaign": summary.campaign, "point": point.id, "simulated": summary.simulated},
        **{name: getattr(point, name) for name in ("arm", "workload", "item", "metric", "state", "unit", "session")},
        **{"x_users_or_prompt_tokens": point.x, "value_in_unit": point.value},
        **{"low_in_unit": point.low, "high_in_unit": point.high},
        **{"identical_outputs": point.k, "compared_outputs": point.n, "detail_json": _json(point.detail)},
        **{name: list(getattr(point, name)) for name in ("reasons", "gates", "evidence")},
        **{name: figure(point.detail, name) for name in DETAILS},
        "acceptance_by_position": shares(point.detail),
    }


def _passes(summary: Summary, point: Point) -> list[dict[str, Any]]:
    """One row a pass of a rung, whichever of them is shown."""
    same = {name: getattr(point, name) for name in ("arm", "workload", "item", "state")}
    return [
        {
            **{"campaign": summary.campaign, "point": point.id, **same, "pass": one.number},
            **{"aggregate_tok_s": one.value, "identical_outputs": one.k, "compared_outputs": one.n},
            **{"lower_bound_95_share": lower_bound(one.k or 0, one.n or 0)},
            **{"shown": one.shown, "must_be_exact": one.required},
        }
        for one in passes_of(point)
    ]


def _verdict(campaign: str, verdict: Verdict) -> dict[str, Any]:
    view = verdict.agreement
    return {
        "campaign": campaign,
        **{name: getattr(verdict, name) for name in ("gate", "kind", "title", "state")},
        **{"identical_outputs": verdict.k, "compared_outputs": verdict.n},
        **{"identical_sites": verdict.sites_k, "compared_sites": verdict.sites_n},
        **{"lower_bound_95_share": verdict.bound, "outputs_lower_bound_95_share": verdict.repeats_bound},
        **{"minority_share": verdict.minority_share, "reasons": [str(reason) for reason in verdict.reasons]},
        **{"guards": list(verdict.guards), "stops": list(verdict.stops), "rule_json": _json(verdict.rule)},
        **{"bistable": list(view.bistable) if view else None, "unstable": list(view.unstable) if view else None},
        **{"oracle_in_minority": list(view.oracle_minority) if view else None},
        **{
            "copies_json": _json(view.copies) if view else None,
            "collisions_json": _json(view.collisions) if view else None,
        },
        **{"passes_json": _json(verdict.passes), "divergences_json": _json(verdict.divergences)},
        "inputs_json": _json(verdict.inputs),
    }
