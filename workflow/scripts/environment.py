from pathlib import Path

from rungproof.measure.job import job
from rungproof.measure.models.environments import make_environment
from rungproof.measure.models.ready import mark_ready
from rungproof.measure.terminal import aloud

with job(snakemake.log[0]):
    to = Path(snakemake.output.ready).with_suffix("")
    make_environment(
        snakemake.wildcards.name, Path(snakemake.params.lock), to, None, Path(snakemake.log[0] + ".pip"), aloud
    )
    mark_ready(to, "lock_sha256", snakemake.wildcards.digest, Path(snakemake.output.ready))
