"""What an oracle is bound to beyond the launch: any change there makes it stale."""

from rungproof.records.codec import digest
from rungproof.records.formats import Server

# Arguments that change how a model is laid out over devices or which numbers its kernels work in; never those of speculation.
LAYOUT = (
    "tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size", "enable-expert-parallel", "dtype", "quantization",
    "kv-cache-dtype",
)  # fmt: skip


def identity_parts(server: Server) -> dict[str, str]:
    """What an oracle is bound to beyond the launch, a digest each: image, parallelism, model files, packages, engine, kernels
    and their census, processor."""
    identity, launch = server.identity, server.launch
    model = identity.get("model") or {}
    arguments = launch.get("arguments") or {}
    bound: dict[str, object] = {name: identity.get(name) for name in ("packages", "engine_version", "kernel", "python")}
    bound["kernel census"] = identity.get("census")
    bound["image"] = launch.get("image")
    bound["parallelism"] = {name: arguments[name] for name in LAYOUT if name in arguments}
    bound["model"] = model.get("files") if isinstance(model, dict) else None
    bound["processor"] = server.environment.get("cpu_model")
    return {name.replace("_", " "): digest(value)[:16] for name, value in bound.items()}


def identity_of(server: Server) -> str:
    """One digest over all of `identity_parts`."""
    return digest(identity_parts(server))
