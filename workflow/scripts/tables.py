from pathlib import Path

from rungproof.measure.job import job
from rungproof.publish.collect import used
from rungproof.publish.tables import write_tables
from rungproof.records.codec import read
from rungproof.records.summary import Summary

with job(snakemake.log[0]):
    summary = read(Summary, Path(snakemake.input.summary))
    write_tables(summary, used([Path(path) for path in snakemake.input.judged]), Path(snakemake.output[0]).parent)
