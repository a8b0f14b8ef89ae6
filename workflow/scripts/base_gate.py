from pathlib import Path

from rungproof.measure.accept import base_gate
from rungproof.measure.job import job
from rungproof.records.codec import read
from rungproof.records.plan import Plan

with job(snakemake.log[0]):
    plan = read(Plan, Path(snakemake.input.lock))
    gate = next(g for g in plan.gates if g.id == snakemake.params.gate)
    study = Path(snakemake.input.lock).parents[2]
    base_gate(
        study, plan, gate, dict(snakemake.params.sessions), snakemake.params.judge, Path(snakemake.output.verdict)
    )
