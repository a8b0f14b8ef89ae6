from pathlib import Path

from rungproof.measure.job import job
from rungproof.publish.collect import write_summary
from rungproof.records.codec import parse
from rungproof.records.plan import Plan

with job(snakemake.log[0]):
    plan = parse(Plan, snakemake.params.plan.encode(), "the plan of this campaign")
    judged, verdicts = ([Path(path) for path in files] for files in (snakemake.input.judged, snakemake.input.verdicts))
    write_summary(Path(snakemake.output.summary).parent, plan, judged, verdicts, dict(snakemake.params.left_out))
