"""A pack is a valid RO-Crate, by a validator that reaches no network."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rungproof.publish.pack import Pack

ROOT = Path(__file__).resolve().parents[2]
PYTHON = Path(os.environ.get("RUNGPROOF_CRATE_PYTHON", ROOT / "build/crate/bin/python"))
PROFILES = ("ro-crate-1.1", "process-run-crate-0.5")
METADATA = "ro-crate-metadata.json"
needed = pytest.mark.skipif(not PYTHON.exists(), reason=f"no {PYTHON}: `make build/crate/.ready` makes it")


def validated(folder: Path) -> "subprocess.CompletedProcess[str]":
    """The validator's word, in its own environment."""
    script = ROOT / "tests/publish/crate_check.py"
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(PYTHON), "-I", str(script), str(folder), *PROFILES],
        capture_output=True,
        text=True,
        timeout=900,
        env=variables,
    )


@needed
def test_the_validator_accepts_a_pack(pack: Pack) -> None:
    """Both profiles, every required check, the network off."""
    call = validated(pack.folder)
    assert call.returncode == 0, call.stdout + call.stderr
    assert [line.rpartition(" ")[2] for line in call.stdout.splitlines()] == ["valid", "valid"]


@needed
def test_the_validator_refuses_a_broken_one(pack: Pack, tmp_path: Path) -> None:
    """Without a licence, and with a file that is not there: the check is seen to fail."""
    shutil.copytree(pack.folder, tmp_path / "pack")
    path = tmp_path / "pack" / METADATA
    value = json.loads(path.read_text())
    root = next(one for one in value["@graph"] if one["@id"] == "./")
    del root["datePublished"]
    path.write_text(json.dumps(value))
    assert validated(tmp_path / "pack").returncode == 1


def test_the_crate_names_every_file_and_every_session(pack: Pack) -> None:
    """What the manifest lists is in it, but itself; every server is an action with its engine, start, plan and raw files."""
    graph = {one["@id"]: one for one in json.loads((pack.folder / METADATA).read_text())["@graph"]}
    listed = {line.split("  ", 1)[1] for line in (pack.folder / "MANIFEST.sha256").read_text().splitlines()}
    assert listed - {METADATA} <= set(graph) and METADATA in listed
    for path in listed - {METADATA}:
        assert graph[path]["contentSize"] == str((pack.folder / path).stat().st_size)
    summary = json.loads((pack.folder / "summary.json").read_text())
    for session in summary["sessions"]:
        action = graph[f"#{session['session']}"]
        assert action["startTime"] == session["at"] and action["instrument"]["@id"] in graph
        assert action["object"] == [{"@id": "runs/r001/campaign.lock.json"}]
        assert {"@id": f"sessions/{session['session']}/server.json"} in action["result"]
    assert all(reference["@id"] in graph for reference in graph["./"]["hasPart"] + graph["./"]["mentions"])
