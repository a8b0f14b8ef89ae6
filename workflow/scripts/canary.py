from pathlib import Path

from rungproof.measure.job import job
from rungproof.measure.jobs import canary

session = Path(snakemake.output.canary).parent
with job(snakemake.log[0], session):
    canary(session.parents[1], session.name, snakemake.params.when)
