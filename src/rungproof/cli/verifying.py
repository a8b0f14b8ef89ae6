"""`rungproof verify` as a process of its own, under the limits of a pack's own verify.py."""

import argparse
import sys

from rungproof import verify as verifier
from rungproof.cli import carried_out
from rungproof.cli.verify import add_options, judge
from rungproof.records.errors import EvidenceError


def checked(options: argparse.Namespace) -> int:
    """Set the limits and judge. Raises EvidenceError past a limit where no level tells it: while a pack is fetched or unpacked."""
    verifier.bounded()
    try:
        return judge(options)
    except (verifier.Refused, MemoryError) as error:
        raise EvidenceError(f"{options.study}: {verifier.why(error)}") from error


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="rungproof verify")
    add_options(parser)
    sys.exit(carried_out(checked, parser.parse_args()))
