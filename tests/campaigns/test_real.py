"""The smoke campaign on a real vLLM with a real model. Processors differ, and so may exactness: what is tested is that every
verdict and number follows from the raw files, not that this processor is exact or fast."""

import gzip
import json
import re
import shutil
import statistics
from pathlib import Path
from typing import Any

import pytest
import yaml

from campaigns.checkout import LADDER, ROOT, Checkout, end_all, left_over
from campaigns.test_tokens import alter
from rungproof import verify
from rungproof.cli import main

pytestmark = [pytest.mark.real, pytest.mark.timeout(2400)]
EVENT = re.compile(r"data: (\{.*\})\n\n")
BUILD = f"build={ROOT / 'build'}"  # what was made for servers is shared with the checkout under test, as by any user


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The smoke campaign, measured once."""
    one = Checkout(tmp_path_factory.mktemp("real") / "checkout", {})
    one.environment.pop("RUNGPROOF_SIM_FAULTS")
    call = one.run("smoke", "--cores", "1", "--config", BUILD, timeout=2300)
    left = left_over(one)
    end_all(one)
    assert call.returncode == 0, call.stdout[-5000:]
    assert not left, f"still running: {left}"
    return one


def arrival(chunks: list[list[int]], length: int) -> int:
    """Stamp of the chunk with which the first `length` bytes were there."""
    for stamp, size in chunks:
        length -= size
        if length <= 0:
            return stamp
    raise AssertionError("fewer bytes in the chunks than in the response")


def exchanges(path: Path) -> dict[str, dict[str, tuple[list[int], int]]]:
    """Batch -> key -> (token ids, wall time from the barrier to the last token [ns]), read without the library's parser."""
    found: dict[str, dict[str, tuple[list[int], int]]] = {}
    start = 0
    for line in map(json.loads, gzip.decompress(path.read_bytes()).decode().splitlines()):
        if line["kind"] == "batch":
            start = line["start_ns"]
        elif line["kind"] == "request":
            ids, last = [], 0
            for event in EVENT.finditer(line["bytes"]):
                tokens = [i for choice in json.loads(event[1])["choices"] for i in choice.get("token_ids") or []]
                if tokens:
                    ids += tokens
                    last = arrival(line["chunks"], event.end())
            found.setdefault(line["batch"], {})[line["key"]] = (ids, last - start)
    return found


def raw_of(one: Checkout, seat: str, item: str, campaign: str = "smoke") -> dict[str, dict[str, tuple[list[int], int]]]:
    """Exchanges of the record in use."""
    accepted = one.record(one.study(campaign) / "accepted" / seat / f"{item.replace('.', '/')}.json")
    return exchanges(one.study(campaign) / "sessions" / accepted["session"] / "attempts" / f"{item}.raw.jsonl.gz")


def arms(one: Checkout) -> tuple[str, str]:
    """Base and draft arm that this processor can serve."""
    names = [a["name"] for a in one.record(one.study("smoke") / "summary.json")["arms"]]
    return names[0], names[1]


def test_every_rung_is_judged_by_its_raw_tokens(smoke: Checkout) -> None:
    """k of n, state and aggregate of each rung are those that the raw bytes give when read by other code."""
    points = smoke.points("smoke")
    for arm in arms(smoke):
        for c in (1, 2, 4):
            raw = raw_of(smoke, f"{arm}.a", f"ladder.c{c}")
            truth = {
                key: ids for name, batch in raw.items() if name.startswith("oracle-") for key, (ids, _) in batch.items()
            }
            assert len(truth) == c
            assert all(len(ids) == 64 for ids in truth.values())
            exact = [sum(ids == truth[key] for key, (ids, _) in raw[name].items()) for name in ("pass-1", "pass-2")]
            point = points[f"{arm}/ladder/c{c}/aggregate"]
            assert point["detail"]["passes_exact"] == [[k, c] for k in exact]
            # the second pass is shown and so counted, unless it is exact while the first is not
            hides = exact[1] == c != exact[0]
            assert (point["k"], point["n"]) == ((sum(exact), 2 * c) if hides else (exact[1], c))
            assert point["state"] == ("qualified" if exact == [c, c] else "withheld")
            wall = max(ns for _, ns in raw["pass-2"].values())
            assert point["value"] == pytest.approx(64 * c / wall * 1e9, rel=1e-9)


def test_strict_and_depth_are_judged_by_their_raw_tokens(smoke: Checkout) -> None:
    """The gates draft = oracle count what the raw bytes of both servers say."""
    base, draft = arms(smoke)
    verdicts = {v["gate"]: v for v in smoke.record(smoke.study("smoke") / "summary.json")["verdicts"]}
    for item, gate, n in (
        ("strict.suite", f"draft-oracle.{draft}.a.strict", 12),
        ("depth.512", f"depth.{draft}.a.depth.512", 3),
    ):
        truth = {key: ids for batch in raw_of(smoke, f"{base}.a", item).values() for key, (ids, _) in batch.items()}
        got = {key: ids for batch in raw_of(smoke, f"{draft}.a", item).values() for key, (ids, _) in batch.items()}
        k = sum(got[key] == ids for key, ids in truth.items())
        assert (verdicts[gate]["k"], verdicts[gate]["n"]) == (k, n)
        assert verdicts[gate]["state"] == ("qualified" if k == n else "withheld")


def test_without_a_repeat_no_lossless_claim_is_made(smoke: Checkout) -> None:
    """One server an arm: the page says that the repeat gate was not run, and strict and depth points are withheld for it."""
    summary = smoke.record(smoke.study("smoke") / "summary.json")
    assert summary["simulated"] is False
    assert summary["lossless_claim"] is False
    page = (smoke.study("smoke") / "page/index.html").read_text(encoding="utf-8")
    assert "no lossless claim" in page.lower()
    for point in summary["points"]:
        if point["workload"] != "ladder":
            assert point["state"] == "withheld"


def test_the_server_was_the_one_asked_for(smoke: Checkout) -> None:
    """Every argument and variable was found again in the running vLLM, by its own configuration line too, and canaries passed on one boot."""
    for folder in smoke.study("smoke").glob("sessions/*"):
        server = smoke.record(folder / "server.json")
        assert server["launch"]["engine"] == "vllm"
        assert len(server["knobs"]) > 8
        assert all(k["ok"] for k in server["knobs"])
        for when in ("before", "after"):
            canary = smoke.record(folder / f"canary_{when}.json")
            assert (canary["status"], canary["boot"]) == ("passed", server["boot"])
        assert smoke.record(folder / "closed.json")["sound"] is True
        assert not (folder / "cache").exists()


def test_counters_of_the_server_agree_with_the_client(smoke: Checkout) -> None:
    """Tokens by the server's own counter equal those received; drafts are counted on the draft arm, and only there."""
    base, draft = arms(smoke)
    for arm in (base, draft):
        judged = smoke.record(smoke.study("smoke") / f"accepted/{arm}.a/ladder/c4.json")
        assert (
            judged["counters"]["generation_tokens"]
            == sum(len(r["token_ids"]) for r in judged["requests"])
            == 64 * (4 + 8)
        )
        assert (judged["counters"]["drafts"] is not None) == (arm == draft)
        medians = [r["step_median_ns"] for r in judged["requests"]]
        assert statistics.median(medians) > 0


def test_everything_recomputes(smoke: Checkout, tmp_path: Path) -> None:
    """`rungproof verify` recomputes records, verdicts and points from raw bytes, and finds a changed token and a changed number."""
    study = smoke.study("smoke")
    good = {"L0": "not checked", "L1": "not checked", "L2": "ok", "L3": "ok", "L4": "ok"}  # a results folder is no pack
    assert verify.levels(study) == good
    copy = tmp_path / "smoke"
    shutil.copytree(study, copy)
    path = next(copy.glob("sessions/*/judged/ladder.c2.json"))
    record: Any = json.loads(path.read_text(encoding="utf-8"))
    record["requests"][0]["token_ids"][5] += 1
    path.write_text(json.dumps(record), encoding="utf-8")
    assert "ladder.c2.json" in verify.levels(copy)["L2"]
    shutil.copy(study / path.relative_to(copy), path)
    assert verify.levels(copy) == good
    summary: Any = json.loads((copy / "summary.json").read_text(encoding="utf-8"))
    summary["points"][-1]["value"] *= 1.01
    (copy / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    assert "summary.json" in verify.levels(copy)["L2"]


def test_the_same_call_again_measures_nothing(smoke: Checkout) -> None:
    """Withheld points are results: the second call starts no server."""
    before = smoke.records("smoke")
    call = smoke.run("smoke", "--cores", "1", "--config", BUILD)
    assert call.returncode == 0
    assert "Nothing to be done" in call.stdout
    assert smoke.records("smoke") == before


def test_every_token_is_what_the_weights_give_and_an_altered_one_is_not(
    smoke: Checkout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One answer of each item through the real checkpoint: likeliest or a near tie; with another id in one place it fails."""
    base = arms(smoke)[0]
    call = ["--tokens", "--json", "--build", str(ROOT / "build"), "--arm", base, "--sample", "1"]
    assert main(["verify", str(smoke.study("smoke")), *call]) == 0
    looked_at = json.loads(capsys.readouterr().out)
    (arm,) = looked_at["arms"]
    assert arm["likeliest"] > 0.95 * arm["tokens"] > 0
    one = next(row for row in looked_at["answers"] if "/strict/" in row["item"])
    study = tmp_path / "smoke"
    shutil.copytree(smoke.study("smoke"), study)
    session = smoke.record(study / "accepted" / f"{one['item']}.json")["session"]
    alter(study, session, "strict.suite", one["batch"], 10)
    assert main(["verify", str(study), *call]) == 1
    failed = [row for row in json.loads(capsys.readouterr().out)["answers"] if row["state"] == "failed"]
    assert one["batch"] in [row["batch"] for row in failed]
    assert failed[0]["worst"] > 0.5


def test_weights_and_an_environment_of_ones_own_serve_and_travel_in_the_pack(smoke: Checkout, tmp_path: Path) -> None:
    """What rungproof made for the smoke campaign, taken as a user's own: described by hashes, served, judged by the raw tokens,
    published with its lists, and no path of this machine in plan or records."""
    arm = next(a for a in smoke.record(smoke.study("smoke") / "plan.json")["arms"] if a["name"] == arms(smoke)[0])
    at = {"--root": smoke.folder, "--build": smoke.folder / "build"}
    place = [str(word) for pair in at.items() for word in pair]
    weights = ROOT / f"build/models/{arm['model']}-{arm['launch']['model_sha256'][:12]}"
    venv = ROOT / f"build/envs/{arm['environment']}-{arm['launch']['environment_sha256'][:12]}"
    said = ["--licence", "Apache-2.0", "--quantisation", "as made for the smoke campaign"]
    assert main(["model", "add", "mine", str(weights), *said, *place]) == 0
    assert main(["env", "add", "own", str(venv), *place]) == 0
    config = smoke.folder / "config"
    lane = yaml.safe_load((config / f"lanes/{arm['lane']}.yaml").read_text()) | {"model": "mine", "environment": "own"}
    (config / "lanes/mine.yaml").write_text(yaml.safe_dump(lane))
    campaign = {**LADDER, "host": "cpu", "arms": {"base": {"title": "Mine", "lane": "mine"}}}
    campaign["workloads"] = {"ladder": {**LADDER["workloads"]["ladder"], "rungs": [1, 2]}}
    (config / "campaigns/mine.yaml").write_text(yaml.safe_dump(campaign))
    call = smoke.run("mine", "--cores", "1", timeout=900)
    assert call.returncode == 0, call.stdout[-5000:]
    study = smoke.study("mine")
    (server,) = (smoke.record(path) for path in study.glob("sessions/*/server.json"))
    assert server["identity"]["model"]["recipe"] == "files"
    made = smoke.record(weights / "manifest.json")["files"]
    assert {name: server["identity"]["model"]["files"][name] for name in made} == made
    for path in (study / "plan.json", *study.glob("sessions/*/server.json"), *study.glob("sessions/*/env.json")):
        assert str(ROOT) not in path.read_text(encoding="utf-8")
    points = smoke.points("mine")
    for c in (1, 2):
        raw = raw_of(smoke, "base.a", f"ladder.c{c}", "mine")
        truth = {key: ids for name, of in raw.items() if name.startswith("oracle-") for key, (ids, _) in of.items()}
        exact = [sum(ids == truth[key] for key, (ids, _) in raw[name].items()) for name in ("pass-1", "pass-2")]
        assert points[f"base/ladder/c{c}/aggregate"]["detail"]["passes_exact"] == [[k, c] for k in exact]
    assert smoke.run("publish", "--cores", "1", "--config", "campaign=mine", "sign=no").returncode == 0
    (pack,) = (path for path in (smoke.folder / "reports/mine").iterdir() if path.is_dir())
    for name in ("config/models/mine.sha256", "config/models/mine.yaml", "envs/own.packages"):
        assert (pack / "plan/inputs" / name).read_bytes() == (smoke.folder / name).read_bytes()
    found = verify.levels(pack)
    assert [found[level] for level in ("L0", "L2", "L3", "L4")] == ["ok"] * 4
