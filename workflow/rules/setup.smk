# Environments and models of real lanes, each in a folder named by the digest of its lock or recipe.
# Needs: envs/*.lock, config/models/. Makes: <build>/envs/*.ready, <build>/models/*.ready (copies of the manifests).
# The outputs lie beside the folders, not in them: Snakemake removes the outputs of a job that it starts again, and must
# not take the manifest of 2.5 GB that are whole. The digest in the name is what makes a folder new, not a file's age.


rule environment:
    output:
        ready=BUILD + "/envs/{name}-{digest}.ready",
    log:
        BUILD + "/logs/environment.{name}-{digest}.log",
    wildcard_constraints:
        name="[a-z0-9][a-z0-9_-]*",
        digest="[0-9a-f]+",
    conda:
        "../../envs/orchestrator.yaml"
    params:
        lock="envs/{name}.lock",
    script:
        "../scripts/environment.py"


def model_parts(wildcards):
    """The environment that makes the model, and the model it starts from, if any."""
    for name in CAMPAIGNS:
        the_loaded = loaded(name)
        if wildcards.name in the_loaded.models and not the_loaded.simulated:
            model = the_loaded.models[wildcards.name]
            lanes = [
                lane
                for lane in the_loaded.lanes.values()
                if wildcards.name == lane.model
                or model_is_source(the_loaded, wildcards.name, lane.model)
            ]
            environment = builds.build_folder(
                BUILD,
                "envs",
                lanes[0].environment,
                builds.environment_digest(ROOT, lanes[0].environment),
            )
            source = (
                [
                    builds.build_folder(
                        BUILD,
                        "models",
                        model.source,
                        builds.model_digest(ROOT, the_loaded.models, model.source),
                    )
                    + ".ready"
                ]
                if model.source
                else []
            )
            return {"environment": environment + ".ready", "source": source}
    raise WorkflowError(f"{wildcards.name}: no lane of any campaign uses this model")


def model_section(wildcards):
    return next(
        loaded(c).models[wildcards.name]
        for c in CAMPAIGNS
        if wildcards.name in loaded(c).models
    )


def model_is_source(the_loaded, name, of):
    source = the_loaded.models[of].source
    return source == name or (
        source is not None and model_is_source(the_loaded, name, source)
    )


rule checkpoint_files:
    input:
        unpack(model_parts),
    output:
        ready=BUILD + "/models/{name}-{digest}.ready",
    log:
        BUILD + "/logs/model.{name}-{digest}.log",
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


def lane_files(arm):
    """Ready marks of an arm's environment and model; none on the simulated server."""
    if arm.engine == "simulated":
        return []
    launch = arm.launch
    return [
        builds.build_folder(
            BUILD, "envs", arm.environment, launch["environment_sha256"]
        )
        + ".ready",
        builds.build_folder(BUILD, "models", arm.model, launch["model_sha256"])
        + ".ready",
    ]
