from pathlib import Path

from rungproof.measure.job import job
from rungproof.measure.models.environments import make_environment
from rungproof.measure.models.given import recheck_environment
from rungproof.measure.models.ready import mark_ready
from rungproof.measure.terminal import aloud

with job(snakemake.log[0]):
    name, pins, to = snakemake.wildcards.name, Path(snakemake.params.lock), Path(snakemake.output.ready).with_suffix("")
    if pins.suffix == ".packages":
        recheck_environment(name, pins, to)
    else:
        make_environment(name, pins, to, None, Path(snakemake.log[0] + ".pip"), aloud)
        mark_ready(to, "lock_sha256", snakemake.wildcards.digest, Path(snakemake.output.ready))
