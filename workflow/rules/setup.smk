# Environments and models of real lanes, each in a folder named by the digest of its lock or recipe; what lies on the machine
# already (envs/NAME.packages, a model's `files`) is a link of such a name, checked against its list.
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
        lock=lambda wildcards: str(pins_of(ROOT, wildcards.name)),
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
        recipe=lambda wildcards: model_section(wildcards).recipe or "",
        lock=lambda wildcards: model_section(wildcards).lock or "",
        files=lambda wildcards: model_section(wildcards).files or "",
    script:
        "../scripts/model.py"
