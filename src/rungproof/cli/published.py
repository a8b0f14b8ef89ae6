"""`rungproof log verify` and `rungproof withdraw`: what was published stays told."""

import argparse
import os
import sys
from pathlib import Path

from rungproof.cli.words import clean
from rungproof.publish.log import NAME, check, read_log
from rungproof.publish.pack import withdraw
from rungproof.publish.pack.statements import publisher_of
from rungproof.publish.signing import find_signer
from rungproof.publish.site import build_site
from rungproof.records.errors import ConfigError


def add_log_options(to: argparse.ArgumentParser) -> None:
    """The options of `log verify`."""
    to.add_argument(
        "--reports", type=Path, default=Path("reports"), metavar="DIR", help="the folder of packs (default: reports)"
    )


def verify_log(options: argparse.Namespace) -> int:
    """Chain, signatures, packs and merged lines; exit code 1 where something is wrong, and where there is no entry."""
    held = read_log(options.reports)
    wrong = check(options.reports, held)
    for words in wrong:
        print(f"wrong: {clean(words)}", file=sys.stderr)
    if held.torn:
        print(
            f"{options.reports / NAME}: its last line was cut short ({len(held.torn)} bytes) and is no entry; the next one takes its place",
            file=sys.stderr,
        )
    print(f"{options.reports / NAME}: {len(held.entries)} entries, head {held.head or 'none'}")
    return 1 if wrong or not held.entries else 0


def add_withdraw_options(to: argparse.ArgumentParser) -> None:
    """The options of `withdraw`."""
    to.add_argument("pack", type=Path, metavar="PACK", help="the pack's folder, reports/STUDY/ID")
    to.add_argument("--reason", required=True, help="what is wrong with it; published")
    to.add_argument(
        "--key", default="", metavar="FILE", help="the key that signed it (default: RUNGPROOF_KEY, else the user's own)"
    )


def take_back(options: argparse.Namespace) -> int:
    """Write the withdrawal into the log and on the pack's page, signed by the key that signed the pack. Raises ConfigError for another key."""
    folder = options.pack.resolve()
    if not (folder / "MANIFEST.sha256").is_file():
        raise ConfigError(f"{options.pack}: is no pack's folder; name one such as reports/campaign_v2/0123456789ab")
    signer = None
    if publisher_of(folder)[0]:
        signer, _ = find_signer(options.key, None, os.environ)
    trouble = withdraw(folder, signer, options.reason)
    build_site(folder.parents[1])
    if trouble:
        print(
            f"{options.pack}: its page could not be drawn anew, so it does not say so: {clean(trouble)}",
            file=sys.stderr,
        )
    says = "log and site say" if trouble else "its page, the log and the site say"
    print(f"{options.pack}: withdrawn. Its files stay where they are; {says} why.")
    return 0
