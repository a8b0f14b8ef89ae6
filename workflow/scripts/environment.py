from pathlib import Path

from rungproof.measure.job import aloud, job
from rungproof.measure.models.environments import make_environment

with job(snakemake.log[0]):
    to = Path(snakemake.output.ready).with_suffix("")
    make_environment(
        snakemake.wildcards.name, Path(snakemake.params.lock), to, None, Path(snakemake.log[0] + ".pip"), aloud
    )
    Path(snakemake.output.ready).write_bytes((to / "manifest.json").read_bytes())
