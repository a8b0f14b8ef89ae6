"""Any command that starts an OpenAI-compatible server: {python}, {model}, {name} and {port} stand for what is new each time.

What is asked is proven by the command line and the environment alone, and by the lane's own census lines: the log of an
unknown engine means nothing by itself.
"""

from collections.abc import Mapping
from typing import Any

from rungproof.measure.serving.engines.engine import Engine, render
from rungproof.measure.serving.order import Order
from rungproof.records.formats import Knob


def argv(order: Order, model: str, port: int) -> list[str]:
    """Its command line: the lane's words with their places filled, then the arguments."""
    places = {"{python}": order.python, "{model}": order.model_path, "{name}": model, "{port}": str(port)}
    words = []
    for word in order.launch.get("command", []):
        for place, value in places.items():
            word = word.replace(place, value)
        words.append(word)
    return [*words, *render(order.arguments)]


def _program(order: Order) -> str:
    return next(iter(argv(order, "", 0)), "")


def _no_knobs(_arguments: Mapping[str, Any], _log: str) -> tuple[Knob, ...]:
    return ()


def _nothing(_log: str) -> dict[str, str]:
    return {}


ENGINE = Engine("command", argv, _program, (), _no_knobs, _nothing, _nothing)
