"""The kernel's log from a moment on: lines that mean a fault of a device. Reading it may need root."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

KMSG = Path("/dev/kmsg")
MOST = 4096  # records that are read at one look


class KernelWatch:
    """Reads new records. Raises re.error for a bad pattern, OSError where there are patterns and the log cannot be read."""

    def __init__(self, patterns: Sequence[str], path: Path = KMSG) -> None:
        self._patterns = [re.compile(pattern) for pattern in patterns]
        self._handle: int | None = None
        if self._patterns:
            self._handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._handle, 0, os.SEEK_END)

    def fault(self) -> str | None:
        """The first new record that matches."""
        for _ in range(MOST if self._handle is not None else 0):
            record = self._record()
            if not record:
                return None
            for line in record.splitlines():
                head, mark, words = line.partition(";")
                # A record is "level,number,time,flags;words"; lines that begin with a space belong to the one before.
                if mark and not head.startswith(" ") and any(pattern.search(words) for pattern in self._patterns):
                    return words.strip()[:1000]
        return None

    def _record(self) -> str:
        assert self._handle is not None
        while True:
            try:
                return os.read(self._handle, 8192).decode("utf-8", "replace")
            except BrokenPipeError:  # records were overwritten before we read them; the next one is whole
                continue
            except OSError:  # nothing new
                return ""

    def close(self) -> None:
        """Close the log."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
