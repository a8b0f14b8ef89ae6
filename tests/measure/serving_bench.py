"""One session folder on a simulated server, for the tests of its life; it fails the test that leaves a process."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rungproof.measure import serving
from rungproof.measure.serving import Order, procfs, tree
from rungproof.records.formats import Closed, Server

SAMPLING = {
    "temperature": 0.0,
    "seed": 42,
    "stream": True,
    "stream_options": {"include_usage": True},
    "return_token_ids": True,
}
CHECK = {"id": "same", "kind": "repeat8", "prompt": "Count to ten.", "max_tokens": 8, "expect": ""}


def until(holds: Callable[[], Any], seconds: float = 90.0) -> None:
    """Wait for a condition; fail with a message that names it."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not so within {seconds} s"
        time.sleep(0.02)


def mentioning(text: str) -> list[str]:
    """Living processes whose command or environment mentions `text`, but not this one."""
    found = []
    for pid, one in procfs.table().items():
        words = (*(procfs.command_line(pid) or ()), *(procfs.variables(pid) or {}).values())
        if pid != os.getpid() and not one.gone and any(text in word for word in words):
            found.append(f"{pid} {one.name} {words[:3]}")
    return found


class Bench:
    """One session folder and the order for it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.folder = root, root / "r001.base.a"
        self.faults = root / "faults.json"
        monkeypatch.setenv("RUNGPROOF_SIM_FAULTS", str(self.faults))
        self.helpers: list[subprocess.Popen[bytes]] = []
        pid, start = serving.owner_of(os.getpid())
        self.order = Order(
            session="r001.base.a",
            campaign="try",
            arm="base",
            replicate="a",
            launch={
                "engine": "simulated",
                "model": "m",
                "arguments": {"start-s": 0.05, "token-ms": 0.1},
                "variables": {},
            },
            launch_sha256="0" * 64,
            python=sys.executable,
            model_path="",
            model_identity={"name": "m"},
            port=0,
            ready_deadline_s=90.0,  # a machine may be slow; a test in which it passes sets another
            stop_grace_s=1.0,
            lock=str(root / "host.lock"),
            owner_pid=pid,
            owner_start=start,
            canary={"sampling": SAMPLING, "checks": [CHECK], "deadline_s": 60.0, "idle_s": 30.0},
            fault_lines=("^FAULT: ",),
        )

    def asking(self, **arguments: Any) -> Order:
        """The order with further server arguments, `_` for `-`."""
        more = {key.replace("_", "-"): value for key, value in arguments.items()}
        return replace(self.order, launch={**self.order.launch, "arguments": {**self.order.arguments, **more}})

    def helper(self) -> tuple[subprocess.Popen[bytes], tuple[int, int]]:
        """A process that does nothing for longer than any test."""
        made = subprocess.Popen(["sleep", "3600"])
        self.helpers.append(made)
        return made, serving.owner_of(made.pid)

    def start(self, order: Order | None = None) -> Server:
        return serving.start(self.folder, order or self.order)

    def fault(self, **what: Any) -> None:
        self.faults.write_text(json.dumps([what]))

    def closed(self) -> Closed:
        until((self.folder / "closed.json").exists)
        return serving.stop(self.folder)

    def listed(self) -> tree.Recorded:
        held = tree.recorded(self.folder / "control/tree.json")
        assert held is not None
        return held

    def guarded(self, processes: int = 1) -> tree.Recorded:
        """The list of processes once the guard has written it with so many in it."""
        until(lambda: self.listed().guard is not None and len(self.listed().processes) >= processes)
        return self.listed()


def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A fixture to be: a bench that is cleaned, and that fails the test that left a process."""
    made = Bench(tmp_path, monkeypatch)
    yield made
    if (made.folder / "control/order.json").exists():
        serving.stop(made.folder)
    for helper in made.helpers:
        helper.kill()
        helper.wait()
    until(lambda: not mentioning(str(tmp_path)))


def whats(record: Server | Closed) -> list[str]:
    return [reason.what for reason in record.reasons]
