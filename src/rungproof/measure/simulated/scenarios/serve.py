"""Which scenario a request asks for, and serving it."""

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Any

from rungproof.measure.simulated import wire
from rungproof.measure.simulated.metrics import Counters, render
from rungproof.measure.simulated.scenarios.crowds import LOOKS
from rungproof.measure.simulated.scenarios.scenario import Scenario
from rungproof.measure.simulated.scenarios.table import SCENARIOS
from rungproof.measure.simulated.scenarios.talk import Hub, Talk

_PATH = re.compile(r"/(S[0-9]{2}[a-z]?)(/.*)")
_POSTS = ("/v1/completions", "/v1/chat/completions")


@dataclass(frozen=True, slots=True)
class Chosen:
    """The scenario a request asks for, and the path behind its name."""

    scenario: Scenario
    path: str


def chosen(request: wire.Request) -> Chosen | None:
    """The scenario named by the path, or by the model of a completions request; None for an ordinary request."""
    match = _PATH.fullmatch(request.path)
    if match is not None and match[1] in SCENARIOS:
        return Chosen(SCENARIOS[match[1]], match[2])
    if request.path in _POSTS:
        model = _object(request.body).get("model")
        if isinstance(model, str) and model in SCENARIOS:
            return Chosen(SCENARIOS[model], request.path)
    return None


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


async def answer(
    hub: Hub, what: Chosen, request: wire.Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    """Play the scenario, or one of its pages; whether the connection can serve another request. Raises Refused."""
    name = what.scenario.name
    if what.path in _POSTS and request.method == "POST":
        ask = _object(request.body)
        talk = Talk(name, hub, ask, request.body, "/chat/" in what.path, reader, writer)
        hub.served[name] += 1
        hub.in_flight[name] += 1
        hub.peak[name] = max(hub.peak[name], hub.in_flight[name])
        try:
            await what.scenario.play(talk)
        finally:
            hub.in_flight[name] -= 1
        return False
    await _page(hub, what, request, writer)
    return request.keep_alive


async def _page(hub: Hub, what: Chosen, request: wire.Request, writer: asyncio.StreamWriter) -> None:
    name, path, keep = what.scenario.name, what.path, request.keep_alive
    if path == "/health":
        hub.looks[name] += 1
        status = 503 if name == "S55" and hub.looks[name] <= LOOKS else 200
        await wire.send(writer, status, "text/plain", b"", keep)
    elif path == "/v1/models":
        model = {"id": name, "object": "model", "max_model_len": 131_072}
        await wire.send_json(writer, 200, {"object": "list", "data": [model]}, keep)
    elif path == "/metrics":
        counters = Counters(generation_tokens=hub.served[name] * what.scenario.tokens)
        counters.preemptions = hub.served[name] * 3 if name == "S64" else 0
        text = render(counters, name, hub.in_flight[name], 0)
        await wire.send(writer, 200, "text/plain; version=0.0.4; charset=utf-8", text.encode(), keep)
    else:
        raise wire.Refused(404, f"scenario {name} has no {request.method} {path}")
