from pathlib import Path

from rungproof.measure.job import job
from rungproof.measure.starting import start_server

with job(snakemake.log[0]):
    gate = Path(snakemake.input.gate[0]) if snakemake.input.get("gate") else None
    study = Path(snakemake.output.server).parents[2]
    start_server(study, snakemake.wildcards.session, snakemake.params.build, gate)
