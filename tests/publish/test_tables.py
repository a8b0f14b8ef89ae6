"""The Parquet tables, read back with pandas."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from publish.sample import HOSTILE, accepted, empty, sample
from rungproof.publish.tables import SCHEMAS, VERSION, read_table, write_tables
from rungproof.records.errors import EvidenceError


def test_equal_records_give_equal_bytes_in_any_order(tmp_path: Path) -> None:
    """Writing twice, the second time with the records in another order, gives the same files byte for byte."""
    first = write_tables(sample(), accepted(), tmp_path / "one")
    second = write_tables(sample(), accepted()[::-1], tmp_path / "two")
    assert (
        list(first) == list(SCHEMAS) == ["campaigns", "sessions", "requests", "tokens", "rungs", "passes", "verdicts"]
    )
    assert [path.read_bytes() for path in first.values()] == [path.read_bytes() for path in second.values()]


def test_each_file_names_its_schema_and_plan(tmp_path: Path) -> None:
    """The metadata says which table of which version it is; columns and types are those declared, whatever the rows are."""
    for summary, records in ((sample(), accepted()), (empty(), ())):
        for name, path in write_tables(summary, records, tmp_path).items():
            schema = pq.read_schema(path)
            assert schema.metadata[b"rungproof.table"] == f"rungproof.{name}/{VERSION}".encode()
            assert schema.metadata[b"rungproof.lock_sha256"] == summary.lock_sha256.encode()
            assert dict(zip(schema.names, schema.types, strict=True)) == SCHEMAS[name]


def test_requests_come_back_whole(tmp_path: Path) -> None:
    """One row a request, failed ones too; times in ms, rates in tokens a second, what is not known null and never 0."""
    table = read_table(write_tables(sample(), accepted(), tmp_path)["requests"], "requests")
    assert len(table) == sum(len(item.requests) for item in accepted()) == 4
    done = table[(table.seat == "base.a") & (table.state == "complete")].iloc[0]
    assert (done.ttft_ms, done.step_median_ms, done.decode_rate_tok_s) == (12.345678, 8.0, 12.5)
    assert (done.completion_tokens, done.received_tokens, done.cached_tokens, done.record_state) == (
        3,
        3,
        0,
        "accepted",
    )
    assert done.text == HOSTILE
    lost = table[(table.seat == "base.a") & (table.state == "timeout")].iloc[0]
    assert pd.isna(lost.ttft_ms)
    assert pd.isna(lost.decode_rate_tok_s)
    assert pd.isna(lost.completion_tokens)


def test_tokens_rebuild_each_output(tmp_path: Path) -> None:
    """One row a token, in order, under the same key as its request; a request without tokens has no row."""
    table = read_table(write_tables(sample(), accepted(), tmp_path)["tokens"], "tokens")
    outputs = {key: list(group.sort_values("index").id) for key, group in table.groupby(["seat", "key"])}
    assert outputs == {("base.a", "pass1.c2.00"): [5, 7, 11], ("draft3.a", "pass1.c2.00"): [5, 7, 11]}
    assert sorted(table["index"].unique()) == [0, 1, 2]


def test_rungs_are_the_points_of_the_summary(tmp_path: Path) -> None:
    """Each point has its row with full value, state, counts, reasons and evidence."""
    table = read_table(write_tables(sample(), accepted(), tmp_path)["rungs"], "rungs").set_index("point")
    assert len(table) == len(sample().points) > 0
    for point in sample().points:
        row = table.loc[point.id]
        assert (row.value_in_unit == point.value) if point.value is not None else pd.isna(row.value_in_unit)
        assert (row.state, row.identical_outputs, row.compared_outputs) == (point.state, point.k, point.n)
        assert (tuple(row.reasons), tuple(row.evidence)) == (point.reasons, point.evidence)


def test_verdicts_and_sessions_are_complete(tmp_path: Path) -> None:
    """One row a gate and one a session, bound and times with their units in the name."""
    made = write_tables(sample(), accepted(), tmp_path)
    verdicts, sessions = read_table(made["verdicts"], "verdicts"), read_table(made["sessions"], "sessions")
    assert sorted(verdicts.gate) == sorted(v.gate for v in sample().verdicts)
    assert verdicts.set_index("gate").loc["base_repeat.base"].lower_bound_95_share == 0.7790778
    assert sorted(sessions.session) == sorted(s.session for s in sample().sessions)
    assert set(sessions.ready_s) == {41.72}


def test_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    """Two records for one request are an error that names the key, and no file is written."""
    with pytest.raises(EvidenceError, match=r"table requests: two rows for .*base\.a"):
        write_tables(sample(), (*accepted(), accepted()[0]), tmp_path)
    with pytest.raises(EvidenceError, match="table rungs: two rows"):
        write_tables(replace(sample(), points=sample().points[:1] * 2), (), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_another_table_or_version_is_not_read(tmp_path: Path) -> None:
    """Reading a table under another name, of another version, or of another origin says what was found and what to do."""
    made = write_tables(sample(), accepted(), tmp_path)
    with pytest.raises(EvidenceError, match=r"found rungproof\.rungs/1; expected rungproof\.verdicts/1"):
        read_table(made["rungs"], "verdicts")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(EvidenceError, match="found no table of ours"):
        read_table(tmp_path / "other.parquet", "rungs")
    (tmp_path / "text.parquet").write_text("not parquet")
    with pytest.raises(EvidenceError, match="cannot be read as Parquet"):
        read_table(tmp_path / "text.parquet", "rungs")
