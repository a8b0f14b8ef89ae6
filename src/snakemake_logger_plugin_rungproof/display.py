"""The live line under the messages: campaign, server, what it does, how much is done, tokens a second, time left.

Jobs are other processes; they append JSON lines to the file named in RUNGPROOF_TERMINAL (rungproof.measure.terminal), and
this thread of the user's own Snakemake draws them. One process alone writes to the terminal that way.
"""

import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from rungproof.measure.terminal import CHANNEL

EVERY_S = 0.2


class _Figures(ProgressColumn):
    """Batches of the step, tokens a second in it, minutes left of the call; each only where it is known."""

    def render(self, task: Task) -> Text:
        at = task.fields["at"]
        parts = []
        if at.get("total"):
            parts.append(f"{at.get('done') or 0}/{at['total']}")
        if at.get("rate"):
            parts.append(f"{at['rate']:.0f} tok/s")
        if at.get("left_s"):
            parts.append(f"about {max(1, round(at['left_s'] / 60))} min left")
        return Text(", ".join(parts))


class Display:
    """Draws on `stream`, a terminal, whatever jobs append to a file in `folder`. Raises OSError where none can be made there."""

    def __init__(self, stream: TextIO, folder: Path) -> None:
        self.console = Console(file=stream, highlight=False, markup=False, emoji=False)
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"terminal.{os.getpid()}.jsonl"
        self._file = self.path.open("w+b")
        self._held = b""
        self._at: dict[str, Any] = {}
        self._live: Progress | None = None
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        os.environ[CHANNEL] = str(self.path.absolute())
        self._thread.start()

    def say(self, text: str) -> None:
        """A line that stays, above the live one."""
        with self._lock:
            self.console.print(Text(text), soft_wrap=True)

    def close(self) -> None:
        """Draw what is left, take the live line away and the file with it. May be called again."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._thread.join()
        self._read()
        if self._live:
            self._live.stop()
        os.environ.pop(CHANNEL, None)
        self._file.close()
        self.path.unlink(missing_ok=True)

    def _run(self) -> None:
        while not self._ended.wait(EVERY_S):
            self._read()

    def _read(self) -> None:
        *lines, self._held = (self._held + self._file.read()).split(b"\n")
        for line in lines:
            with suppress(ValueError):  # a job was killed while it wrote
                record = json.loads(line)
                if "line" in record:
                    self.say(record["line"])
                else:
                    self._show(record)

    def _show(self, record: dict[str, Any]) -> None:
        self._at.update(record)
        if self._live is None:
            columns = (TextColumn("{task.description}", markup=False), BarColumn(24), _Figures(), TimeElapsedColumn())
            self._live = Progress(*columns, console=self.console, transient=True)
            self._live.start()
            self.console.show_cursor(True)  # a killed Snakemake could not give a hidden one back
            self._live.add_task("", total=1.0, at=self._at)
        words = f"{self._at.get('session', '')} {self._at.get('step', '')}"
        self._live.update(self._live.task_ids[0], description=words, completed=float(self._at.get("share") or 0.0))
