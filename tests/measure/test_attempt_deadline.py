"""An item that takes too long ends: its batches share one deadline, and what was sent before it stays in the raw file."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from measure.test_simulated_server import serving
from rungproof.measure.workloads import attempt
from rungproof.records import raw
from rungproof.records.errors import EvidenceError
from rungproof.records.formats import Reason
from rungproof.records.requests import BatchPlan, Body


@contextmanager
def asked_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cell_s: float) -> Iterator[tuple[Any, ...]]:
    """What an attempt of four batches is given: folder, server, item and plan."""
    planned = tuple(
        BatchPlan(f"b{i}", (Body("k", {"model": "S38", "prompt": [i], "max_tokens": 50, "stream": True}),))
        for i in range(4)
    )
    monkeypatch.setattr(attempt, "batches", lambda *_: planned)
    monkeypatch.setattr(attempt, "read_prompts", lambda *_: {})
    (tmp_path / "prompts").write_text("{}")
    folder: Any = SimpleNamespace(prompts=lambda *_: tmp_path / "prompts")
    plan: Any = SimpleNamespace(limits={"request_deadline_s": 60.0, "idle_s": 30.0, "cell_deadline_s": cell_s})
    item: Any = SimpleNamespace(id="i", arm="a", workload="w", spec={"kind": "depth", "tokens": 12})
    monkeypatch.setattr(attempt, "read_metrics", lambda *_, **__: raw.Metrics("before", 1, True, ""))
    with serving(tmp_path) as server:
        asked: Any = SimpleNamespace(session="s", boot="b", model="m", url=f"http://127.0.0.1:{server.port}")
        yield folder, asked, item, plan


@pytest.mark.parametrize(
    ("cell_s", "status", "sent"), [(600.0, "measured", 4), (90.0, "failed", 2), (0.2, "measured", 1)]
)
def test_batches_of_an_item_share_one_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cell_s: float, status: str, sent: int
) -> None:
    """Between batches the deadline fails the item; inside one it ends the request as a timeout, which the judge finds."""
    path = tmp_path / "raw.jsonl.gz"
    with asked_of(tmp_path, monkeypatch, cell_s) as asked:
        if status == "failed":  # two readings before the batches and two in each; at the third batch the time is over
            clock = iter([0.0] * 6 + [91.0] * 50)
            monkeypatch.setattr(attempt, "time", SimpleNamespace(monotonic=lambda: next(clock)))
        found, reasons = attempt._measure(*asked, path, lambda _: None)
    requests = [line for line in raw.decode(path.read_bytes(), "x") if isinstance(line, raw.Request)]
    assert (found, len(requests)) == (status, sent)
    assert [r.end for r in requests] == (["timeout"] if cell_s == 0.2 else ["framed"] * sent)
    assert reasons == (
        (Reason("cell deadline", "2 of 4 batches", "all within 90 s", "i"),) if status == "failed" else ()
    )


def test_an_item_whose_raw_file_nobody_could_read_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch that would make the file larger than one may be is left out, with the item named, and the file stays whole."""
    path = tmp_path / "raw.jsonl.gz"
    with asked_of(tmp_path, monkeypatch, 600.0) as asked:
        attempt._measure(*asked, path, lambda _: None)
        whole = path.read_bytes()
        # Room for some of the batches: a busy client reads fewer, larger chunks, which take less.
        monkeypatch.setattr(raw, "MAX_RAW", len(gzip.decompress(whole)) * 3 // 5)
        path.unlink()
        with pytest.raises(EvidenceError, match="more than"):
            attempt._measure(*asked, path, lambda _: None)
    requests = [line for line in raw.decode(path.read_bytes(), "x") if isinstance(line, raw.Request)]
    assert 1 <= len(requests) <= 3
