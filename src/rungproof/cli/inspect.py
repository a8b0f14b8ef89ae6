"""Commands on a campaign: plan, status, watch, gates, explain, show, suite tie, verify."""

import argparse
from pathlib import Path

from rich.table import Table
from rich.text import Text

import rungproof
from rungproof.cli import gates as gate_words
from rungproof.cli import need, power
from rungproof.cli import show as show_words
from rungproof.cli import suite as suite_words
from rungproof.cli import tokens as token_words
from rungproof.cli import verify as verify_words
from rungproof.cli import watch as watch_words
from rungproof.cli.running import Records, now
from rungproof.cli.words import clean, clean_lines, console
from rungproof.config.base import read_yaml
from rungproof.config.load import Loaded, load, read_run
from rungproof.plan import builds, missing
from rungproof.plan.estimate import describe
from rungproof.plan.given import not_placed
from rungproof.plan.machine import flags_of_study, flags_without, processor_flags
from rungproof.plan.resolve import resolve
from rungproof.publish.pages.live import status_lines
from rungproof.publish.words import call_of
from rungproof.records.codec import read
from rungproof.records.plan import Plan
from rungproof.records.summary import Summary

LIBRARY = Path(rungproof.__file__).parent
NAMED = "file under config/campaigns/, without .yaml"


def add_options(to: argparse.ArgumentParser) -> None:
    """The options of plan and status."""
    add_campaign(to, optional=True)


def add_plan_options(to: argparse.ArgumentParser) -> None:
    """The options of plan."""
    add_options(to)
    to.add_argument(
        "--power", type=float, metavar="PERCENT", help="how many fresh servers this half-width of the headline costs"
    )
    to.add_argument(
        "--spread",
        type=float,
        metavar="PERCENT",
        help="how far servers differ (standard deviation); default: as measured so far",
    )


def add_campaign(to: argparse.ArgumentParser, optional: bool, named: str = NAMED) -> None:
    """The campaign, its host and the checkout."""
    if optional:
        to.add_argument(
            "campaign", nargs="?", default="campaign_v2", metavar="CAMPAIGN",
            help=f"{named} (default: %(default)s)",
        )  # fmt: skip
    else:
        to.add_argument("campaign", metavar="CAMPAIGN", help=named)
    to.add_argument("--host", default="", metavar="HOST", help="host profile instead of the campaign's own")
    to.add_argument("--root", type=Path, default=Path(), metavar="DIR", help="the checkout (default: this folder)")


def _planned(options: argparse.Namespace) -> tuple[Loaded, Plan, missing.Todo, Path, Path]:
    run = read_run(read_yaml(options.root / "config/config.yaml"))
    loaded = load(options.root, options.campaign, options.host or run.host)
    results = options.root / run.results
    the_plan = resolve(
        loaded, flags_of_study(results / loaded.folder, flags_without(processor_flags(), run.lacks), loaded.needs)
    )
    judge = builds.source_digest(LIBRARY / "judge", LIBRARY / "records")
    todo = missing.plan_run(the_plan, results / the_plan.study, missing.next_run(results.glob("*")), (), judge)
    return loaded, the_plan, todo, results / the_plan.study, options.root / run.build


def plan(options: argparse.Namespace) -> int:
    """Print what the next call of the campaign would do, how long each server takes and what disk it needs."""
    loaded, the_plan, todo, study, build = _planned(options)
    costs, flags = loaded.host.costs, processor_flags()
    print(clean_lines(describe(the_plan, todo, costs, flags, build)))
    for told in not_placed(loaded, the_plan, build).values():
        print(clean(f"  not here yet: {told}"))
    for line in need.describe(the_plan, todo, costs, flags, build, study):
        print(line)
    if options.power is not None:
        for line in power.describe(the_plan, study, options.power, options.spread, costs, flags):
            print(line)
    return 0


def status(options: argparse.Namespace) -> int:
    """Print each point with its state, what is accepted, withheld, being measured and to do, and what the next call would measure."""
    loaded, the_plan, todo, study, build = _planned(options)
    if (study / "summary.json").exists():
        console().print(points_table(read(Summary, study / "summary.json")))
        print(f"page: {clean(study / 'page/index.html')}")
    else:
        print(clean(f"{study}: no summary yet; run: {call_of(study.name)}"))
    for line in status_lines(now(the_plan, study, Records())):
        print(clean(line))
    print(clean_lines(describe(the_plan, todo, loaded.host.costs, processor_flags(), build)))
    return 0


def gates(options: argparse.Namespace) -> int:
    """List every gate of a campaign with its state, figures and reasons; exit code 1 where one has not passed."""
    _, the_plan, _, study, _ = _planned(options)
    return gate_words.gates(options, the_plan, study)


def explain(options: argparse.Namespace) -> int:
    """Tell why a point is qualified, withheld, invalid, failed or missing."""
    _, _, _, study, _ = _planned(options)
    return gate_words.explain(options, study)


def show(options: argparse.Namespace) -> int:
    """Print one record with every request."""
    found = show_words.study_of(options.campaign)
    if found is None:
        _, the_plan, _, study, _ = _planned(options)
        found = the_plan, study
    return show_words.show(options, *found)


def watch(options: argparse.Namespace) -> int:
    """Serve a page of a campaign that is being measured."""
    _, the_plan, _, study, _ = _planned(options)
    return watch_words.watch(options, the_plan, study)


def add_watch_options(to: argparse.ArgumentParser) -> None:
    """The options of watch."""
    add_options(to)
    watch_words.add_options(to)


def tie(options: argparse.Namespace) -> int:
    """Write a suite of the prompts that broke at a rung."""
    _, the_plan, _, study, _ = _planned(options)
    return suite_words.tie(options, the_plan, study)


def add_tie_options(to: argparse.ArgumentParser) -> None:
    """The options of suite tie."""
    add_campaign(to, optional=False)
    suite_words.add_options(to)


def add_gates_options(to: argparse.ArgumentParser) -> None:
    """The options of gates."""
    add_options(to)
    gate_words.add_options(to)


def add_show_options(to: argparse.ArgumentParser) -> None:
    """The options of show."""
    add_campaign(to, optional=False, named=f"{NAMED}; or a results folder, or a pack")
    show_words.add_options(to)


def add_explain_options(to: argparse.ArgumentParser) -> None:
    """The options of explain."""
    add_campaign(to, optional=False)
    gate_words.add_explain_options(to)


def points_table(summary: Summary) -> Table:
    """All points of a summary as a table for the terminal. Text of servers and files is never read as markup."""
    table = Table(title=Text(clean(summary.title)), caption=Text(clean(summary.claim)))
    for column in ("point", "state", "value", "identical", "why"):
        table.add_column(column, justify="right" if column in ("value", "identical") else "left")
    for p in summary.points:
        value = f"{p.value:.1f} {p.unit}" if p.value is not None else "-"
        cells = (p.id, p.state, value, f"{p.k}/{p.n}", p.reasons[0] if p.reasons else "")
        table.add_row(*(Text(clean(cell)) for cell in cells))
    return table


def verify(options: argparse.Namespace) -> int:
    """Check a pack or a results folder, level by level, or with --tokens its outputs; exit code 10 to 14 where a level fails."""
    return token_words.run(options) if options.tokens else verify_words.run(options)
