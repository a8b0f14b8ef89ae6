"""L2 to L4 of a pack or a results folder, in their order; what a verifier calls."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from rungproof.judge.checks.attempts import check_attempts
from rungproof.judge.checks.found import Found, Level
from rungproof.judge.checks.page import check_pages
from rungproof.judge.checks.sense import check_sense
from rungproof.judge.checks.statements import check_statements
from rungproof.judge.checks.twins import check_twins
from rungproof.judge.evidence import Read
from rungproof.judge.recompute import recompute
from rungproof.records.codec import plain
from rungproof.records.errors import EvidenceError

MARKUP = (".html", ".svg")
KNOWN = (*MARKUP, ".csv", ".json", ".parquet")


def check(read: Read, names: Collection[str], proof: Mapping[str, Any] | None, upto: str) -> Found:
    """Everything up to that level. names: every file; proof: what L1 learnt (verify.Proof) of a pack, None of a results folder."""
    found = Found()
    try:
        again = recompute(read, names, found)
    except EvidenceError as error:
        found.fail("L2", str(error))
        return found
    summary = plain(again.summary)
    inside = {name.removeprefix("page/"): _bytes(read, name) for name in names if name.startswith("page/")}
    check_pages({f"page/{n}": data for n, data in sorted(inside.items()) if n.endswith(MARKUP)}, summary, found)
    check_twins({n: data for n, data in sorted(inside.items()) if n.endswith((".csv", ".json"))}, summary, found)
    for name in sorted(n for n in inside if not n.endswith(KNOWN) and n != "MANIFEST.sha256"):
        found.fail("L2", f"page/{name}: not a file of a page, so nobody has checked it")
    if proof is not None:
        _kept(lambda: check_statements(read, again, proof, found), "L2", found)
    if upto >= "L4":
        _kept(lambda: check_sense(read, names, again, found), "L4", found)
        _kept(lambda: check_attempts(read, names, again, proof is not None, found), "L4", found)
    found.close()
    return found


def _kept(run: Callable[[], None], level: Level, found: Found) -> None:
    """A record that cannot be read is a failure of that level; the others are still told."""
    try:
        run()
    except EvidenceError as error:
        found.fail(level, str(error))


def _bytes(read: Read, path: str) -> bytes:
    return read(path) or b""
