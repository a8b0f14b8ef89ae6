from pathlib import Path

from rungproof.measure.accept import write_gates
from rungproof.measure.job import job
from rungproof.records.codec import parse
from rungproof.records.plan import Gate

with job(snakemake.log[0]):
    gates = [parse(Gate, text.encode(), "a gate of this plan") for text in snakemake.params.gates]
    to = {Path(path).stem: Path(path) for path in snakemake.output}
    write_gates(next(iter(to.values())).parents[1], gates, [Path(path) for path in snakemake.input.judged], to)
