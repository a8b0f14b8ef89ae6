"""`rungproof env diff`: two environments, a verdict a key."""

import argparse
import json
import sys
from pathlib import Path

from rungproof.cli.words import add, clean, console, table
from rungproof.judge.environment import BAD, Compared, compare, same, short
from rungproof.records.codec import plain, read
from rungproof.records.environment import Environment

SAYS = {
    "equal": "equal", "within": "within tolerance", "differs": "DIFFERS", "missing": "MISSING on one side", "unknown": "not known on either",
    "told": "told only",
}  # fmt: skip


def add_options(to: argparse.ArgumentParser) -> None:
    """The options of `env diff`."""
    to.add_argument("a", type=Path, metavar="A", help="a session's folder, or its env.json")
    to.add_argument("b", type=Path, metavar="B", help="the other one")
    to.add_argument("--all", action="store_true", help="also keys that are equal")
    to.add_argument("--json", action="store_true", help="the verdicts as JSON on standard output")


def diff(options: argparse.Namespace) -> int:
    """Compare what two servers ran on, as found when they were ready; exit code 1 where a key that counts differs."""
    a, b = (read(Environment, _file(path)) for path in (options.a, options.b))
    found = compare(a.before, b.before)
    if options.json:
        print(json.dumps({"same": same(found), "keys": plain(found)}, indent=2, sort_keys=True))
        return 0 if same(found) else 1
    shown = [one for one in found if options.all or _worth_showing(one)]
    rows = table(f"{a.session} and {b.session}", {"key": False, "verdict": False, "A": False, "B": False})
    for one in shown:
        add(rows, one.key, SAYS[one.state], short(one.a), short(one.b))
    if shown:
        console().print(rows)
    counts = {state: sum(one.state == state for one in found) for state in SAYS}
    print(clean(", ".join(f"{count} {SAYS[state]}" for state, count in counts.items() if count)))
    if same(found):
        print("The same environment, as far as it is known.")
    else:
        bad = sum(one.state in BAD for one in found)
        print(
            f"Not the same environment: {bad} keys that count differ."
            if bad
            else "Nothing to compare: that is no pass.",
            file=sys.stderr,
        )
    return 0 if same(found) else 1


def _worth_showing(one: Compared) -> bool:
    return one.state in (*BAD, "within") or (one.state == "told" and short(one.a) != short(one.b))


def _file(path: Path) -> Path:
    return path / "env.json" if path.is_dir() else path
