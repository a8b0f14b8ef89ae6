"""How a process ended, in words, and whether the kernel says it was killed for memory."""

import os
import signal
from pathlib import Path


def describe(status: int) -> str:
    """A wait status in words: "exit code 3", "killed by SIGKILL"."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def oom_kills(root: Path = Path("/")) -> int | None:
    """How many processes the kernel has killed for memory since boot; None where it does not say."""
    try:
        lines = (root / "proc/vmstat").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.isdecimal():
            return int(value)
    return None


def kernel_says(pid: int, root: Path = Path("/")) -> str:
    """The kernel's line that it killed this pid for memory; "" where there is none or its log is not readable."""
    try:
        handle = os.open(root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return ""
    found = ""
    try:
        while record := _record(handle):
            if f"Killed process {pid} " in record:
                found = record.partition(";")[2].strip()
    finally:
        os.close(handle)
    return found


def _record(handle: int) -> str:
    while True:
        try:
            return os.read(handle, 8192).decode("utf-8", "replace")
        except BrokenPipeError:  # this record was overwritten while we read; the next one is whole
            continue
        except OSError:
            return ""


def cause(status: int, pid: int, oom_before: int | None) -> str:
    """`describe`, and out of memory where the kernel says so. `oom_before`: `oom_kills` when the server started."""
    text = describe(status)
    if line := kernel_says(pid):
        return f"{text}; out of memory: {line}"
    after = oom_kills()
    if oom_before is not None and after is not None and after > oom_before:
        return f"{text}; the kernel killed {after - oom_before} process(es) of this host for memory meanwhile"
    return text
