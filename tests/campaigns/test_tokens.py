"""`rungproof verify --tokens` over a whole results folder: which answers it looks at, by which weights, and what it makes of one that
was altered. The interpreter is a stand-in that knows the answers; the real one is in test_real.py."""

import gzip
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from rungproof.cli import main
from rungproof.records.codec import canonical, sha256

STAND_IN = """#!{python}
import json, pathlib, sys
asked = dict(zip(sys.argv[3::2], sys.argv[4::2]))
known = dict(map(tuple, json.loads(pathlib.Path(asked["--model"], "answers.json").read_text())))
made = {{}}
for one in json.loads(pathlib.Path(asked["--samples"]).read_text()):
    truth = known[json.dumps(one["prompt"])]
    gaps = [0.0 if i < len(truth) and truth[i] == t else 7.5 for i, t in enumerate(one["token_ids"])]
    length = len(one["prompt"]) if isinstance(one["prompt"], list) else None
    made[one["id"]] = {{"prompt_tokens": length or one.get("prompt_tokens") or {counts}[one["prompt"]], "gaps": gaps}}
pathlib.Path(asked["--to"]).write_text(json.dumps(made))
"""


def answers(study: Path) -> list[tuple[str, list[int], int]]:
    """(prompt as JSON, token ids, prompt tokens) of every request, from judged records and raw bodies read by other code."""
    found = []
    for judged in study.glob("sessions/*.base.*/judged/*.json"):
        raw = judged.parents[1] / "attempts" / f"{judged.stem}.raw.jsonl.gz"
        lines = map(json.loads, gzip.decompress(raw.read_bytes()).decode().splitlines())
        prompts = {
            (x["batch"], x["key"]): json.loads(x["body"].encode("latin-1"))["prompt"]
            for x in lines
            if x["kind"] == "request"
        }
        for r in json.loads(judged.read_text())["requests"]:
            found.append((json.dumps(prompts[(r["batch"], r["key"])]), r["token_ids"], r["prompt_tokens"]))
    return found


@pytest.fixture(scope="module")
def forged(honest: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(results folder, build folder): a simulated campaign passed off as that of a model, with that model and a stand-in."""
    home = tmp_path_factory.mktemp("tokens")
    study, build = home / "mini", home / "build"
    shutil.copytree(honest, study)
    plan = json.loads((study / "plan.json").read_text())
    plan["simulated"] = False
    (study / "plan.json").write_bytes(canonical(plan))
    launch = plan["arms"][0]["launch"]
    model = build / "models" / f"{launch['model']}-simulated"
    model.mkdir(parents=True)
    rows = answers(study)
    # The rung of four was made to differ on purpose; what its one-at-a-time pass gave is the truth.
    truth: dict[str, list[int]] = {}
    for prompt, ids, _ in rows:
        truth.setdefault(prompt, ids)
    (model / "answers.json").write_text(json.dumps(list(truth.items())))
    files = {"answers.json": sha256((model / "answers.json").read_bytes())}
    (model / "manifest.json").write_bytes(
        canonical(
            {"format": "rungproof.model/1", "name": "m", "recipe": "r", "recipe_sha256": "simulated", "files": files}
        )
    )
    for path in study.glob("sessions/*/server.json"):
        server = json.loads(path.read_text())
        server["identity"]["model"] = {"files": files}
        path.write_bytes(canonical(server))
    python = build / "envs" / f"{launch['environment']}-simulated" / "bin/python"
    python.parent.mkdir(parents=True)
    counts = {json.loads(prompt): count for prompt, _, count in rows if prompt.startswith('"')}
    python.write_text(STAND_IN.format(python=sys.executable, counts=repr(counts)))
    os.chmod(python, 0o755)
    return study, build


def call(study: Path, build: Path, *words: str) -> int:
    """One call, on the arm without drafts."""
    return main(["verify", str(study), "--tokens", "--build", str(build), "--arm", "base", *words])


def alter(study: Path, session: str, item: str, batch: str, at: int) -> None:
    """Another id in the place of one token of an answer, with every digest that holds the raw file made to fit."""
    attempt = study / f"sessions/{session}/attempts/{item}.json"
    raw = attempt.with_name(f"{item}.raw.jsonl.gz")
    lines = [json.loads(line) for line in gzip.decompress(raw.read_bytes()).decode().splitlines()]
    for line in lines:
        if line["kind"] == "request" and line["batch"] == batch:
            parts = line["bytes"].split('"token_ids":[')
            spot = next(i for i, part in enumerate(parts) if i > at and part[:1].isdigit())
            old = parts[spot].split("]")[0].split(",")[0]
            new = str(int(old) + 1).rjust(len(old), "1")[: len(old)]  # of the same length, so that all framing stays
            parts[spot] = new + parts[spot][len(old) :]
            line["bytes"] = '"token_ids":['.join(parts)
    raw.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode(), mtime=0))
    record: dict[str, Any] = json.loads(attempt.read_text())
    record["raw"]["sha256"] = sha256(raw.read_bytes())
    attempt.write_bytes(canonical(record))


def test_answers_that_their_weights_give_pass(
    forged: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sample of each item by default, equal answers once, and counts that add up."""
    study = tmp_path / "mini"
    shutil.copytree(
        forged[0], study, ignore=shutil.ignore_patterns("ladder.c4.*")
    )  # without the rung that was made to differ
    assert call(study, forged[1], "--json") == 0
    (arm,) = json.loads(capsys.readouterr().out)["arms"]
    assert arm["arm"] == "base"
    assert arm["answers"] < arm["requests"]
    assert arm["skipped"] > 0
    assert arm["tokens"] == arm["likeliest"] > 0


def test_every_request_shows_the_rung_that_was_made_to_differ(
    forged: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """With --all nothing is left out, so the flipped token of the rung of four is found; it dies of its gap."""
    assert call(*forged, "--all") == 1
    said = capsys.readouterr()
    assert "FAILED: base.a/ladder/c4" in said.err
    assert "7.500 logits" in said.err


def test_one_altered_answer_fails(
    forged: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plausible id in one place of one answer, with its digests made to fit."""
    study = tmp_path / "mini"
    shutil.copytree(forged[0], study)
    alter(study, "r001.base.a", "strict.suite", "strict-03", 20)
    assert call(study, forged[1], "--all", "--json") == 1
    rows = json.loads(capsys.readouterr().out)["answers"]
    failed = [r for r in rows if r["state"] == "failed" and r["item"] == "base.a/strict/suite"]
    assert [r["batch"] for r in failed] == ["strict-03"]
    assert failed[0]["beyond"] >= 1


def test_a_raw_file_that_is_not_the_attempts_is_refused(forged: tuple[Path, Path], tmp_path: Path) -> None:
    """Before any weights are loaded."""
    study = tmp_path / "mini"
    shutil.copytree(forged[0], study)
    raw = study / "sessions/r001.base.a/attempts/strict.suite.raw.jsonl.gz"
    raw.write_bytes(raw.read_bytes() + gzip.compress(b""))
    assert call(study, forged[1]) == 4


def test_other_weights_are_refused(
    forged: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model folder that is whole, but is not what the servers had."""
    study = tmp_path / "mini"
    shutil.copytree(forged[0], study)
    server = study / "sessions/r001.base.b/server.json"
    record = json.loads(server.read_text())
    record["identity"]["model"]["files"]["answers.json"] = "0" * 64
    server.write_bytes(canonical(record))
    assert call(study, forged[1]) == 4
    assert "not the weights that were measured" in capsys.readouterr().err


def test_what_cannot_be_looked_at_is_told(
    honest: Path, forged: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The simulated server has no weights, as a folder or in a zip; a model may not be made yet; an arm may be all too long."""
    assert main(["verify", str(honest), "--tokens"]) == 2
    zipped = shutil.make_archive(str(tmp_path / "zipped"), "zip", honest.parent, honest.name)
    assert main(["verify", zipped, "--tokens"]) == 2
    assert capsys.readouterr().err.count("the simulated server answered") == 2
    assert call(forged[0], tmp_path / "nowhere") == 5
    assert "--build" in capsys.readouterr().err
    assert call(*forged, "--positions", "1") == 1
    assert "no pass" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["environment", "model"])
def test_no_interpreter_and_no_weights_of_a_pack_are_used(
    forged: tuple[Path, Path], tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plan whose environment or model lies outside of the build folder, such as in the pack itself, is refused; nothing of it runs."""
    study, build = forged
    pack = shutil.copytree(study, tmp_path / "pack")
    plan = json.loads((pack / "plan.json").read_text())
    for arm in plan["arms"]:
        arm[name] = os.path.relpath(pack / "own", build / ("envs" if name == "environment" else "models"))
    (pack / "plan.json").write_bytes(canonical(plan))
    python = pack / "own-simulated/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    os.chmod(python, 0o755)
    assert call(pack, build) == 4
    assert "expected a name of letters" in capsys.readouterr().err and not (tmp_path / "ran").exists()
