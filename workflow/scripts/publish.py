import os
from pathlib import Path

from rungproof.measure.job import job
from rungproof.measure.terminal import aloud
from rungproof.publish.pack import build
from rungproof.publish.signing import find_signer
from rungproof.publish.site import build_site

with job(snakemake.log[0]):
    asked = snakemake.params
    study, reports, root = Path(asked.study), Path(asked.reports), Path(asked.root)
    signer, made = find_signer(asked.key, root, os.environ) if asked.sign == "yes" else (None, None)
    if made:
        aloud(f"{made}: a new signing key. Keep a copy: who loses it can no longer speak for what it signed.")
    aloud(str(build(study, reports, root, signer, asked.reason)))
    aloud(str(build_site(reports)))
