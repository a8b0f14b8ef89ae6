"""`rungproof verify --tokens`: emitted tokens put through the pinned weights again, without an accelerator."""

import argparse
import json
import sys
from pathlib import Path

from rungproof.cli.fetch import folder_of
from rungproof.cli.words import add, clean, console, table
from rungproof.judge.forced import ArmForced, Forced, by_arm, good
from rungproof.measure.models.forcing import Wanted, check
from rungproof.records.codec import plain, read, sha256
from rungproof.records.plan import Plan

WORST = 8  # answers that are told one by one


def add_options(to: argparse.ArgumentParser) -> None:
    """The options that --tokens takes."""
    one = to.add_argument_group("with --tokens")
    one.add_argument(
        "--tokens", action="store_true", help="put the answers through the model's weights again, on the processor"
    )
    one.add_argument(
        "--build",
        type=Path,
        default=Path("build"),
        metavar="DIR",
        help="where environments and models are (default: %(default)s)",
    )
    one.add_argument("--python", type=Path, metavar="FILE", help="another interpreter with torch and transformers")
    one.add_argument("--arm", action="append", default=[], metavar="ARM", help="these arms alone; may be given again")
    one.add_argument(
        "--all", action="store_true", help="every request (default: some of each item, chosen by the pack's digest)"
    )
    one.add_argument("--sample", type=int, default=3, metavar="N", help="requests of each item (default: %(default)s)")
    one.add_argument(
        "--positions",
        type=int,
        default=0,
        metavar="N",
        help="leave out prompts and answers longer than N tokens together",
    )
    one.add_argument(
        "--margin",
        type=float,
        metavar="LOGITS",
        help="gap that counts as a tie (default: 0.5 for bfloat16, 0.0625 float16, 0.01 float32)",
    )
    one.add_argument(
        "--most",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="largest share of an answer's tokens beyond it (default: %(default)s)",
    )


def run(options: argparse.Namespace) -> int:
    """Force the answers of a pack or results folder; exit code 1 where one has tokens its weights would not give, or there is none."""
    with folder_of(str(options.study)) as study:
        return _run(options, study)


def _run(options: argparse.Namespace, study: Path) -> int:
    plan = read(Plan, study / "plan.json")
    manifest = study / "MANIFEST.sha256"
    seed = sha256(manifest.read_bytes()) if manifest.exists() else sha256((study / "plan.json").read_bytes())
    wanted = Wanted(
        seed, 0 if options.all else max(1, options.sample), options.positions, options.margin, options.most, tuple(options.arm), options.python
    )  # fmt: skip
    rows = check(study, plan, options.build, wanted, lambda line: print(clean(line), file=sys.stderr))
    arms = by_arm(rows, wanted.skipped)
    if options.json:
        print(
            json.dumps(
                {"ok": good(arms), "seed": seed, "arms": plain(arms), "answers": plain(rows)}, indent=2, sort_keys=True
            )
        )
    else:
        _tell(arms, rows)
    return 0 if good(arms) else 1


def _tell(arms: tuple[ArmForced, ...], rows: list[Forced]) -> None:
    figures = dict.fromkeys(("answers", "tokens", "likeliest", "ties", "beyond", "largest gap", "not looked at"), True)
    made = table("Tokens through the pinned weights, prompt and answer given", {"arm": False, **figures})
    for one in arms:
        share = f"{100 * one.likeliest / one.tokens:.2f} %" if one.tokens else "-"
        cells = (
            f"{one.answers} ({one.requests} requests)",
            one.tokens,
            share,
            one.ties,
            one.beyond,
            f"{one.worst:.3f}",
            one.skipped,
        )
        add(made, one.arm, *(str(cell) for cell in cells))
    console().print(made)
    for row in sorted((r for r in rows if r.ties or r.state == "failed"), key=lambda r: (r.state == "ok", -r.worst))[
        :WORST
    ]:
        where = (
            f"{row.item} {row.batch}/{row.key}: largest gap {row.worst:.3f} logits at token {row.at} of {row.tokens}"
        )
        says = f"FAILED: {where}; {row.why}" if row.state == "failed" else f"tie: {where}"
        print(clean(says), file=sys.stderr if row.state == "failed" else sys.stdout)
    if good(arms):
        print("Every token looked at is the likeliest one of its weights, or within the margin of it.")
    else:
        empty = [one.arm for one in arms if not one.answers]
        print(clean(f"Nothing was looked at of {', '.join(empty)}: that is no pass." if empty else
                    "Some answers have tokens that these weights do not give."), file=sys.stderr)  # fmt: skip
