from pathlib import Path

from rungproof.measure.job import job
from rungproof.measure.models.checkpoints import Sources, make_checkpoint
from rungproof.measure.models.given import recheck_model
from rungproof.measure.models.ready import mark_ready
from rungproof.measure.terminal import aloud

with job(snakemake.log[0]):
    name, asked, ready = snakemake.wildcards.name, snakemake.params, Path(snakemake.output.ready)
    if asked.files:
        recheck_model(name, Path(asked.files), ready.with_suffix(""), aloud)
    else:
        python = Path(snakemake.input.environment).with_suffix("") / "bin/python"
        recipe, log = {"name": name, "recipe": asked.recipe}, Path(snakemake.log[0] + ".recipe")
        sources = Sources.of(asked.lock, snakemake.input.source)
        make_checkpoint(recipe, python, ready.with_suffix(""), sources, log, aloud)
        mark_ready(ready.with_suffix(""), "recipe_sha256", snakemake.wildcards.digest, ready)
