# A published plan measured again on this machine: snakemake replay --cores 1 --config pack=reports/NAME/ID
# Needs: a proof pack. Makes: build/replays/<pack>/ with results, a report and a line of proof. It hands over to a Snakemake of its
# own there, so that nothing of this checkout's configuration and results comes in.


rule replay:
    handover: True
    conda:
        "../../envs/orchestrator.yaml"
    resources:
        accelerator=1,
    params:
        python=sys.executable,
        root=str(ROOT),
        build=BUILD,
        pack=lambda wildcards: RUN_CONFIG.pack
        or fail("replay needs a pack: snakemake replay --cores 1 --config pack=PATH"),
    shell:
        "{params.python:q} -m rungproof.cli replay {params.pack:q} --yes --root {params.root:q} --build {params.build:q}"
