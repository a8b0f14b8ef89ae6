"""What a job shows the person at the terminal: lines that stay, and where the campaign stands at this moment.

On a terminal the snakemake that the user started draws both (snakemake_logger_plugin_rungproof): jobs are other processes,
so they append records to the file named in RUNGPROOF_TERMINAL, one JSON object a line. Anywhere else there is no such file:
lines go to stderr, and what would be overwritten a moment later is left out.
"""

import json
import os
import sys
from contextlib import suppress
from typing import Any

from rungproof.records.text import clean_lines

CHANNEL = "RUNGPROOF_TERMINAL"


def aloud(text: str) -> None:
    """A line for the person at the terminal and for the job's log. Never raises: a closed terminal or a full disk must not
    turn a finished measurement into a failed job, whose record Snakemake would remove."""
    text = clean_lines(text)
    streams = [sys.stderr] if _draw({"line": text}) else list(dict.fromkeys((sys.stderr, sys.__stderr__)))
    for stream in streams:
        with suppress(OSError, ValueError):
            print(text, file=stream, flush=True)


def standing(session: str, step: str, **figures: Any) -> None:
    """Where the campaign stands: shown on a terminal until the next call, nowhere else. Never raises.

    figures: done, total (batches of this step); rate (tokens a second so far in it); share (0 to 1 of the whole call);
    left_s (seconds left of it). What is not given stays as it was.
    """
    _draw({"session": clean_lines(session), "step": clean_lines(step), **figures})


def _draw(record: dict[str, Any]) -> bool:
    """Whether the record reached the display."""
    path = os.environ.get(CHANNEL)
    if not path:
        return False
    try:
        to = os.open(path, os.O_WRONLY | os.O_APPEND)  # never made here: a display that is gone draws nothing
        try:
            data = (json.dumps(record) + "\n").encode()
            return os.write(to, data) == len(data)
        finally:
            os.close(to)
    except OSError:
        return False
