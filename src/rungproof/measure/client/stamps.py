"""The kernel's receive stamps, on before the first byte of a batch can come.

Linux stamps packets only while some socket asks for it, and switches that on and off in a work item of its own: on a busy
machine milliseconds after the first socket asked, later than the first byte of a quick answer, which then has no stamp.
So this process keeps one socket that asks, and before a batch it looks whether stamps come.
"""

import socket
import time
from contextlib import suppress

from rungproof.measure.client.stream import read_stamped, stamp_receives

PATIENCE_S = 0.5
EVERY_S = 0.001


class _Keeper:
    """A connection of this process to itself whose receiving end asks for stamps, for as long as the process lives."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._sends = socket.create_connection(listener.getsockname())
            self._receives, _ = listener.accept()
        self._receives.settimeout(PATIENCE_S)
        stamp_receives(self._receives)

    def stamped(self) -> bool:
        """Whether a byte sent now has a stamp when it arrives. Raises OSError."""
        self._sends.send(b".")
        return read_stamped(self._receives)[1] is not None


_kept: list[_Keeper] = []


def switch_on() -> bool:
    """Whether the kernel stamps what is received; waits for it for PATIENCE_S at most. Nothing is raised where it cannot."""
    with suppress(OSError):
        if not _kept:
            _kept.append(_Keeper())
        deadline = time.monotonic() + PATIENCE_S
        while not _kept[0].stamped():
            if time.monotonic() >= deadline:
                return False
            time.sleep(EVERY_S)
        return True
    return False
