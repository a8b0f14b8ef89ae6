"""Builders of what servers send: events, chunks, whole responses."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

TOKENS = 5
PROMPT = 7
IDS = (11, 12, 13, 14, 15)
WORDS = ("The ", "quick", " 狐 ", "été", " jumps")


def head(status: str = "200 OK", *fields: str) -> bytes:
    """Status line and header fields of a response."""
    lines = [f"HTTP/1.1 {status}", "content-type: text/event-stream", *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def event(value: Any, end: str = "\n", prefix: str = "data: ") -> bytes:
    """One server-sent event: JSON of the value, or the words themselves."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"{prefix}{text}{end}{end}".encode()


def piece(ids: Sequence[int], text: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """One streamed completions object."""
    choice: dict[str, Any] = {
        "index": 0,
        "text": text,
        "logprobs": None,
        "finish_reason": finish,
        "token_ids": list(ids),
        **more,
    }
    return {"id": "cmpl-1", "object": "text_completion", "model": "m", "choices": [choice]}


def chat(delta: dict[str, Any], ids: Sequence[int] | None = None, finish: str | None = None) -> dict[str, Any]:
    """One streamed chat object."""
    choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": finish}
    if ids is not None:
        choice["token_ids"] = list(ids)
    return {"object": "chat.completion.chunk", "choices": [choice]}


def usage(completion: int = TOKENS, prompt: int = PROMPT, **more: Any) -> dict[str, Any]:
    """The last object of a stream, with usage and no choices."""
    counts: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion, **more}
    return {"object": "text_completion", "choices": [], "usage": counts}


def chunked(parts: Iterable[bytes], last: bool = True, extension: str = "") -> bytes:
    """The parts as chunks of a chunked body."""
    made = b"".join(f"{len(part):x}{extension}\r\n".encode() + part + b"\r\n" for part in parts)
    return made + (b"0\r\n\r\n" if last else b"")


def pieces() -> list[dict[str, Any]]:
    """Five tokens, one an event, the last with the finish reason."""
    ends = [None] * (TOKENS - 1) + ["length"]
    return [piece([i], word, end) for i, word, end in zip(IDS, WORDS, ends, strict=True)]


def stream(values: Iterable[Any], end: str = "\n", prefix: str = "data: ", **how: Any) -> bytes:
    """A chunked response of status 200 whose events are these."""
    return head("200 OK", "transfer-encoding: chunked") + chunked((event(v, end, prefix) for v in values), **how)


def closing(parts: Iterable[bytes]) -> bytes:
    """A response of status 200 without any length: the end of the connection ends it."""
    return head("200 OK", "connection: close") + b"".join(parts)


def plain(value: Any, status: str = "200 OK") -> bytes:
    """A response that is one JSON document with a content-length."""
    body = json.dumps(value).encode()
    return head(status, f"content-length: {len(body)}") + body
