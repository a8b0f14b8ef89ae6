from pathlib import Path

from rungproof.measure.job import aloud, job
from rungproof.measure.models.checkpoints import Sources, make_checkpoint

with job(snakemake.log[0]):
    source = Path(snakemake.input.source)
    sources = Sources(model=source.parent) if source.name == "manifest.json" else Sources(lock=source)
    python = Path(snakemake.input.environment).parent / "bin/python"
    recipe = {"name": snakemake.wildcards.name, "recipe": snakemake.params.recipe}
    make_checkpoint(recipe, python, Path(snakemake.output.manifest).parent, sources, Path(snakemake.log[0] + ".recipe"), aloud)
