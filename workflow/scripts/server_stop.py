from pathlib import Path

from rungproof.measure.job import job
from rungproof.measure.jobs import stop_server

session = Path(snakemake.output.closed).parent
with job(snakemake.log[0]):
    stop_server(session.parents[1], session.name)
