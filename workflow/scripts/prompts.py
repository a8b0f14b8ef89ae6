from pathlib import Path

from rungproof.config.load import load
from rungproof.measure.job import job
from rungproof.measure.prompts import write_prompts
from rungproof.records.codec import read
from rungproof.records.plan import Plan

with job(snakemake.log[0]):
    environment, model = [Path(path).with_suffix("") for path in snakemake.input.lane] or (None, None)
    python = environment / "bin/python" if environment else None
    loaded = load(Path(snakemake.params.root), snakemake.params.campaign, snakemake.params.host)
    plan = read(Plan, Path(snakemake.input.lock))
    write_prompts(loaded, plan, snakemake.wildcards.workload, python, model, Path(snakemake.output.prompts))
