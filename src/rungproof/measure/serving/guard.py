"""The second watcher: ends the server's processes when the supervisor was killed and they do not end by themselves.

The parent-death signal already gives the server a SIGTERM then; this is for one that ignores it and for children that
outlive it. It holds the host's lock with the supervisor, so that no other campaign begins before the end.

    python -m rungproof.measure.serving.guard FOLDER SUPERVISOR_PID SUPERVISOR_START GRACE_S
"""

import os
import sys
import time
from pathlib import Path

from rungproof.measure.serving import procfs, tree
from rungproof.measure.serving.launch import container
from rungproof.measure.serving.order import Places
from rungproof.records.codec import canonical
from rungproof.records.errors import HostError
from rungproof.records.files import write_atomic

EVERY_S = 0.3


def watch(places: Places, tracker: tree.Tracker) -> bool:
    """Keep control/tree.json fresh while the supervisor lives. True: it is gone and has not closed the session."""
    me = procfs.owner_of(os.getpid())
    recorded = False
    while True:
        if tracker.look() or not recorded:
            members = [(found.pid, found.start, found.name) for found in tracker.known.values()]
            recorded = _record(places, tracker.supervisor, me, members)
        if places.closed.exists():
            return False
        if not procfs.alive(*tracker.supervisor):
            return not places.closed.exists()
        time.sleep(EVERY_S)


def finish(places: Places, tracker: tree.Tracker, grace_s: float) -> None:
    """Give the tree its grace, end what is left, write control/guard.json."""

    def left() -> list[procfs.Process]:
        tracker.look()
        return tracker.alive()

    tree.wait_gone(left, min(grace_s, tree.LONGEST_GRACE_S))
    container.remove(places)  # its processes may be no descendants of ours; nothing to do for a server without one
    told, still = tree.end_all(left, 0.0)
    found = {"ended": sorted(told.values()), "left": [[one.pid, one.start, one.name] for one in still]}
    write_atomic(places.guard, canonical(found))


def _record(places: Places, supervisor: tree.Pair, me: tree.Pair, members: list[tuple[int, int, str]]) -> bool:
    try:
        tree.record(places.tree, supervisor, me, members)
    except HostError as error:  # a full disk must not end the guard
        print(f"guard: {error}", file=sys.stderr, flush=True)
        return False
    return True


def main(arguments: list[str]) -> int:
    """Watch until the supervisor's end, whichever it is."""
    folder, pid, start, grace = arguments
    places = Places(Path(folder))
    tracker = tree.Tracker((int(pid), int(start)))
    if watch(places, tracker):
        finish(places, tracker, float(grace))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
