"""A part of a command in a process of its own: whatever a stranger's file does to a library there, this process tells it."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

import rungproof
from rungproof.measure.serving.launch.process import end_with_parent
from rungproof.records.errors import EvidenceError


def call(module: str, words: Sequence[str], most_s: float) -> int:
    """Run a module of ours and print its lines as they come; returns its exit code. It ends with this process.

    Raises EvidenceError where a signal ended it: a limit of the system, a library that crashed, or this one after `most_s` seconds.
    """
    variables = dict(os.environ, PYTHONUNBUFFERED="1", PYTHONIOENCODING="utf-8:backslashreplace")
    here = str(Path(rungproof.__file__).parents[1])
    variables["PYTHONPATH"] = os.pathsep.join([here, *filter(None, [variables.get("PYTHONPATH", "")])])
    command = [sys.executable, "-P", "-m", module, *words]  # -P: the folder that it is called in may be a stranger's
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=variables,
            preexec_fn=end_with_parent,
            text=True,
            encoding="utf-8",
        ) as child,
    ):
        late = threading.Timer(most_s, child.kill)
        late.daemon = True
        late.start()
        try:
            for line in child.stdout or ():
                print(line, end="", flush=True)
            code = child.wait()
        finally:
            late.cancel()
        errors.seek(0)
        print(errors.read().decode("utf-8", "replace"), end="", file=sys.stderr)
    if code < 0:
        raise EvidenceError(
            f"{module} was ended by {signal.Signals(-code).name} ({signal.strsignal(-code)}): out of memory or of its {most_s:g} s, or a "
            "library crashed on what it read. Nothing was found sound; refused"
        )
    return code
