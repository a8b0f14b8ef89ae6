"""A helper process of the simulated server, as real engines have: same process group, outlives its parent.

When the parent shuts down properly it tells the helper to end; when the parent is killed, nobody does, and the
helper stays, which is what supervisors must cope with. It ends by itself ORPHAN_S seconds after its parent's death,
so that a test that fails to find it leaves nothing on a machine for good.
"""

import os
import signal
import time
from collections.abc import Callable

ORPHAN_S = 600


def fork_child(ignore_sigterm: bool) -> Callable[[], None]:
    """Fork the helper; the function returned tells it to end. Call it before any thread or event loop exists."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(write_end)
        signal.signal(signal.SIGTERM, signal.SIG_IGN if ignore_sigterm else signal.SIG_DFL)
        if not os.read(read_end, 1):
            time.sleep(ORPHAN_S)
        os._exit(0)
    os.close(read_end)

    def end() -> None:
        try:
            os.write(write_end, b"e")
            os.waitpid(pid, 0)
        except (BrokenPipeError, ChildProcessError):
            return
        finally:
            os.close(write_end)

    return end
