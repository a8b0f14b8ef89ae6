"""What is to be sent, and where to; made into bytes before the clock starts."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rungproof import __version__

_HOST = re.compile(r"[0-9A-Za-z._:%-]+")
_PATH = re.compile(r"/[!-~]*")


@dataclass(frozen=True)
class Address:
    """Where a server listens: a name, an IPv4 or an IPv6 address (without brackets), and a port; whether it speaks TLS."""

    host: str
    port: int
    tls: bool = False


@dataclass(frozen=True)
class Planned:
    """One request of a batch. `key` is its name, once in a batch; `delay_ns` after the barrier it is sent."""

    key: str
    body: dict[str, Any]
    delay_ns: int = 0


def body_bytes(body: dict[str, Any]) -> bytes:
    """The body as it goes over the wire: compact JSON in UTF-8. Raises ValueError or TypeError for what is no JSON."""
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode("utf-8")


def request_bytes(address: Address, path: str, body: bytes) -> bytes:
    """One POST, head and body. The connection is kept by default, yet it serves one request only."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    head = (
        f"POST {path} HTTP/1.1\r\n"
        f"Host: {host}:{address.port}\r\n"
        f"User-Agent: rungproof/{__version__}\r\n"
        "Accept: text/event-stream, application/json\r\n"
        "Accept-Encoding: identity\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
        "\r\n"
    )
    return head.encode("ascii") + body


def check(address: Address, path: str, planned: Sequence[Planned], deadline_s: float, idle_s: float) -> None:
    """Refuse what cannot be sent as asked. Raises ValueError."""
    if not _HOST.fullmatch(address.host) or not 0 < address.port < 2**16:
        raise ValueError(f"found the address {address.host!r}:{address.port}; expected a host and a port of 1 to 65535")
    if not _PATH.fullmatch(path):
        raise ValueError(f"found the path {path!r}; expected / and printable ASCII without spaces")
    keys = [request.key for request in planned]
    if not keys or len(set(keys)) != len(keys):
        raise ValueError(f"found {len(keys)} requests with {len(set(keys))} keys; expected at least one, each key once")
    if early := [request.key for request in planned if request.delay_ns < 0]:
        raise ValueError(f"request {early[0]!r} has a negative delay; expected 0 or more nanoseconds")
    if not deadline_s > 0 or not idle_s > 0:
        raise ValueError(f"found deadline {deadline_s} s and idle limit {idle_s} s; expected both above 0")
