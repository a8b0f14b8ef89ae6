"""The whole job on the simulated server: what a user of Snakemake sees."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from campaigns.checkout import LADDER, MINI, Checkout
from rungproof.publish.pages.text import plain_words

Make = Callable[..., Checkout]
NOTHING = "Nothing to be done"


def copy(measured: Checkout, make: Make, snakemake_folder: bool = True) -> Checkout:
    """Another checkout with the results of the finished one, whose server has no faults."""
    one = make(mini=MINI)
    shutil.copytree(measured.folder / "results", one.folder / "results")
    if snakemake_folder:
        shutil.copytree(measured.folder / ".snakemake", one.folder / ".snakemake", dirs_exist_ok=True)
    return one


def sessions(one: Checkout, campaign: str = "mini") -> list[str]:
    """Names of all sessions."""
    return sorted(p.name for p in one.study(campaign).glob("sessions/*"))


def test_the_whole_campaign_runs_and_says_that_nothing_was_measured(measured: Checkout) -> None:
    """One call gives records, verdicts, tables and a page; on the simulated server the page says in words that nothing was measured."""
    study = measured.study("mini")
    page = (study / "page/index.html").read_text(encoding="utf-8").lower()
    assert "nothing was measured" in page
    assert len(list(study.glob("tables/*.parquet"))) == 7
    summary = measured.record(study / "summary.json")
    assert summary["simulated"] is True
    assert summary["lossless_claim"] is False
    points = measured.points("mini")
    assert len(points) == 12
    withheld = {f"{arm}/ladder/c4/aggregate" for arm in ("base", "draft")}  # its server says wrong tokens there
    assert {name for name, p in points.items() if p["state"] == "withheld"} == withheld
    assert {p["state"] for name, p in points.items() if name not in withheld} == {"qualified"}
    assert points["draft/strict/suite/decode_rate"]["n"] == 36
    assert sessions(measured) == ["r001.base.a", "r001.base.b", "r001.draft.a", "r001.draft.b"]


def test_the_terminal_tells_what_is_measured_and_the_log_tells_all(measured: Checkout) -> None:
    """What will be done comes first, then a line a step with how far it is, at the end counts and the page; Snakemake's own account is in its log."""
    lines = (measured.folder / "terminal.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) < 60, lines
    assert any("fresh server r001.base.a" in line for line in lines[:4])
    assert any("min in all" in line for line in lines[:8])
    assert any("ladder/c4: measured" in line and "[6/16" in line for line in lines)
    assert lines[-1].strip() == "page: results/mini/page/index.html"
    assert "mini: 10 qualified, 2 withheld" in lines
    logs = [path.read_text(encoding="utf-8") for path in (measured.folder / ".snakemake/log").glob("*.log")]
    assert [found for log in logs if (found := log.count("rule attempt:"))] == [16]


def test_records_tell_what_the_server_really_ran_with(measured: Checkout) -> None:
    """Every requested argument and variable is found again in the running server, and the session closed sound, with nothing left over."""
    for name in sessions(measured):
        folder = measured.study("mini") / "sessions" / name
        server, closed = measured.record(folder / "server.json"), measured.record(folder / "closed.json")
        knobs = {k["name"] for k in server["knobs"]}
        assert (
            set(server["launch"]["arguments"]) | set(server["launch"]["variables"])
            <= {k.lstrip("-") for k in knobs} | knobs
        )
        assert all(k["ok"] for k in server["knobs"])
        assert server["boot"] in server["model"]
        assert closed["sound"] is True
        assert (
            measured.record(folder / "canary_before.json")["boot"]
            == measured.record(folder / "canary_after.json")["boot"]
            == server["boot"]
        )


def test_the_same_call_again_does_nothing(measured: Checkout, checkout: Make) -> None:
    """A second call finds every result and starts no server."""
    one = copy(measured, checkout)
    before = one.records("mini")
    call = one.run("mini")
    assert call.returncode == 0
    assert "no server is started" in call.stdout
    assert one.records("mini") == before


def test_a_fresh_clone_with_the_results_starts_no_server(measured: Checkout, checkout: Make) -> None:
    """Results copied into another checkout without .snakemake give the same page, byte for byte, and no session."""
    one = copy(measured, checkout, snakemake_folder=False)
    (one.study("mini") / "page/index.html").unlink()
    call = one.run("mini")
    assert call.returncode == 0, call.stdout[-2000:]
    assert sessions(one) == sessions(measured)
    for name in ("page/index.html", "page/points.csv", "page/points.json", "summary.json", "tables/requests.parquet"):
        assert (one.study("mini") / name).read_bytes() == (measured.study("mini") / name).read_bytes(), name


def test_a_dropped_stream_costs_one_rung_and_the_next_call_measures_only_that(checkout: Make) -> None:
    """A rung whose stream was cut is invalid and exit code 1; with the fault gone the same command measures that rung again, whole, and nothing else."""
    one = checkout(mini=LADDER)
    one.set_faults({"do": "drop", "match": {"concurrent": 2}, "after_tokens": 10})
    first = one.run("mini")
    assert first.returncode == 1
    assert "base.a/ladder/c2 is invalid" in first.stdout
    assert one.points("mini")["base/ladder/c2/aggregate"]["state"] == "invalid"
    assert one.points("mini")["base/ladder/c4/aggregate"]["state"] == "qualified"
    before = one.records("mini")
    one.set_faults()
    second = one.run("mini")
    assert second.returncode == 0, second.stdout[-3000:]
    assert sessions(one) == ["r001.base.a", "r002.base.a"]
    new = one.study("mini") / "sessions/r002.base.a"
    assert sorted(p.name for p in new.glob("attempts/*")) == ["ladder.c2.json", "ladder.c2.raw.jsonl.gz"]
    judged = one.record(new / "judged/ladder.c2.json")
    assert [b["batch"] for b in judged["batches"]] == ["oracle-00", "oracle-01", "pass-1", "pass-2"]
    assert {k: v for k, v in one.records("mini").items() if "r001" in k} == before
    assert one.points("mini")["base/ladder/c2/aggregate"]["session"] == "r002.base.a"
    assert NOTHING in one.run("mini").stdout


def test_a_withheld_rung_is_a_result_and_is_not_measured_again(measured: Checkout, checkout: Make) -> None:
    """Flipped tokens withhold the rung with k of n and exit code 0, and the next call leaves it alone."""
    one = copy(measured, checkout)
    point = one.points("mini")["base/ladder/c4/aggregate"]
    assert point["state"] == "withheld"
    assert point["k"] < point["n"] == 4
    assert [n for _, n in point["detail"]["passes_exact"]] == [4, 4]
    assert one.points("mini")["base/ladder/c2/aggregate"]["state"] == "qualified"
    assert NOTHING in one.run("mini").stdout
    assert sessions(one) == sessions(measured)


def test_remeasure_keeps_both_records_and_shows_both_counts(measured: Checkout, checkout: Make) -> None:
    """A good rung measured again on purpose: the new record is in use, the old one stays, the page shows both."""
    one = copy(measured, checkout)
    call = one.run("mini", "--config", "remeasure=draft/ladder/c2")
    assert call.returncode == 0, call.stdout[-3000:]
    assert sessions(one)[-1] == "r002.draft.a"
    assert one.record(one.study("mini") / "accepted/draft.a/ladder/c2.json")["session"] == "r002.draft.a"
    history = [
        h for h in one.record(one.study("mini") / "summary.json")["history"] if (h["arm"], h["item"]) == ("draft", "c2")
    ]
    assert [(h["session"], h["current"], h["k"], h["n"]) for h in history] == [
        ("r002.draft.a", True, 4, 4),
        ("r001.draft.a", False, 4, 4),
    ]
    page = (one.study("mini") / "page/index.html").read_text(encoding="utf-8")
    assert "r002.draft.a" in page
    assert "r001.draft.a" in page
    assert NOTHING in one.run("mini").stdout


def test_a_failed_remeasure_changes_nothing(measured: Checkout, checkout: Make) -> None:
    """The call fails and says so, and the record accepted before stays in use."""
    one = copy(measured, checkout)
    before = one.points("mini")["draft/ladder/c2/aggregate"]
    one.set_faults({"do": "error_in_band", "match": {"concurrent": 2}})
    call = one.run("mini", "--config", "remeasure=draft/ladder/c2")
    assert call.returncode == 1
    assert "stays in use" in call.stdout
    assert one.points("mini")["draft/ladder/c2/aggregate"] == before
    assert one.record(one.study("mini") / "accepted/draft.a/ladder/c2.json")["session"] == "r001.draft.a"
    assert NOTHING in one.run("mini").stdout


def test_a_base_that_does_not_repeat_itself_stops_the_arms_that_need_it(checkout: Make) -> None:
    """Where fresh server b differs from a, no server is started for the draft arm: skipped by the gate, shown so, and left out of the next call."""
    one = checkout(mini=STRICT)
    prompt = prompts(one)[0][:40]
    first = one.run("results/mini/sessions/r001.base.a/closed.json")
    assert first.returncode == 0, first.stdout[-2000:]
    one.set_faults({"do": "flip", "match": {"prompt_contains": prompt}, "after_tokens": 20})
    call = one.run("mini")
    assert call.returncode == 0, call.stdout[-3000:]
    points = one.points("mini")
    assert points["base/strict/suite/decode_rate"]["state"] == "withheld"
    assert points["draft/strict/suite/decode_rate"]["state"] == "skipped"
    assert not list(one.study("mini").glob("sessions/*.draft.*/logs/server.log"))
    assert NOTHING in one.run("mini").stdout


STRICT: dict[str, Any] = {
    **MINI,
    "workloads": {"strict": MINI["workloads"]["strict"]},
    "sessions": [
        {"arm": arm, "replicate": replicate, "workloads": ["strict"]} for arm in ("base", "draft") for replicate in "ab"
    ],
}


def prompts(one: Checkout) -> list[str]:
    """Texts of the strict suite."""
    return [
        p["text"]
        for p in yaml.safe_load((one.folder / "config/suites/strict-v1.yaml").read_text(encoding="utf-8"))["prompts"]
    ]


ENDS: dict[str, tuple[dict[str, Any], str, str]] = {
    "the server ends while it starts": ({"do": "exit_at_start", "code": 3}, "failed", "no server"),
    "the server dies in a rung": ({"do": "die", "match": {"concurrent": 2}}, "invalid", "request lost"),
}


@pytest.mark.parametrize(("fault", "state", "why"), ENDS.values(), ids=ENDS)
def test_a_rung_without_its_server_is_never_a_result(
    checkout: Make, fault: dict[str, Any], state: str, why: str
) -> None:
    """The call fails, the page is built and shows the rung as unsound with the reason."""
    one = checkout(mini=LADDER)
    one.set_faults(fault)
    assert one.run("mini").returncode == 1
    point = one.points("mini")["base/ladder/c2/aggregate"]
    assert point["state"] == state
    assert any(why in reason for reason in point["reasons"]), point["reasons"]
    assert (one.study("mini") / "page/index.html").exists()
    closed = one.record(one.study("mini") / "sessions/r001.base.a/closed.json")
    if fault["do"] == "die":  # the supervisor's own account, not one written after it had gone
        assert (closed["by"], closed["sound"]) == ("supervisor", False)
        assert "70" in closed["exit"]


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "a cache hit": ({"do": "cache_hit"}, "cache hit"),
    "a preemption": ({"do": "preempt"}, "preemption"),
    "a short answer": ({"do": "short"}, "short output"),
    "no end marker": ({"do": "cut_no_done"}, "request lost"),
    "HTTP 500": ({"do": "http_500"}, "request lost"),
    "a stream that hangs": ({"do": "hang"}, "request lost"),
}


@pytest.fixture(scope="module")
def unsound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkout, str]:
    """One campaign in which each fault comes at a concurrency of its own, from 2 on, and what its call said."""
    rungs = list(range(1, len(FAULTS) + 2))
    ladder = {**LADDER, "workloads": {"ladder": {**LADDER["workloads"]["ladder"], "rungs": rungs}}}
    one = Checkout(tmp_path_factory.mktemp("unsound") / "checkout", {"mini": ladder})
    host = one.folder / "config/hosts/simulated.yaml"
    host.write_text(host.read_text(encoding="utf-8").replace("idle_s: 30", "idle_s: 6"), encoding="utf-8")
    one.set_faults(*({**fault, "match": {"concurrent": c}} for c, (fault, _) in enumerate(FAULTS.values(), start=2)))
    call = one.run("mini")
    assert call.returncode == 1, call.stdout[-3000:]
    assert (one.study("mini") / "page/index.html").exists()
    assert one.points("mini")["base/ladder/c1/aggregate"]["state"] == "qualified"
    return one, call.stdout


@pytest.mark.parametrize("name", FAULTS)
def test_an_unsound_rung_is_never_a_result(unsound: tuple[Checkout, str], name: str) -> None:
    """Whatever the server does to a rung, its job fails and says so, and the page shows the rung as unsound with the reason."""
    one, said = unsound
    rung, (_, why) = f"c{2 + list(FAULTS).index(name)}", FAULTS[name]
    assert f"base.a/ladder/{rung} is invalid" in said
    point = one.points("mini")[f"base/ladder/{rung}/aggregate"]
    assert point["state"] == "invalid"
    assert any(why in reason for reason in point["reasons"]), point["reasons"]
    assert not (one.study("mini") / f"accepted/base.a/ladder/{rung}.json").exists()
    assert point["reasons"][0] in plain_words(
        "".join(p.read_text(encoding="utf-8") for p in sorted((one.study("mini") / "page").glob("*.html")))
    )


def test_hostile_output_is_escaped_on_the_page(checkout: Make) -> None:
    """A prompt that holds HTML and a server that answers with a script reach the page as text only."""
    one = checkout(mini=LADDER)
    suite = one.folder / "config/suites/canary-v1.yaml"
    suite.write_text(suite.read_text(encoding="utf-8") + CANARY, encoding="utf-8")
    one.set_faults({"do": "script", "match": {"prompt_contains": "<b>bold"}})
    call = one.run("mini")
    assert call.returncode == 0, call.stdout[-3000:]
    page = "".join(p.read_text(encoding="utf-8") for p in sorted((one.study("mini") / "page").glob("*.html")))
    assert "<script" not in page.lower()
    assert "onerror=alert" not in page.replace("&lt;img src=x onerror=alert", "")
    assert "&lt;script&gt;" in page
    assert "&lt;b&gt;bold" in page


CANARY = """
  - id: hostile
    kind: contains
    prompt: "<b>bold</b> <img src=x onerror=alert(2)> says"
    max_tokens: 60
    expect: "script"
"""


def test_a_campaign_named_like_a_rule_is_refused(checkout: Make) -> None:
    """Both would be targets, so the error says to rename the file."""
    one = checkout(judge=LADDER)
    call = one.run("judge")
    assert call.returncode != 0
    assert "already that of a rule" in call.stdout


def test_a_wrong_key_is_named_with_its_file(checkout: Make) -> None:
    """A typo in a campaign says which file and key, and which keys there are, and starts nothing."""
    one = checkout(mini={**LADDER, "sesions": []})
    call = one.run("mini")
    assert call.returncode != 0
    assert "config/campaigns/mini.yaml: sesions: unknown key" in call.stdout
    assert call.returncode == 2
    assert "Traceback" not in call.stdout
    assert "WorkflowError" not in call.stdout
    assert not Path(one.folder, "results").exists()


def test_one_item_asked_for_starts_its_own_server_alone(checkout: Callable[..., Checkout]) -> None:
    """A file of the second base server: one fresh server, all that it still lacks, and no other server before it."""
    one = checkout(mini=MINI)
    call = one.run("results/mini/accepted/base.b/strict/suite.json", "--cores", "1")
    assert call.returncode == 0, call.stdout
    assert [p.name for p in (one.study("mini") / "sessions").iterdir()] == ["r001.base.b"]
    assert (one.study("mini") / "accepted/base.b/strict/suite.json").exists()
