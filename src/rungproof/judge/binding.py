"""What an oracle is bound to beyond the launch: any change there makes it stale."""

from collections.abc import Mapping

from rungproof.records.codec import digest
from rungproof.records.formats import Server

CENSUS = "census "  # begins the names of knobs that hold what a census line of the server's own log captured

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
    if identity.get("programs"):  # of a server that is no Python program; others keep the digest that they had
        bound["programs"] = identity["programs"]
    bound |= {knob.name: knob.found for knob in server.knobs if knob.name.startswith(CENSUS)}
    bound["image"] = launch.get("image")
    bound["parallelism"] = {name: arguments[name] for name in LAYOUT if name in arguments}
    bound["model"] = model.get("files") if isinstance(model, dict) else None
    bound["processor"] = server.environment.get("cpu_model")
    return {name.replace("_", " "): digest(value)[:16] for name, value in bound.items()}


def identity_of(server: Server) -> str:
    """One digest over `identity_parts`, census lines left out: an arm may demand some that its base does not."""
    return digest({name: value for name, value in identity_parts(server).items() if not name.startswith(CENSUS)})


def differing(subject: Mapping[str, str], oracle: Mapping[str, str]) -> list[str]:
    """Names of the parts in which two servers differ. A census line counts where both of them have it; any other part always."""
    names = sorted({*subject, *oracle})
    both = [n for n in names if not n.startswith(CENSUS) or (n in subject and n in oracle)]
    return [n for n in both if subject.get(n) != oracle.get(n)]
