"""Measuring a server that already runs: what is sent, what is counted, and what is not claimed."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.kit import TextServer, simulated
from rungproof.judge.attempt import read_raw
from rungproof.measure.external import Ask, Report, measure
from rungproof.measure.external.figures import doubts_of
from rungproof.measure.external.prompts import Prompts, load_prompts
from rungproof.measure.external.report import RungReport
from rungproof.measure.external.run import VENDOR, item_of, raw_path
from rungproof.measure.external.target import find_engine, find_model, parse_url
from rungproof.records import raw
from rungproof.records.codec import read, sha256
from rungproof.records.errors import ConfigError, EvidenceError, RungproofError, ServerError
from rungproof.records.requests import ENGINES, batches

ROOT = Path(__file__).resolve().parents[2]
TEXTS = Prompts("here", {f"p{i:02d}": f"prompt number {i} tells" for i in range(8)})


SLOW = ("--token-ms", "10")  # so slow that requests sent at once share the server, on a busy machine too


def ask(url: str, **more: Any) -> Ask:
    """A short measurement of one pass at concurrency 2."""
    fixed: dict[str, Any] = {
        "model": "m", "prompts": TEXTS, "concurrency": (2,), "tokens": 16, "passes": 1, "plain": False, "deadline_s": 120.0, "idle_s": 60.0,
        "out": None,
    }  # fmt: skip
    return Ask(target=parse_url(url), **(fixed | more))


def quiet(_line: str) -> None:
    """No progress."""


def only(report: Report) -> RungReport:
    """The one rung."""
    (rung,) = report.rungs
    return rung


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A simulated server without faults."""
    with simulated(tmp_path_factory.mktemp("server"), "--token-ms", "1") as url:
        yield url


def test_a_rung_is_the_ladder_of_a_campaign(server: str, tmp_path: Path) -> None:
    """Exactly the bodies of a campaign's rung are sent, oracle first and then the passes, and its own judge reads the raw file alike."""
    wanted = ask(server, concurrency=(1, 3), passes=2, out=tmp_path)
    said: list[str] = []
    report = measure(wanted, said.append)
    for rung in report.rungs:
        item = item_of(wanted, rung.concurrency)
        data = raw_path(tmp_path, item).read_bytes()
        lines = raw.decode(data, "raw")
        sent = [(line.batch, line.key, json.loads(line.body)) for line in lines if isinstance(line, raw.Request)]
        assert sent == [(b.batch, one.key, one.body) for b in batches(item, TEXTS.texts, "m") for one in b.bodies]
        assert read_raw(item, lines) == (rung.requests, rung.batches)
        assert (rung.planned, rung.states["complete"], rung.state) == (
            3 * rung.concurrency,
            3 * rung.concurrency,
            "complete",
        )
        assert rung.raw is not None
        assert rung.raw.sha256 == sha256(data)
    assert report.complete
    assert said[-1] == "c3: batch 5/5 pass-2: 3/3 complete"
    assert read(Report, tmp_path / "report.json") == report


def test_figures_of_a_rung(server: str) -> None:
    """Aggregate is tokens over wall time of the last pass, per user its share; identity counts every output of every pass."""
    rung = only(measure(ask(server, tokens=120, passes=2), quiet))
    last = rung.batches[-1]
    assert last.completion_tokens == 240
    assert rung.aggregate == pytest.approx(240e9 / last.wall_ns)
    assert rung.per_user == pytest.approx(rung.aggregate / 2)
    assert rung.decode_rate is not None
    assert 0 < rung.passes[-1].ttft_ms_median <= rung.passes[-1].ttft_ms_max  # type: ignore[operator]
    assert (rung.identity.k, rung.identity.n, rung.identity.sites_k, rung.identity.sites_n) == (4, 4, 2, 2)
    assert [(p.identical, p.compared) for p in rung.passes] == [(2, 2), (2, 2)]
    assert rung.doubts == ()


def test_what_is_measured_is_never_qualified(server: str) -> None:
    """A report says False and why, however good its identity is."""
    report = measure(ask(server), quiet)
    assert report.qualified is False
    assert "did not launch this server" in report.why_not_qualified
    assert only(report).identity.k == only(report).identity.n > 0


def test_outputs_that_change_under_load_are_counted(tmp_path: Path) -> None:
    """A server that answers otherwise at two at once gives k below n, with the token at which it left."""
    with simulated(tmp_path, *SLOW, "--flip-at-inflight", "2") as url:
        rung = only(measure(ask(url, tokens=64, passes=2), quiet))
    assert (rung.state, rung.identity.k, rung.identity.n, rung.identity.sites_k) == ("complete", 2, 4, 1)
    assert {d.index for d in rung.identity.divergences} == {44}
    assert [(p.identical, p.compared) for p in rung.passes] == [(1, 2), (1, 2)]


def test_a_dropped_stream_ends_its_rung_and_not_the_next(tmp_path: Path) -> None:
    """One lost request: its rung is incomplete with what it has, nothing more of it is sent, the next rung is measured."""
    lost = {"do": "drop", "match": {"concurrent": 2}, "after_tokens": 3, "times": 1}
    with simulated(tmp_path, *SLOW, faults=[lost]) as url:
        report = measure(ask(url, concurrency=(2, 3), passes=2), quiet)
    broken, good = report.rungs
    assert (broken.state, broken.planned, broken.states["complete"], broken.states["truncated"]) == (
        "incomplete",
        6,
        3,
        1,
    )
    assert sum(broken.states.values()) == 4
    assert (broken.aggregate, broken.passes[0].aggregate, broken.passes[0].complete) == (None, None, 1)
    assert (broken.identity.k, broken.identity.n) == (1, 1)
    assert (good.state, good.identity.k, good.identity.n) == ("complete", 6, 6)
    assert (report.complete, report.refused) == (False, "")


def test_a_server_without_token_ids_is_counted_by_usage() -> None:
    """Text alone: complete, counted by the server's usage, timed by its text; identity is not claimed and no decode rate is made up."""
    with TextServer() as server:
        report = measure(ask(server.url, model="tiny.gguf", concurrency=(1, 2), tokens=110), quiet)
    for rung in report.rungs:
        last = rung.batches[-1]
        assert rung.state == "complete"
        assert last.completion_tokens == 110 * rung.concurrency
        assert rung.aggregate == pytest.approx(last.completion_tokens * 1e9 / last.wall_ns)
        assert (rung.decode_rate, rung.identity.k, rung.identity.n) == (None, 0, 0)
        assert rung.identity.cannot == "cannot be compared: the server gives no token ids"
        assert {d.what for d in rung.doubts} == {"cached tokens not reported", "no counters"}
        for one in rung.requests:
            assert (one.token_ids, one.completion_tokens, one.steps, one.reasons) == ((), 110, 110, ())
            assert one.ttft_ns is not None
            assert one.last_token_ns is not None
            assert 0 < one.ttft_ns < one.last_token_ns - one.sent_ns


def test_without_ids_and_usage_there_is_no_speed() -> None:
    """What cannot be counted has no aggregate, and the reason says so."""
    with TextServer(usage=False) as server:
        rung = only(measure(ask(server.url), quiet))
    assert (rung.state, rung.aggregate, rung.per_user) == ("complete", None, None)
    assert {reason.what for r in rung.requests for reason in r.reasons} == {"no count"}


@pytest.mark.parametrize(
    ("how", "what"),
    [({"natural": 5}, "short output"), ({"natural": 0}, "empty answer"), ({"at_once": True}, "not streamed")],
)
def test_an_answer_that_is_not_what_was_asked_gives_no_speed(how: dict[str, Any], what: str) -> None:
    """Too short, empty, or all at once: the request is complete, the reason is told, and its rung has no aggregate."""
    with TextServer(**how) as server:
        rung = only(measure(ask(server.url), quiet))
    assert (rung.state, rung.aggregate) == ("complete", None)
    assert all(what in {reason.what for reason in r.reasons} for r in rung.requests)


def test_plain_leaves_vendor_parameters_out_and_allows_natural_ends() -> None:
    """A server that refuses what OpenAI does not have is asked once, its words are kept; --plain then works on it."""
    with TextServer(refuses=VENDOR, natural=7) as server:
        refused = measure(ask(server.url, concurrency=(2, 4)), quiet)
        asked = len(server.asked)
        report = measure(ask(server.url, plain=True), quiet)
    assert (asked, refused.refused_status, refused.complete) == (1, 400, False)
    assert "no such parameter" in refused.refused
    assert [r.state for r in refused.rungs] == ["incomplete", "not measured"]
    assert all(name not in body for body in server.asked[1:] for name in VENDOR)
    assert server.asked[0].keys() - server.asked[1].keys() == set(VENDOR) - set(ENGINES["llama.cpp"])
    rung = only(report)
    assert (report.complete, rung.batches[-1].completion_tokens) == (True, 14)
    assert rung.aggregate is not None
    assert (
        rung.identity.cannot == "cannot be compared: without vendor parameters (--plain) the server gives no token ids"
    )


def test_a_server_that_is_gone_is_asked_once() -> None:
    """No connection ends the whole measurement: nothing more is tried, and every rung is in the report."""
    with TextServer() as server:
        url = server.url
    report = measure(ask(url, concurrency=(1, 2)), quiet)
    assert [(r.state, sum(r.states.values())) for r in report.rungs] == [("incomplete", 1), ("not measured", 0)]
    assert "no connection" in report.refused
    assert (report.complete, report.refused_status) == (False, None)


def test_a_server_that_hangs_is_a_timeout(tmp_path: Path) -> None:
    """A stream that stops is given up after the idle limit, with its tokens so far."""
    with simulated(tmp_path, faults=[{"do": "hang", "after_tokens": 4}]) as url:
        rung = only(measure(ask(url, idle_s=1.0), quiet))
    assert (rung.state, rung.states["timeout"], len(rung.requests[0].token_ids)) == ("incomplete", 1, 4)


def test_a_busy_server_is_tried_again_at_the_next_rung() -> None:
    """Status 503 is not final as 400 is: each rung tries."""
    with TextServer(status=503) as server:
        report = measure(ask(server.url, concurrency=(1, 2)), quiet)
    assert [r.states["http_error"] for r in report.rungs] == [1, 1]
    assert report.refused == ""


def test_caches_and_preemptions_are_doubts(tmp_path: Path) -> None:
    """What makes figures too good or too bad is told: cached prompt tokens, preemptions."""
    with simulated(
        tmp_path, *SLOW, faults=[{"do": "cache_hit", "match": {"concurrent": 2}}, {"do": "preempt", "times": 1}]
    ) as url:
        rung = only(measure(ask(url), quiet))
    assert {"prompt cache", "preemption"} <= {doubt.what for doubt in rung.doubts}
    assert rung.state == "complete"


def test_another_user_of_the_server_is_a_doubt(server: str) -> None:
    """More tokens by the server's counter than this client received means that it served somebody else."""
    wanted = ask(server)
    rung = only(measure(wanted, quiet))
    item, ours = item_of(wanted, 2), sum(len(r.token_ids) for r in rung.requests)
    assert rung.counters["generation_tokens"] == ours
    busy = doubts_of(item, rung.requests, rung.counters | {"generation_tokens": ours + 5.0}, True)
    assert [(d.what, d.found) for d in busy] == [("token count", f"{ours + 5} tokens made by the server (/metrics)")]


def test_answers_of_few_different_tokens_are_a_doubt(server: str) -> None:
    """An answer that repeats itself would be identical whatever the server did."""
    wanted = ask(server, tokens=128)
    rung = only(measure(wanted, quiet))
    assert rung.doubts == ()
    dull = [dataclasses.replace(r, token_ids=(7,) * 128) for r in rung.requests]
    found = doubts_of(item_of(wanted, 2), dull, rung.counters, True)
    assert {d.what for d in found} == {"degenerate answer"}


def test_a_base_path_is_kept() -> None:
    """A server behind a path is asked under that path, for models and completions, whether /v1 is written or not."""
    with TextServer(base="/llm/one") as server:
        for url in (server.url, f"{server.url}/", f"{server.url}/v1", f"{server.url}/v1/completions"):
            target = parse_url(url)
            assert (target.path, find_model(target)) == ("/llm/one/v1/completions", "tiny.gguf")
        assert measure(ask(f"{server.url}/v1", model="tiny.gguf"), quiet).complete


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://h", "http://h:80"), ("http://[::1]:9/v1/", "http://[::1]:9"), ("HTTP://127.0.0.1:8000/a/", "http://127.0.0.1:8000/a"),
    ],
)  # fmt: skip
def test_urls_that_are_understood(url: str, base: str) -> None:
    """Port 80 is meant where none is given; IPv6 keeps its brackets."""
    assert parse_url(url).base == base


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://h:1", "expected http://HOST:PORT"), ("localhost:8000", "expected http://HOST:PORT"), ("", "expected http://HOST:PORT"),
        ("http://h:99999", "out of range"), ("http://h:x", "expected http://HOST"), ("http://u:p@h:1", "no user"), ("http://h:1/?a=b", "no user, query"),
        ("http://[::1", "expected http://HOST"), ("http://hö:1", "expected a host"), ("http://h:1/a b", "expected /"), ("ftp://h", "expected http://"),
    ],
)  # fmt: skip
def test_urls_that_are_refused(url: str, says: str) -> None:
    """A wrong URL is told with what was expected, before anything is sent."""
    with pytest.raises(ConfigError, match="--url") as caught:
        parse_url(url)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("models", "kind", "says"),
    [((), ConfigError, "lists 0 models"), (("a", "b"), ConfigError, r"lists 2 models \(a, b\)")],
)
def test_the_model_is_named_where_there_is_not_exactly_one(
    models: tuple[str, ...], kind: type[RungproofError], says: str
) -> None:
    """None or several models: the names are shown, and --model is asked for."""
    with TextServer(models=models) as server, pytest.raises(kind, match=says) as caught:
        find_model(parse_url(server.url))
    assert "--model NAME" in str(caught.value)


def test_a_server_that_lists_no_models_is_told() -> None:
    """A wrong path and a closed port each say what happened."""
    with TextServer() as server:
        url = server.url
        with pytest.raises(ServerError, match=r"HTTP status 404 \(File Not Found\)"):
            find_model(parse_url(f"{url}/elsewhere"))
    with pytest.raises(ServerError, match=r"no answer \(Connection refused\)"):
        find_model(parse_url(url))


def test_raw_files_are_never_mixed(server: str, tmp_path: Path) -> None:
    """A folder that holds a measurement is refused before a request is sent, and stays as it was."""
    measure(ask(server, out=tmp_path / "new/folder"), quiet)
    before = {path.name: path.read_bytes() for path in (tmp_path / "new/folder").iterdir()}
    assert set(before) == {"c2.raw.jsonl.gz", "report.json"}
    with pytest.raises(ConfigError, match="never mixed"):
        measure(ask(server, out=tmp_path / "new/folder"), quiet)
    assert {path.name: path.read_bytes() for path in (tmp_path / "new/folder").iterdir()} == before


def test_damage_of_a_report_is_found(server: str, tmp_path: Path) -> None:
    """The report is a record like any other: a changed type is refused when it is read."""
    measure(ask(server, out=tmp_path), quiet)
    value = json.loads((tmp_path / "report.json").read_bytes())
    (tmp_path / "report.json").write_text(json.dumps(value | {"qualified": True}))
    with pytest.raises(EvidenceError, match="qualified"):
        read(Report, tmp_path / "report.json")


def test_prompts_come_from_the_suite_or_from_a_file(tmp_path: Path) -> None:
    """The checkout's suite by default; a prompt a line, a JSON list or a ladder suite from a file."""
    (tmp_path / "a.txt").write_text("\ufeffone\r\n\n  \ntwo\nthree\n", encoding="utf-8")
    (tmp_path / "a.json").write_text('["one", "two\\nlines"]')
    assert list(load_prompts(tmp_path / "a.txt", tmp_path, 2).texts.items()) == [("p00", "one"), ("p01", "two")]
    assert list(load_prompts(tmp_path / "a.json", tmp_path, 2).texts.values()) == ["one", "two\nlines"]
    suite = load_prompts(None, ROOT, 9)
    assert suite.source == "suite ladder-v1"
    assert load_prompts(ROOT / "config/suites/ladder-v1.yaml", tmp_path, 9).texts == suite.texts
    assert len(set(suite.texts.values())) == 9


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("a.txt", b"", "holds no prompt"), ("a.txt", b"\n \n", "holds no prompt"), ("a.json", b"[]", "holds no prompt"),
        ("a.txt", b"one\ntwo", "found 2 prompts; the highest concurrency needs 3"), ("a.txt", b"x\ny\nx", "prompts 1 and 3 are the same"),
        ("a.txt", b"\xff\xfe", "not UTF-8"), ("a.json", b"{", "not valid JSON"), ("a.json", b'{"a": 1}', "JSON list of strings"),
        ("a.json", b'["a", "", "b"]', "not empty"), ("a.json", b'["\\ud800", "b", "c"]', "lone surrogate"), ("a.yaml", b"id: x", "key is missing"),
    ],
)  # fmt: skip
def test_prompts_that_cannot_be_used(tmp_path: Path, name: str, data: bytes, says: str) -> None:
    """Each mistake in a prompts file is told with the file's name."""
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ConfigError, match=says) as caught:
        load_prompts(tmp_path / name, tmp_path, 3)
    assert name in str(caught.value)


def test_outside_a_checkout_prompts_are_asked_for(tmp_path: Path) -> None:
    """No built-in list stands in: the error names --prompts, and a missing file is told too."""
    with pytest.raises(ConfigError, match="--prompts FILE"):
        load_prompts(None, tmp_path, 1)
    with pytest.raises(ConfigError, match="No such file"):
        load_prompts(tmp_path / "none.txt", tmp_path, 1)


@pytest.mark.parametrize(("owner", "engine"), [("llamacpp", "llama.cpp"), ("vllm", ""), (["llamacpp"], ""), (None, "")])
def test_an_engine_that_gives_token_ids_in_its_own_way_is_asked_in_that_way(owner: Any, engine: str) -> None:
    """llama.cpp names itself in /v1/models; a list that says nothing of use, or none at all, is no error here."""
    with TextServer(owner=owner) as server:
        assert find_engine(parse_url(server.url)) == engine
        measure(ask(server.url, engine=engine), quiet)
    assert find_engine(parse_url(server.url)) == ""
    assert all(body.get("verbose") is body.get("return_tokens") is (True if engine else None) for body in server.asked)
    assert len(server.asked) == 4
