"""`rungproof compare`: packs or results folders beside each other, in the terminal, as a page, or as JSON."""

import argparse
from pathlib import Path

from rungproof.cli.words import add, clean, console, number, table
from rungproof.judge.comparing import Beside
from rungproof.publish.comparing import Pair, compare_json, differences, pairs_of, read_side
from rungproof.publish.pages.compare import write_compare
from rungproof.records.errors import ConfigError

SHOWN = 20  # conditions that the terminal lists of a pair


def add_options(to: argparse.ArgumentParser) -> None:
    """The options of compare."""
    to.add_argument(
        "packs", nargs="+", type=Path, metavar="DIR", help="packs or results folders; ratios are over the first"
    )
    to.add_argument(
        "--pair",
        action="append",
        default=[],
        metavar="ARM=ARM",
        help="an arm of the first and that of the others; default: same names",
    )
    to.add_argument("--out", type=Path, metavar="FOLDER", help="also write a page with CSV and JSON into this folder")
    to.add_argument("--json", action="store_true", help="print conditions and rows as JSON")


def run(options: argparse.Namespace) -> int:
    """Compare; exit code 1 where not one rate could be compared."""
    sides = [read_side(folder) for folder in options.packs]
    pairs = pairs_of(sides, [_pair(text) for text in options.pair])
    if options.json:
        print(compare_json(pairs).decode(), end="")
    else:
        for pair in pairs:
            _print(pair)
    if options.out:
        page = write_compare(pairs, options.out)[0]
        if not options.json:
            print(clean(f"page: {page}"))
    return 0 if any(pair.found.compared for pair in pairs) else 1


def _pair(text: str) -> tuple[str, str]:
    one, sign, two = text.partition("=")
    if not sign or not one or not two:
        raise ConfigError(f"--pair {clean(text)}: expected ARM=ARM, an arm of the first pack and one of the others")
    return one, two


def _print(pair: Pair) -> None:
    print(clean(f"{pair.other.name} over {pair.reference.name}"))
    if pair.reference.summary.simulated or pair.other.summary.simulated:
        print("simulated: no ratio says anything about hardware, model or engine")
    print(clean(f"host: {pair.found.host}"))
    found = differences(pair)
    for one in found[:SHOWN]:
        print(clean(f"  differs: {one.kind}: {one.what}: {one.a[:80]} | {one.b[:80]}"))
    if len(found) > SHOWN:
        print(f"  and {len(found) - SHOWN} conditions more: --json, or --out FOLDER")
    if pair.found.refused:
        print(clean(f"not compared: {pair.found.refused}"))
    rows = table(
        "", {"point": False, "reference": True, "other": True, "unit": False, "ratio": True, "from": True, "to": True, "servers": True, "says": False}
    )  # fmt: skip
    for row in pair.found.rows:
        add(rows, *_cells(row))
    console().print(rows)
    print(
        f"{pair.found.compared} of {len(pair.found.rows)} points compared; a ratio is of all differing conditions together."
    )


def _cells(row: Beside) -> tuple[str, ...]:
    name = f"{row.arm_b}/{row.workload}/{row.item}" + (f" (over {row.arm_a})" if row.arm_a != row.arm_b else "")
    values = tuple(
        "-"
        if p is None or p.value is None
        else number(p.value, 2)
        if p.state == "qualified"
        else f"({number(p.value, 2)})"
        for p in (row.a, row.b)
    )
    if row.ratio is None:
        return (name, *values, row.unit, "-", "-", "-", f"{len(row.values_a)}, {len(row.values_b)}", row.why)
    i = row.ratio.interval
    says = "they differ" if row.ratio.claim else "no difference is shown" if i.confidence else "nothing is claimed"
    one = row.ratio.n == (1, 1)
    ends = ("-", "-") if one else (f"{i.low:.3f}", f"{i.high:.3f}")
    kind = "one server a side" if one else i.kind
    return (
        name,
        *values,
        row.unit,
        f"{i.center:.3f}",
        *ends,
        f"{row.ratio.n[1]}, {row.ratio.n[0]}",
        f"{says} ({kind})",
    )
