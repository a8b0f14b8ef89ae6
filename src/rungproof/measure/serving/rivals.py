"""Arms that turn out to be one and the same server: what is effective in each is compared, not what was asked."""

from pathlib import Path
from typing import Any

from rungproof.measure.serving.engines.engine import Engine, text
from rungproof.measure.serving.order import Order
from rungproof.records.codec import digest, read
from rungproof.records.errors import EvidenceError
from rungproof.records.formats import Reason, Server

KEPT = ("engine", "launcher", "environment_sha256", "container", "model", "model_sha256", "command", "program")


def effective(engine: Engine, order: Order, log: str) -> dict[str, Any]:
    """The configuration in force: for each argument what the engine states, and what was asked where it states nothing.

    An argument written out that is the engine's default anyway is thus equal to one that was left away, as far as the
    engine tells its defaults. What is demanded of the log is no part of it: it changes nothing in the server.
    """
    arguments = {key: text(value) for key, value in order.arguments.items()}
    kept = {key: order.launch[key] for key in KEPT if order.launch.get(key)}
    return {**kept, "arguments": {**arguments, **engine.stated(log)}, "variables": order.variables}


def equal(sessions: Path, order: Order, sha256: str) -> tuple[Reason, ...]:
    """A reason if a server of another arm of this plan runs, or ran, in the same configuration. `sessions`: their folder."""
    for path in sorted(sessions.glob("*/server.json")):
        try:
            other = read(Server, path)
        except EvidenceError:
            continue
        if other.arm == order.arm or other.status != "ready" or other.launch_sha256 not in order.rivals:
            continue
        if other.identity.get("effective_sha256") == sha256:
            found = f"the same as arm {other.arm} (session {other.session})"
            expected = "a configuration of its own: comparing two arms that are one would measure nothing"
            return (Reason("effective configuration", found, expected, f"arm {order.arm}"),)
    return ()


def of(engine: Engine, order: Order, log: str) -> dict[str, Any]:
    """`effective` and its digest, for the identity."""
    found = effective(engine, order, log)
    return {"effective": found, "effective_sha256": digest(found)}
