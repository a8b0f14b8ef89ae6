"""L2 to L4 of a pack or a results folder, in their order; what a verifier calls."""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from rungproof.judge.checks.attempts import check_attempts
from rungproof.judge.checks.found import Found, Level
from rungproof.judge.checks.page import check_pages
from rungproof.judge.checks.sense import check_sense
from rungproof.judge.checks.statements import check_statements
from rungproof.judge.checks.twins import check_twins
from rungproof.judge.evidence import Read
from rungproof.judge.recompute import Again, recompute
from rungproof.records.codec import plain
from rungproof.records.errors import EvidenceError

MARKUP = (".html", ".svg")
# What a pack holds: whatever else lies in it is read by no check, and a browser could still show it.
FILES = ("MANIFEST.sha256", "README.md", "plan.json", "proof.intoto.jsonl", "ro-crate-metadata.json", "signer.pub.pem", "summary.json",
         "verify.py")  # fmt: skip
FOLDERS = ("oracle/", "page/", "plan/", "reducer/", "runs/", "sessions/", "tables/", "verdicts/")
SHOWN = re.compile(r"\.(?:s?html?|xht(?:ml)?|svgz?|xml|pdf|js|mjs|css)$", re.I)  # what a browser shows or runs
DEEPER: tuple[Level, ...] = ("L3", "L4")  # that have nothing to look at where records cannot be read
KNOWN = (*MARKUP, ".csv", ".json", ".parquet")


def check(read: Read, names: Collection[str], proof: Mapping[str, Any] | None, upto: str) -> Found:
    """Everything up to that level. names: every file; proof: what L1 learnt (verify.Proof) of a pack, None of a results folder."""
    found = Found()
    try:
        again = recompute(read, names, found)
    except EvidenceError as error:
        found.fail("L2", str(error))
        for level in DEEPER:
            found.fail(level, "nothing to compare: see L2")
        return found
    summary = plain(again.summary)
    inside = {name.removeprefix("page/"): _bytes(read, name) for name in names if name.startswith("page/")}
    check_pages({f"page/{n}": data for n, data in sorted(inside.items()) if n.endswith(MARKUP)}, summary, found)
    check_twins(
        {n: data for n, data in sorted(inside.items()) if n.endswith((".csv", ".json"))},
        summary,
        again.summary.sessions,
        found,
    )
    for name in sorted(n for n in inside if not n.endswith(KNOWN) and n != "MANIFEST.sha256"):
        found.fail("L2", f"page/{name}: not a file of a page, so nobody has checked it")
    if proof is not None:
        _strange(names, again, found)
        _kept(lambda: check_statements(read, names, again, proof, found), "L2", found)
    if upto >= "L4":
        _kept(lambda: check_sense(read, names, again, found), "L4", found)
        _kept(lambda: check_attempts(read, names, again, proof is not None, found), "L4", found)
    found.close()
    return found


def _strange(names: Collection[str], again: Again, found: Found) -> None:
    """Files of a pack that no check reads although they could pass for a part of it."""
    verdicts = {f"verdicts/{verdict.gate}.json" for verdict in again.summary.verdicts}
    for name in sorted(names):
        if name not in FILES and not name.startswith(FOLDERS):
            found.fail("L2", f"{name}: not a file of a pack, so nobody has checked it")
        elif SHOWN.search(name) and not name.startswith("page/"):
            found.fail("L2", f"{name}: a page outside of page/, so nobody has checked it")
        elif name.startswith("verdicts/") and name not in verdicts:
            found.fail("L3", f"{name}: a verdict of no gate that was judged")


def _kept(run: Callable[[], None], level: Level, found: Found) -> None:
    """A record that cannot be read is a failure of that level; the others are still told."""
    try:
        run()
    except EvidenceError as error:
        found.fail(level, str(error))


def _bytes(read: Read, path: str) -> bytes:
    return read(path) or b""
