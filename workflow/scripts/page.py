from pathlib import Path

from rungproof.measure.job import job
from rungproof.publish.pages import render
from rungproof.records.codec import read
from rungproof.records.summary import Summary

with job(snakemake.log[0]):
    render(read(Summary, Path(snakemake.input.summary)), Path(snakemake.output.page).parent)
