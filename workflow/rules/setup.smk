# Environments and models of real lanes, each in a folder named by the digest of its lock or recipe.
# Needs: envs/*.lock, config/models/. Makes: <build>/envs/*.ready, <build>/models/*.ready (copies of the manifests).
# The outputs lie beside the folders, not in them: Snakemake removes the outputs of a job that it starts again, and must
# not take the manifest of 2.5 GB that are whole. The digest in the name is what makes a folder new, not a file's age.


rule environment:
    output:
        ready="<build>/envs/{name}-{digest}.ready",
    log:
        "<build>/logs/environment.{name}-{digest}.log",
    wildcard_constraints:
        name="[a-z0-9][a-z0-9_-]*",
        digest="[0-9a-f]+",
    conda:
        "../../envs/orchestrator.yaml"
    params:
        lock="envs/{name}.lock",
    script:
        "../scripts/environment.py"


rule checkpoint_files:
    input:
        unpack(model_parts),
    output:
        ready="<build>/models/{name}-{digest}.ready",
    log:
        "<build>/logs/model.{name}-{digest}.log",
    wildcard_constraints:
        name="[a-z0-9][a-z0-9_-]*",
        digest="[0-9a-f]+",
    conda:
        "../../envs/orchestrator.yaml"
    params:
        recipe=lambda wildcards: model_section(wildcards).recipe,
        lock=lambda wildcards: model_section(wildcards).lock or "",
    script:
        "../scripts/model.py"
