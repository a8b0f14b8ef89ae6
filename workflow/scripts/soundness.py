from pathlib import Path

from rungproof.measure.accept import write_soundness
from rungproof.measure.job import job

with job(snakemake.log[0]):
    verdicts = {Path(path).stem: Path(path) for path in snakemake.output}
    study = next(iter(verdicts.values())).parents[1]
    write_soundness(study, [Path(path) for path in snakemake.input.judged], verdicts)
