"""The command `rungproof`: words and exit codes only. `snakemake` measures, `rungproof` inspects and proves."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rungproof import __version__
from rungproof.cli import inspect
from rungproof.records.errors import ConfigError, EvidenceError, HostError, RungproofError, ServerError, SetupError

EXIT_CODE: dict[type[RungproofError], int] = {
    ConfigError: 2,
    HostError: 3,
    EvidenceError: 4,
    SetupError: 5,
    ServerError: 6,
}


def parser() -> argparse.ArgumentParser:
    """The command line of `rungproof`."""
    made = argparse.ArgumentParser(
        prog="rungproof", description=__doc__.splitlines()[0], epilog="Measure with: snakemake campaign_v2 --cores 1"
    )
    made.add_argument("--version", action="version", version=f"rungproof {__version__}")
    words = made.add_subparsers(dest="word", required=True, metavar="COMMAND")
    plan = words.add_parser(
        "plan", help="what a campaign would measure now, on which servers, and roughly how long it takes"
    )
    status = words.add_parser("status", help="what is accepted, withheld and still to do")
    for one in (plan, status):
        one.add_argument(
            "campaign", nargs="?", default="campaign_v2", help="file under config/campaigns/ (default: %(default)s)"
        )
        one.add_argument("--host", default="", help="host profile instead of the campaign's own")
        one.add_argument("--root", type=Path, default=Path(), help="the checkout (default: this folder)")
    plan.set_defaults(run=inspect.plan)
    status.set_defaults(run=inspect.status)
    verify = words.add_parser("verify", help="recompute every point of a campaign's results folder from its raw files")
    verify.add_argument("study", type=Path, help="for example results/campaign_v2")
    verify.set_defaults(run=inspect.verify)
    words.add_parser("simulate", help="run the simulated server; see `rungproof simulate --help`", add_help=False)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Exit code 0: done; 1: something is not as it should be; 2-6: see EXIT_CODE."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["simulate"]:
        from rungproof.measure.simulated import main as simulate  # its own long command line

        return simulate(words[1:])
    options = parser().parse_args(words)
    try:
        return int(options.run(options))
    except RungproofError as error:
        print(f"rungproof: {error}", file=sys.stderr)
        return EXIT_CODE.get(type(error), 1)
