from pathlib import Path

from rungproof.measure.accept import accept
from rungproof.measure.job import job

with job(snakemake.log[0]):
    accept([Path(path) for path in snakemake.input.judged], Path(snakemake.output.accepted))
