"""The frame of every job: its log, its owner, and its end when the owner is gone. Light to import, since every rule pays for it."""

import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from rungproof.measure.serving.procfs import alive, owner_of
from rungproof.measure.terminal import aloud
from rungproof.records.codec import canonical
from rungproof.records.errors import HostError, RungproofError
from rungproof.records.files import write_atomic

OWNER_EVERY_S = 0.3


def owner() -> tuple[int, int]:
    """The snakemake process that the user started: pid and start time, handed down in RUNGPROOF_OWNER. Raises HostError without it."""
    text = os.environ.get("RUNGPROOF_OWNER", "")
    try:
        pid, start = text.split(":")
        return int(pid), int(start)
    except ValueError as error:
        raise HostError(
            f"RUNGPROOF_OWNER is {text!r}; expected pid:start. Jobs are started by snakemake, not by hand."
        ) from error


@contextmanager
def job(log: str, session: Path | None = None) -> Iterator[None]:
    """A job of one rule: everything printed goes to `log`; the process ends at once when its snakemake is gone.

    `session`: the folder in which this job is registered as the one that is measuring.
    """
    pid, start = owner()
    out = _open_log(Path(log))
    held = sys.stdout, sys.stderr
    sys.stdout = sys.stderr = out
    registered = session / "control/job.json" if session else None
    try:
        threading.Thread(target=_leave_with, args=(pid, start), daemon=True).start()
        if registered:
            me = owner_of(os.getpid())
            write_atomic(registered, canonical({"pid": me[0], "start": me[1]}))
        yield
    except RungproofError as error:
        aloud(f"{error}")
        sys.exit(1)  # said in full: a traceback would add nothing
    except BaseException as error:
        aloud(f"{type(error).__name__}: {error} (a fault of rungproof itself; {log} and Snakemake's log say where)")
        with suppress(OSError):
            traceback.print_exc(file=out)
        raise
    finally:
        if registered:
            registered.unlink(missing_ok=True)
        sys.stdout, sys.stderr = held
        with suppress(OSError):  # a full disk must not fail a job whose record is written
            out.close()


def _open_log(log: Path) -> TextIO:
    """The log, or nothing at all where the disk refuses it."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        return log.open("w", encoding="utf-8", buffering=1)
    except OSError:
        return open(os.devnull, "w", encoding="utf-8")


def _leave_with(pid: int, start: int) -> None:
    while alive(pid, start):
        time.sleep(OWNER_EVERY_S)
    os._exit(75)
