# What every stage needs: the configuration, the name of this run, who owns it, and what is to do in each campaign.
# Needs: config/, results/. Makes: nothing.
import os
import sys
from functools import cache
from pathlib import Path

import rungproof
from rungproof.config.load import campaign_names, load, read_run, refuse_names
from rungproof.measure import jobs, serving
from rungproof.plan.machine import flags_of_study, processor_flags
from rungproof.plan import builds, missing, resolve
from rungproof.plan.estimate import describe
from rungproof.publish.words import closing
from rungproof.records.errors import RungproofError
from rungproof.records.plan import split_session

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

# Set once by the process the user started; everything it starts inherits the same run, owner and order of campaigns.
LOOKS_ONLY = any(
    arg in ("--dry-run", "--dryrun", "--unlock", "--lint", "--list", "--summary")
    or (arg.startswith("-n") and not arg.startswith("--"))
    for arg in sys.argv[1:]
)
if workflow.is_main_process:
    try:
        if not LOOKS_ONLY:
            jobs.settle(Path(RESULTS))
            for _path in missing.remove_unreadable(Path(RESULTS).glob("*")):
                print(f"rungproof: {_path}: was damaged; it is made again from the raw bytes", file=sys.stderr)
    except RungproofError as error:
        fail(error)
    os.environ["RUNGPROOF_RUN"] = missing.next_run(Path(RESULTS).glob("*"))
    os.environ["RUNGPROOF_OWNER"] = "{}:{}".format(*serving.owner_of(os.getpid()))
    os.environ["RUNGPROOF_ASKED"] = " ".join(
        name
        for name in CAMPAIGNS
        if any(arg == name or f"{RESULTS}/{name}/" in arg or f"{RESULTS}/{name}@" in arg for arg in sys.argv[1:])
    )
RUN = os.environ["RUNGPROOF_RUN"]
# A first word that is no option, path or campaign may be a rule or a mistake: the Snakefile tells, when it knows its rules.
WORD = next((arg for arg in sys.argv[1:2] if arg[:1].isalnum() and "/" not in arg and arg not in CAMPAIGNS), "")
ASKED = os.environ["RUNGPROOF_ASKED"].split() or ([] if WORD and workflow.is_main_process else ["campaign_v2"])

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
    return flags_of_study(Path(RESULTS, the_loaded.folder), FLAGS, the_loaded.needs)


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


def campaign_of(study):
    """The campaign behind a results folder's name on this call's host."""
    for name in CAMPAIGNS:
        if loaded(name).folder == study:
            return name
    fail(
        f"{RESULTS}/{study}: no campaign writes there on this host; expected one of "
        + ", ".join(loaded(name).folder for name in CAMPAIGNS)
    )


def assignment(study, item_id):
    """Where the evidence of an item lies; an item that the campaign does not have ends the call."""
    found = {a.item.id: a for a in todo(campaign_of(study)).assignments}
    if item_id not in found:
        fail(f"{RESULTS}/{study}: the campaign has no item {item_id}; it has {', '.join(found)}")
    return found[item_id]


def new_items(study, session):
    """Items that a new session of this run measures, in order; none for a session of an earlier run."""
    return dict(todo(campaign_of(study)).new).get(session, ())


def arm_of(study, session):
    return plan(campaign_of(study)).arm(split_session(session)[1])


def of_study(study, *parts):
    return "/".join((RESULTS, study, *parts))


def judged_files(study, item_id):
    """Judged records of one item, newest first."""
    return [
        of_study(study, path) for path in assignment(study, item_id).judged()
    ]


def used_items(study):
    """Items that have, or will have, a record."""
    return [a.item for a in todo(campaign_of(study)).assignments if a.sessions]


# A mistake in a campaign that was asked for is told now, before anything is planned; and no other call can take this run's name.
if workflow.is_main_process:
    for _asked in ASKED:
        if todo(_asked).new and not LOOKS_ONLY:
            try:
                Path(RESULTS, plan(_asked).study, "runs", RUN).mkdir(parents=True)
            except OSError as error:
                fail(
                    f"{RESULTS}/{plan(_asked).study}/runs/{RUN}: cannot be made ({error.strerror}). If another call has just "
                    "begun on these results, wait for it; else mend the folder's permissions or free some space."
                )
