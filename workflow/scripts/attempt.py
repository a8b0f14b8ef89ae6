from pathlib import Path

from rungproof.measure.job import job
from rungproof.measure.jobs import attempt

session = Path(snakemake.output.attempt).parents[1]
with job(snakemake.log[0], session):
    attempt(session.parents[1], session.name, snakemake.wildcards.workload, snakemake.wildcards.item)
