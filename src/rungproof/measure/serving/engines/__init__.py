"""Engines by the name that a lane gives them; each is one small description."""

from rungproof.measure.serving.engines import command, llamacpp, sglang, simulated, vllm
from rungproof.measure.serving.engines.engine import Engine
from rungproof.records.errors import ConfigError

ENGINES: dict[str, Engine] = {
    engine.name: engine for engine in (vllm.ENGINE, sglang.ENGINE, llamacpp.ENGINE, command.ENGINE, simulated.ENGINE)
}


def find(name: str) -> Engine:
    """The engine of this name. Raises ConfigError."""
    try:
        return ENGINES[name]
    except KeyError:
        raise ConfigError(f"engine {name!r} is not known; expected one of {', '.join(sorted(ENGINES))}") from None
