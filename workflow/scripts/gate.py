from pathlib import Path

from rungproof.measure.accept import write_gate
from rungproof.measure.job import job
from rungproof.records.codec import parse
from rungproof.records.plan import Gate

with job(snakemake.log[0]):
    gate = parse(Gate, snakemake.params.gate.encode(), "the gate of this plan")
    subject, oracle = ([Path(path) for path in side] for side in (snakemake.input.subject, snakemake.input.oracle))
    to = Path(snakemake.output.verdict)
    write_gate(to.parents[1], gate, subject, oracle, to)
