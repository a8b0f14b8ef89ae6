from pathlib import Path

from rungproof.measure.job import job
from rungproof.measure.terminal import aloud
from rungproof.publish.pack import build

with job(snakemake.log[0]):
    pack = build(Path(snakemake.params.study), Path(snakemake.params.reports), Path(snakemake.params.root))
    aloud(str(pack))
