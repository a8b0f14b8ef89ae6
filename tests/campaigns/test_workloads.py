"""The workloads of diagnosis, whole, on the simulated server: stagger, dense rungs, many passes, tie sites with copies, short prompts, tie probe, a third server."""

from typing import Any

import pytest
import yaml

from campaigns.checkout import MINI, Checkout
from rungproof.cli import main
from rungproof.config.base import read_section
from rungproof.config.suites import TieSuite
from rungproof.publish.pages.text import plain_words

LADDER = {"kind": "ladder", "suite": "ladder-v1", "passes": 2, "tokens": 48, "window": 32}
BROKEN: dict[str, Any] = {
    **MINI,
    "arms": {  # on this host the lane says wrong tokens where two requests or more share the server
        "base": {"title": "Base", "lane": "smollm2-bf16"},
        "draft": {
            "title": "Draft 3",
            "lane": "smollm2-bf16",
            "oracle": "base",
            "speculation": {"method": "ngram", "depth": 3, "prompt_lookup_max": 4, "prompt_lookup_min": 2},
        },
    },
    "workloads": {
        "dense": {**LADDER, "rungs": {"first": 1, "last": 3}},
        "apart": {**LADDER, "rungs": [2], "stagger_ms": 800},
        "many": {**LADDER, "rungs": [4], "passes": 20, "exact": "pooled", "shown": "pooled"},
        "probe": {"kind": "probe", "suite": "ladder-v1", "prompts": 4, "tokens": 48, "window": 32},
        "short": {
            "kind": "short",
            "suite": "long-v1",
            "lengths": [1, 2, 3, 4, 5],
            "prompts": 3,
            "repeats": 2,
            "tokens": 24,
            "window": 16,
        },
    },
    "sessions": [
        {"arm": "base", "replicate": "a", "workloads": ["dense", "apart", "many", "probe", "short"]},
        {"arm": "base", "replicate": "b", "workloads": ["short"]},
        {"arm": "draft", "replicate": "a", "workloads": ["short"]},
    ],
}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """One finished campaign of all of them."""
    one = Checkout(tmp_path_factory.mktemp("workloads") / "checkout", {"broken": BROKEN})
    call = one.run("broken")
    assert call.returncode == 0, call.stdout[-3000:]
    return one


def test_dense_rungs_break_where_requests_share_the_server(done: Checkout) -> None:
    """Each rung from first to last is measured; one user is exact, two are not."""
    points = done.points("broken")
    states = {name.split("/")[2]: p["state"] for name, p in points.items() if "/dense/" in name}
    assert states == {"c1": "qualified", "c2": "withheld", "c3": "withheld"}


def test_requests_that_are_staggered_apart_are_exact(done: Checkout) -> None:
    """The same two prompts, sent so far apart that they do not share the server, give the oracle's tokens; the raw file shows the gap."""
    points = done.points("broken")
    assert points["base/dense/c2/aggregate"]["state"] == "withheld"
    assert points["base/apart/c2/aggregate"]["state"] == "qualified"
    judged = done.record(done.study("broken") / "sessions/r001.base.a/judged/apart.c2.json")
    for name in ("pass-1", "pass-2"):
        first, second = sorted(r["sent_ns"] for r in judged["requests"] if r["batch"] == name)
        assert 795e6 <= second - first < 20e9
    assert done.record(done.study("broken") / "plan.json")["items"][3]["spec"]["stagger_ms"] == 800


def test_twenty_passes_are_pooled_and_all_shown(done: Checkout) -> None:
    """The rung of 20 passes has one count over all of them, and each pass in its detail."""
    point = done.points("broken")["base/many/c4/aggregate"]
    assert (point["state"], point["n"]) == ("withheld", 80)
    assert len(point["detail"]["passes"]) == len(point["detail"]["passes_exact"]) == 20
    assert sum(k for k, _ in point["detail"]["passes_exact"]) == point["k"] < 80


def test_the_probe_knows_how_close_the_ties_were(done: Checkout) -> None:
    """Where the rungs broke the two likeliest tokens lay 1/512 apart, at ordinary positions more than 0.25; explain and page say so. It is no point."""
    summary = done.record(done.study("broken") / "summary.json")
    assert not [p for p in summary["points"] if p["workload"] == "probe"]
    rows = [r for r in summary["margins"] if r["gate"] == "rung.base.a.dense.c2"]
    assert {r["index"] for r in rows} == {44}
    for row in rows:
        assert row["margin"] == pytest.approx(1 / 512)
        assert row["usual"] > 0.25
        assert 0 <= row["closer"] < 0.03  # the prompts that did not break have the same tie at one position each
    page = (done.study("broken") / "page/evidence.html").read_text(encoding="utf-8")
    assert ">0.00195</data> nats apart" in page


def test_explain_tells_where_how_close_and_what_to_try(done: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    """The command finds the campaign's results and says all of it."""
    assert main(["explain", "broken", "base/dense/c2", "--root", str(done.folder)]) == 0
    out = capsys.readouterr().out
    for words in (
        "base/dense/c2 is withheld",
        "at token 45 of 48",
        "how close: ",
        "this arm at dense c1: qualified",
        "try: ",
    ):
        assert words in out, words
    assert main(["explain", "broken", "base/dense/c9", "--root", str(done.folder)]) == 2


def test_gates_lists_them_and_fails(done: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, since rungs are withheld; the counting gates have passed."""
    assert main(["gates", "broken", "--root", str(done.folder)]) == 1
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.split()}
    assert "withheld" in rows["rung.base.a.dense.c2"]
    assert "qualified" in rows["preemption_zero"] and "qualified" in rows["short.draft.a.short.n1"]


def test_short_prompts_are_compared_with_the_base(done: Checkout) -> None:
    """Lengths 1 to draft depth + 2, each prompt as often as planned, every output against the base's; sites and outputs counted apart."""
    points = done.points("broken")
    for length in range(1, 6):
        point = points[f"draft/short/n{length}/decode_rate"]
        assert (point["state"], point["k"], point["n"], point["x"]) == ("qualified", 6, 6, length)
        judged = done.record(done.study("broken") / f"sessions/r001.draft.a/judged/short.n{length}.json")
        assert {r["prompt_tokens"] for r in judged["requests"]} == {length}
    verdict = done.record(done.study("broken") / "verdicts/short.draft.a.short.n1.json")
    assert (verdict["sites_k"], verdict["sites_n"], verdict["n"]) == (3, 3, 6)


def test_a_folder_of_them_verifies(done: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything recomputes from raw bytes: margins, copies, staggers and all."""
    assert main(["verify", str(done.study("broken"))]) == 0, capsys.readouterr()


def test_tie_sites_with_copies(done: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    """The prompts that broke in 20 passes become a suite with their rates; run with copies, byte-identical requests of one batch are seen to differ."""
    root = ["--root", str(done.folder)]
    assert main(["suite", "tie", "broken", "base/many/c4", "--id", "ties", *root]) == 0
    suite = read_section(TieSuite, done.folder / "config/suites/ties.yaml")
    assert 2 <= len(suite.prompts) <= 4
    assert all(prompt.of == 20 and 1 <= prompt.broke <= 20 for prompt in suite.prompts)
    assert sum(prompt.broke for prompt in suite.prompts) == 80 - done.points("broken")["base/many/c4/aggregate"]["k"]
    assert main(["suite", "tie", "broken", "base/many/c4", "--id", "ties", *root]) == 2
    assert main(["suite", "tie", "broken", "base/dense/c1", "--id", "none", *root]) == 2
    assert "nothing broke" in capsys.readouterr().err
    again = {
        **BROKEN,
        "arms": {"base": BROKEN["arms"]["base"]},
        "workloads": {"ties": {**LADDER, "suite": "ties", "rungs": [4], "copies": 4}},
        "sessions": [{"arm": "base", "replicate": "a", "workloads": ["ties"]}],
    }
    (done.folder / "config/campaigns/copies.yaml").write_text(yaml.safe_dump(again, sort_keys=False), encoding="utf-8")
    call = done.run("copies")
    assert call.returncode == 0, call.stdout[-3000:]
    verdict = done.record(done.study("copies") / "verdicts/rung.base.a.ties.c4.json")
    assert (verdict["sites_n"], verdict["n"]) == (1, 8)
    groups = verdict["agreement"]["copies"]
    assert [(g["batch"], len(g["sites"])) for g in groups] == [("pass-1", 4), ("pass-2", 4)]
    assert all(g["answers"] == 2 for g in groups)
    page = (done.study("copies") / "page/evidence.html").read_text(encoding="utf-8")
    assert "2 of 2 groups of byte-identical requests in one batch gave different outputs" in plain_words(page)


def test_a_third_server_is_measured_where_two_differ_too_much(tmp_path: Any, checkout: Any) -> None:
    """Past the limit the headline is withheld and the next call measures a third server with that suite alone; then it qualifies and nothing is left."""
    arms = {"base": MINI["arms"]["base"]}
    works = {
        "strict": {**MINI["workloads"]["strict"], "spread_limit": 1e-12},
        "ladder": {**MINI["workloads"]["ladder"], "rungs": [1]},
    }
    sessions = [
        {"arm": "base", "replicate": "a", "workloads": ["strict", "ladder"]},
        {"arm": "base", "replicate": "b", "workloads": ["strict"]},
    ]
    one = checkout(third={**MINI, "arms": arms, "workloads": works, "sessions": sessions})
    first = one.run("third")
    assert first.returncode == 0, first.stdout[-3000:]
    point = one.points("third")["base/strict/suite/decode_rate"]
    assert point["state"] == "withheld"
    assert any("a third fresh server is needed" in reason for reason in point["reasons"])
    assert sorted(p.name for p in one.study("third").glob("sessions/*")) == ["r001.base.a", "r001.base.b"]
    second = one.run("third")
    assert second.returncode == 0, second.stdout[-3000:]
    assert [p.name for p in (one.study("third") / "sessions/r002.base.c/attempts").glob("*.json")] == [
        "strict.suite.json"
    ]
    point = one.points("third")["base/strict/suite/decode_rate"]
    assert (point["state"], point["n"]) == ("qualified", 24)
    headline = one.record(one.study("third") / "summary.json")["headlines"][0]
    assert ([name for name, _ in headline["servers"]], headline["kind"]) == (["a", "b", "c"], "range")
    assert "Nothing to be done" in one.run("third").stdout
    assert main(["verify", str(one.study("third"))]) == 0
