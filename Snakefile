# rungproof: measures the campaigns under config/campaigns/, one target a campaign.
#
#   snakemake campaign_v2 --cores 1                              the default campaign on this machine
#   snakemake campaign_v2 --cores 1 --config host=simulated      the whole job in a minute, on the simulated server
#   snakemake campaign_v2 --cores 1 --config remeasure=bf16/ladder/c4
#
# The same call again measures what is missing, changed, failed or invalid, and nothing else.
import shlex
import sys

from snakemake.utils import min_version, validate

min_version("9.27")


configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"  # reads every file under config/ and tells each mistake
include: "workflow/rules/inputs.smk"


validate(config, "workflow/schemas/config.schema.json")


include: "workflow/rules/setup.smk"
include: "workflow/rules/session.smk"
include: "workflow/rules/judge.smk"
include: "workflow/rules/publish.smk"
include: "workflow/rules/replay.smk"


# Snakemake writes its interpreter into shell commands as it is: in a folder whose name has a space it would be two words.
sys.executable = shlex.quote(sys.executable)

try:
    refuse_names(CAMPAIGNS, [rule.name for rule in workflow.rules])
except RungproofError as error:
    fail(error)

if (
    workflow.is_main_process
    and WORD
    and WORD not in [rule.name for rule in workflow.rules]
):
    fail(f"{WORD}: no such campaign; config/campaigns/ holds {', '.join(CAMPAIGNS)}")

for _name in CAMPAIGNS:

    rule:
        name:
            _name
        default_target: _name == "campaign_v2"
        input:
            lambda wildcards, name=_name: campaign_files(name),
        localrule: True


onsuccess:
    print_closing(True)


onerror:
    print_closing(False)
