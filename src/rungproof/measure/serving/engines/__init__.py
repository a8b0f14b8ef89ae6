"""Engines by the name that a lane gives them."""

from rungproof.measure.serving.engines import simulated, vllm
from rungproof.measure.serving.engines.engine import Engine
from rungproof.records.errors import ConfigError

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (vllm.ENGINE, simulated.ENGINE)}


def find(name: str) -> Engine:
    """The engine of this name. Raises ConfigError."""
    try:
        return ENGINES[name]
    except KeyError:
        raise ConfigError(f"engine {name!r} is not known; expected one of {', '.join(sorted(ENGINES))}") from None
