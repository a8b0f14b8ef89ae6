"""A fresh copy of this project in a folder of its own, with small campaigns, and Snakemake run in it as a user would."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from rungproof.measure.serving.procfs import process

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("Snakefile", "workflow", "profiles", "config", "envs", "src")
MINI: dict[str, Any] = {
    "title": "Mini campaign of the tests",
    "purpose": "Small enough for a test.",
    "host": "simulated",
    "canary": "canary-v1",
    "arms": {
        "base": {"title": "Base", "lane": "smollm2-w4a16", "arguments": {"fork-child": True}},
        "draft": {
            "title": "Draft 3",
            "lane": "smollm2-w4a16",
            "oracle": "base",
            "speculation": {"method": "ngram", "depth": 3, "prompt_lookup_max": 4, "prompt_lookup_min": 2},
        },
    },
    "workloads": {
        "strict": {"kind": "strict", "suite": "strict-v1", "cap": 48, "window": 32},
        "depth": {"kind": "depth", "suite": "long-v1", "depths": [64, 128], "tokens": 48, "window": 32},
        "ladder": {"kind": "ladder", "suite": "ladder-v1", "rungs": [1, 2, 4], "passes": 2, "tokens": 48, "window": 32},
    },
    "sessions": [
        {"arm": "base", "replicate": "a", "workloads": ["strict", "depth", "ladder"]},
        {"arm": "base", "replicate": "b", "workloads": ["strict", "depth"]},
        {"arm": "draft", "replicate": "a", "workloads": ["strict", "depth", "ladder"]},
        {"arm": "draft", "replicate": "b", "workloads": ["strict"]},
    ],
}
LADDER: dict[str, Any] = {
    **MINI,
    "arms": {"base": MINI["arms"]["base"]},
    "workloads": {"ladder": MINI["workloads"]["ladder"]},
    "sessions": [{"arm": "base", "replicate": "a", "workloads": ["ladder"]}],
}


class Checkout:
    """One copy of the project; `campaigns` are written into its config."""

    def __init__(self, folder: Path, campaigns: dict[str, dict[str, Any]]) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, folder / name)
        for name, campaign in campaigns.items():
            (folder / f"config/campaigns/{name}.yaml").write_text(
                yaml.safe_dump(campaign, sort_keys=False), encoding="utf-8"
            )
        self.faults = folder / "faults.json"
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(folder / "src"),
            "RUNGPROOF_LOCK_DIR": str(folder),
            "RUNGPROOF_SIM_FAULTS": str(self.faults),
        }
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def set_faults(self, *faults: dict[str, Any]) -> None:
        """Faults of the simulated server from now on; none: all taken away."""
        self.faults.write_text(json.dumps(list(faults)), encoding="utf-8")

    def command(self, *words: str) -> list[str]:
        """The command line of one call of Snakemake; with two cores unless `words` say otherwise, for what is not measured."""
        cores = () if "--cores" in words else ("--cores", "2")
        return [sys.executable, "-m", "snakemake", *words, *cores]

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start Snakemake in a process group of its own, as a terminal does."""
        out = (self.folder / "snakemake.out").open("w")
        return subprocess.Popen(
            self.command(*words),
            cwd=self.folder,
            env=self.environment,
            stdout=out,
            stderr=out,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str, timeout: float = 900) -> "subprocess.CompletedProcess[str]":
        """One whole call; its output in stdout."""
        return subprocess.run(
            self.command(*words),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
        )

    def study(self, campaign: str) -> Path:
        """Results folder of a campaign."""
        return self.folder / "results" / campaign

    def record(self, path: Path) -> Any:
        """One JSON record."""
        return json.loads(path.read_text(encoding="utf-8"))

    def records(self, campaign: str) -> dict[str, bytes]:
        """Every attempt record and raw file of every session, by path."""
        study = self.study(campaign)
        return {
            str(p.relative_to(study)): p.read_bytes()
            for p in sorted(study.glob("sessions/*/attempts/*"))
            if not p.name.startswith(".")
        }

    def points(self, campaign: str) -> dict[str, Any]:
        """Points of the summary by id."""
        return {p["id"]: p for p in self.record(self.study(campaign) / "summary.json")["points"]}

    def processes(self) -> list[tuple[int, str]]:
        """Every process, zombies left out, whose command line or variables name this checkout."""
        mark = str(self.folder).encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                line, variables = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
            except OSError:  # it ended between two reads
                continue
            seen = process(int(entry.name))
            if (mark in line or mark in variables) and seen is not None and not seen.gone:
                found.append((seen.pid, line.replace(b"\0", b" ").decode(errors="replace")[:200]))
        return found


def wait_for(what: Callable[[], Any], seconds: float, why: str) -> Any:
    """Poll until `what` is true; AssertionError names `why` at the deadline."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = what()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {why}")


def left_over(checkout: Checkout, seconds: float = 60.0) -> list[tuple[int, str]]:
    """Processes of the checkout that still run after so long: a supervisor whose call was killed has its session to close."""
    end = time.monotonic() + seconds
    while (found := checkout.processes()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def end_all(checkout: Checkout) -> None:
    """End what a failed test may have left, by pid."""
    for pid, _ in checkout.processes():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
