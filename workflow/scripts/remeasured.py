from pathlib import Path

from rungproof.measure.accept import remeasured
from rungproof.measure.job import job

with job(snakemake.log[0]):
    remeasured(Path(snakemake.input.judged))
    Path(snakemake.output.mark).write_text("accepted\n")
