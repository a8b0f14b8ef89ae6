from pathlib import Path

from rungproof.measure.job import job
from rungproof.measure.models.checkpoints import Sources, make_checkpoint
from rungproof.measure.models.ready import mark_ready
from rungproof.measure.terminal import aloud

with job(snakemake.log[0]):
    lock, source = snakemake.params.lock, snakemake.input.source
    sources = Sources(lock=Path(lock)) if lock else Sources(model=Path(source[0]).with_suffix(""))
    python = Path(snakemake.input.environment).with_suffix("") / "bin/python"
    to = Path(snakemake.output.ready).with_suffix("")
    recipe = {"name": snakemake.wildcards.name, "recipe": snakemake.params.recipe}
    make_checkpoint(recipe, python, to, sources, Path(snakemake.log[0] + ".recipe"), aloud)
    mark_ready(to, "recipe_sha256", snakemake.wildcards.digest, Path(snakemake.output.ready))
