# Environments and models of real lanes, each in a folder named by the digest of its lock or recipe.
# Needs: envs/*.lock, config/models/. Makes: <build>/envs/*/manifest.json, <build>/models/*/manifest.json.


rule environment:
    output:
        manifest=BUILD + "/envs/{name}-{digest}/manifest.json",
    input:
        lock="envs/{name}.lock",
    log:
        BUILD + "/logs/environment.{name}-{digest}.log",
    conda:
        "../../envs/orchestrator.yaml"
    wildcard_constraints:
        name="[a-z0-9][a-z0-9_-]*",
        digest="[0-9a-f]+",
    script:
        "../scripts/environment.py"


def model_parts(wildcards):
    """The manifest of the environment that makes the model, and its lock file or the model it starts from."""
    for name in CAMPAIGNS:
        the_loaded = loaded(name)
        if wildcards.name in the_loaded.models and not the_loaded.simulated:
            model = the_loaded.models[wildcards.name]
            lanes = [lane for lane in the_loaded.lanes.values() if wildcards.name == lane.model or model_is_source(the_loaded, wildcards.name, lane.model)]
            environment = builds.build_folder(BUILD, "envs", lanes[0].environment, builds.environment_digest(ROOT, lanes[0].environment))
            source = (
                builds.build_folder(BUILD, "models", model.source, builds.model_digest(ROOT, the_loaded.models, model.source)) + "/manifest.json"
                if model.source
                else model.lock
            )
            return {"environment": environment + "/manifest.json", "source": source}
    raise WorkflowError(f"{wildcards.name}: no lane of any campaign uses this model")


def model_is_source(the_loaded, name, of):
    source = the_loaded.models[of].source
    return source == name or (source is not None and model_is_source(the_loaded, name, source))


rule checkpoint_files:
    output:
        manifest=BUILD + "/models/{name}-{digest}/manifest.json",
    input:
        unpack(model_parts),
    params:
        recipe=lambda wildcards: next(loaded(c).models[wildcards.name].recipe for c in CAMPAIGNS if wildcards.name in loaded(c).models),
    log:
        BUILD + "/logs/model.{name}-{digest}.log",
    conda:
        "../../envs/orchestrator.yaml"
    wildcard_constraints:
        name="[a-z0-9][a-z0-9_-]*",
        digest="[0-9a-f]+",
    script:
        "../scripts/model.py"


def lane_files(arm):
    """Manifests of an arm's environment and model; none on the simulated server."""
    if arm.engine == "simulated":
        return []
    launch = arm.launch
    return [
        builds.build_folder(BUILD, "envs", arm.environment, launch["environment_sha256"]) + "/manifest.json",
        builds.build_folder(BUILD, "models", arm.model, launch["model_sha256"]) + "/manifest.json",
    ]
