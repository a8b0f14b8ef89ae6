from pathlib import Path

from rungproof.measure.job import job
from rungproof.measure.jobs import write_lock
from rungproof.records.codec import parse
from rungproof.records.plan import Plan

with job(snakemake.log[0]):
    plan = parse(Plan, snakemake.params.plan.encode(), "the plan of this run")
    write_lock(plan, dict(snakemake.params.expected_s), Path(snakemake.output.lock).parent)
