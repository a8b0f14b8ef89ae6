"""Where a server that already runs is found, and which model it serves."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import requests

from rungproof.judge.meaning import error_text
from rungproof.measure.client import Address, Planned
from rungproof.measure.client.planned import check
from rungproof.records.errors import ConfigError, ServerError

EXAMPLE = "http://127.0.0.1:8000"
MAX_BODY = 64 * 1024  # bytes of an error that are read for its words
TIMEOUT_S = 10.0  # of the one control call


@dataclass(frozen=True, slots=True)
class Target:
    """A server. `base`: its URL without `/v1`; `path`: the path of its completions."""

    address: Address
    base: str
    path: str


def parse_url(url: str) -> Target:
    """The server behind `url`, with or without a base path and `/v1`. Raises ConfigError."""
    try:
        parts = urlsplit(url)
        tls = parts.scheme == "https"
        host, port = parts.hostname or "", parts.port or (443 if tls else 80)
    except ValueError as error:
        raise ConfigError(f"--url {url}: {error}; expected http://HOST:PORT, for example {EXAMPLE}") from error
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or "@" in parts.netloc:
        raise ConfigError(
            f"--url {url}: expected http://HOST:PORT with a base path at most (no user, query or fragment), for example {EXAMPLE}"
        )
    root = parts.path.rstrip("/").removesuffix("/completions").removesuffix("/v1").rstrip("/")
    base = f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}{root}"
    target = Target(Address(host, port, tls), base, f"{root}/v1/completions")
    try:
        check(target.address, target.path, [Planned("k", {})], 1.0, 1.0)
    except ValueError as error:
        raise ConfigError(f"--url {url}: {error}") from error
    return target


def find_model(target: Target) -> str:
    """The one model that the server lists. Raises ServerError when it does not say, ConfigError when it lists none or several."""
    where = f"{target.base}/v1/models"
    names = _listed(where)
    if len(names) != 1:
        found = ", ".join(names[:20]) if names else "none"
        raise ConfigError(f"{where}: lists {len(names)} models ({found}); say which one with --model NAME")
    return names[0]


def find_engine(target: Target) -> str:
    """The engine that wants to be asked in its own way for token ids, as far as /v1/models tells; "" for any other."""
    try:
        owners = [item.get("owned_by") for item in _listing(f"{target.base}/v1/models")]
    except ServerError:
        return ""
    return "llama.cpp" if "llamacpp" in owners else ""


def _listed(where: str) -> list[str]:
    return [str(item["id"]) for item in _listing(where) if isinstance(item.get("id"), str)]


def _listing(where: str) -> list[dict[str, Any]]:
    remedy = "check --url, or name the model with --model NAME"
    with requests.Session() as session:
        session.trust_env = False
        try:
            answer = session.get(where, timeout=TIMEOUT_S, allow_redirects=False)
        except requests.RequestException as error:
            raise ServerError(f"{where}: no answer ({_cause(error)}); is the server running? {remedy}") from error
    if answer.status_code != 200:
        said = error_text(answer.content[:MAX_BODY]) or "no words"
        raise ServerError(f"{where}: HTTP status {answer.status_code} ({said}); expected a list of models; {remedy}")
    try:
        value = answer.json()
    except (ValueError, RecursionError) as error:
        raise ServerError(f"{where}: the answer is not JSON; expected a list of models; {remedy}") from error
    listed = value.get("data") if isinstance(value, dict) else None
    if not isinstance(listed, list):
        raise ServerError(f"{where}: the answer holds no list `data`; expected a list of models; {remedy}")
    return [item for item in listed if isinstance(item, dict)]


def _cause(error: BaseException) -> str:
    """The operating system's own words where there are some, since the library's repeat themselves."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.strerror:
            return seen.strerror
        reason = (
            seen.args[0] if seen.args and isinstance(seen.args[0], BaseException) else getattr(seen, "reason", None)
        )
        seen = reason if isinstance(reason, BaseException) else seen.__cause__ or seen.__context__
    return "timed out" if isinstance(error, requests.Timeout) else type(error).__name__
