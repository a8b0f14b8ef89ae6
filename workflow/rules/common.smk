# What every stage needs: the configuration, the name of this run, who owns it, and what is to do in each campaign.
# Needs: config/, results/. Makes: nothing.
import os
import sys
from functools import cache
from pathlib import Path

import rungproof
from rungproof.config.load import (
    campaign_names,
    load,
    pins_of,
    read_run,
    refuse_names,
)
from rungproof.measure import jobs, serving
from rungproof.plan.machine import flags_of_study, flags_without, processor_flags
from rungproof.plan import builds, missing, resolve
from rungproof.plan.estimate import describe, expected_seconds
from rungproof.plan.given import not_placed
from rungproof.plan.targets import sessions_needed
from rungproof.publish.words import closing
from rungproof.records.errors import RungproofError
from rungproof.records.plan import COUNTS, split_session

ROOT = Path(workflow.basedir)
LIBRARY = Path(rungproof.__file__).parent


def fail(error):
    """End with the message alone: a traceback of this file would tell the user nothing."""
    print(f"rungproof: {error}", file=sys.stderr)
    sys.exit(2)


try:
    RUN_CONFIG = read_run(config)
    CAMPAIGNS = campaign_names(ROOT)
except RungproofError as error:
    fail(error)
RESULTS, BUILD = RUN_CONFIG.results, RUN_CONFIG.build


pathvars:
    results=RESULTS,
    build=BUILD,


# Set once by the process the user started; everything it starts inherits the same run, owner and order of campaigns.
LOOKS_ONLY = any(
    arg in ("--dry-run", "--dryrun", "--unlock", "--lint", "--list", "--summary")
    or arg.split("=")[0] in ("--report", "--reporter")
    or (arg.startswith("-n") and not arg.startswith("--"))
    for arg in sys.argv[1:]
)
if workflow.is_main_process:
    try:
        if not LOOKS_ONLY:
            jobs.settle(Path(RESULTS))
            for _path in missing.remove_unreadable(Path(RESULTS).glob("*")):
                print(
                    f"rungproof: {_path}: was damaged; it is made again from the raw bytes",
                    file=sys.stderr,
                )
    except RungproofError as error:
        fail(error)
    asked_for = [
        name
        for name in CAMPAIGNS
        if any(
            arg == name or f"{RESULTS}/{name}/" in arg or f"{RESULTS}/{name}@" in arg
            for arg in sys.argv[1:]
        )
    ]
    os.environ.update(
        RUNGPROOF_RUN=missing.next_run(Path(RESULTS).glob("*")),
        RUNGPROOF_OWNER="{}:{}".format(*serving.owner_of(os.getpid())),
        RUNGPROOF_ASKED=" ".join(asked_for),
    )


envvars:
    "RUNGPROOF_RUN",
    "RUNGPROOF_OWNER",
    "RUNGPROOF_ASKED",


RUN = os.environ["RUNGPROOF_RUN"]
# A first word that is no option, path or campaign may be a rule or a mistake. The Snakefile tells, when it knows its rules.
WORD = next(
    (
        arg
        for arg in sys.argv[1:2]
        if arg[:1].isalnum() and "/" not in arg and arg not in CAMPAIGNS
    ),
    "",
)
ASKED = os.environ["RUNGPROOF_ASKED"].split() or (
    [] if WORD and workflow.is_main_process else ["campaign_v2"]
)

FLAGS = processor_flags()

# Snakemake watches the few lines of a script, not the library behind it: these digests are parameters of the rules.
JUDGE = builds.source_digest(LIBRARY / "judge", LIBRARY / "records")
PAGES = builds.source_digest(
    LIBRARY / "publish", LIBRARY / "judge", LIBRARY / "records"
)


wildcard_constraints:
    study="[a-z0-9][a-z0-9_-]*(@[a-z0-9][a-z0-9_-]*)?",
    session=r"r[0-9][0-9][0-9]+\.[a-z0-9][a-z0-9_-]*\.[a-z]",
    run=r"r[0-9][0-9][0-9]+",
    arm="[a-z0-9][a-z0-9_-]*",
    replicate="[a-z]",
    workload="[a-z0-9][a-z0-9_-]*",
    item="[a-z0-9][a-z0-9_-]*",
    when="before|after",


@cache
def loaded(campaign):
    try:
        return load(ROOT, campaign, RUN_CONFIG.host)
    except RungproofError as error:
        fail(error)


def flags_of(campaign):
    """Processor flags that a campaign is planned for: this machine's, or those its results were begun with."""
    the_loaded = loaded(campaign)
    flags = flags_without(FLAGS, RUN_CONFIG.lacks)
    return flags_of_study(Path(RESULTS, the_loaded.folder), flags, the_loaded.needs)


@cache
def plan(campaign):
    try:
        return resolve.resolve(loaded(campaign), flags_of(campaign))
    except RungproofError as error:
        fail(error)


@cache
def todo(campaign):
    the_plan = plan(campaign)
    try:
        again = (
            missing.parse_remeasure(RUN_CONFIG.remeasure, the_plan)
            if campaign in ASKED
            else ()
        )
        found = missing.plan_run(
            the_plan, Path(RESULTS, the_plan.study), RUN, again, JUDGE
        )
    except RungproofError as error:
        fail(error)
    if workflow.is_main_process:
        print(
            describe(the_plan, found, loaded(campaign).host.costs, FLAGS, Path(BUILD)),
            file=sys.stderr,
        )
    return found


# A mistake in a campaign that was asked for is told now, before anything is planned; and no other call can take this run's name.
if workflow.is_main_process:
    for _asked in ASKED:
        if todo(_asked).new and not LOOKS_ONLY:
            if _absent := not_placed(loaded(_asked), plan(_asked), Path(BUILD)):
                fail("nothing was started.\n  " + "\n  ".join(_absent.values()))
            try:
                Path(RESULTS, plan(_asked).study, "runs", RUN).mkdir(parents=True)
            except OSError as error:
                fail(
                    f"{RESULTS}/{plan(_asked).study}/runs/{RUN}: cannot be made ({error.strerror}). If another call has just "
                    "begun on these results, wait for it; else mend the folder's permissions or free some space."
                )
