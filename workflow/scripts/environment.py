from pathlib import Path

from rungproof.measure.job import aloud, job
from rungproof.measure.models.environments import make_environment

with job(snakemake.log[0]):
    make_environment(
        snakemake.wildcards.name,
        Path(snakemake.input.lock),
        Path(snakemake.output.manifest).parent,
        None,
        Path(snakemake.log[0] + ".pip"),
        aloud,
    )
