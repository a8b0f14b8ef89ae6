"""The simulated server of the tests. Its launch is a real one: own process, own port, own log."""

import sys
from collections.abc import Mapping
from typing import Any

from rungproof.measure.serving.engines.engine import Engine, render
from rungproof.measure.serving.order import Order
from rungproof.records.formats import Knob


def argv(order: Order, model: str, port: int) -> list[str]:
    """Its command line."""
    fixed = [sys.executable, "-m", "rungproof.measure.simulated", "--port", str(port), "--served-model-name", model]
    return fixed + render(order.arguments)


def _log_knobs(_arguments: Mapping[str, Any], _log: str) -> tuple[Knob, ...]:
    return ()  # its log states no configuration; /proc does


def _nothing(_log: str) -> dict[str, str]:
    return {}


PHASES = (
    (r"Waiting for application startup", "loading"),
    (r"Application startup complete", "answering its first request"),
)
ENGINE = Engine(
    "simulated", argv, lambda _order: sys.executable, ("PYTHONPATH", "RUNGPROOF_SIM_FAULTS"), _log_knobs, _nothing, _nothing, render,
    ("/version", "version"), (), PHASES,
)  # fmt: skip
