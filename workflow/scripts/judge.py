from pathlib import Path

from rungproof.measure.accept import judge_item
from rungproof.measure.job import job
from rungproof.records.codec import parse
from rungproof.records.plan import Item

session = Path(snakemake.input.closed).parent
with job(snakemake.log[0]):
    item = parse(Item, snakemake.params.item.encode(), "the item of this plan")
    judge_item(session.parents[1], session.name, item, snakemake.params.launch, snakemake.params.judge)
