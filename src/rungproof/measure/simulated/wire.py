"""The HTTP/1.1 of the simulated server: strict about what it reads, plain in what it writes."""

import asyncio
import http
import json
import re
from dataclasses import dataclass
from typing import Any

MAX_HEAD = 64 * 1024  # bytes of request line and headers
MAX_BODY = 16 * 1024 * 1024  # bytes; a prompt of 40,960 ids takes a quarter of a MiB
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class Refused(Exception):
    """A request that gets an error answer. `close`: the connection cannot be used further."""

    def __init__(self, status: int, message: str, *, close: bool = False, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.close = close
        self.param = param


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request; `path` without its query, header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    keep_alive: bool
    chunked: bool  # the peer may be answered in chunks (HTTP/1.1)


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    """The next request of a connection; None when the peer is done. Raises Refused for what is not HTTP/1."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError:
        raise Refused(431, f"request line and headers exceed {MAX_HEAD} bytes", close=True) from None
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not _NAME.fullmatch(words[0]) or words[2] not in ("HTTP/1.0", "HTTP/1.1"):
        raise Refused(400, "the request line is not `METHOD target HTTP/1.1`", close=True)
    headers = _headers(lines)
    modern = words[2] == "HTTP/1.1"
    wish = headers.get("connection", "").lower()
    body = await _body(headers, reader, writer)
    if body is None:
        return None
    keep = "close" not in wish if modern else "keep-alive" in wish
    return Request(words[0], words[1].split("?")[0], headers, body, keep, modern)


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        lower = name.lower()
        if not colon or not _NAME.fullmatch(name) or "\n" in value or "\r" in value or "\0" in value:
            raise Refused(400, "a header line is not `Name: value`", close=True)
        if lower == "content-length" and headers.get(lower, value.strip()) != value.strip():
            raise Refused(400, "Content-Length is given twice and differs", close=True)
        headers[lower] = value.strip()
    return headers


async def _body(headers: dict[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes | None:
    if "transfer-encoding" in headers:
        raise Refused(411, "send the body with Content-Length; Transfer-Encoding is not read here", close=True)
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit() and len(length) <= 18):
        raise Refused(400, "Content-Length is not a whole number", close=True)
    if int(length) > MAX_BODY:
        raise Refused(413, f"the body has {length} bytes; at most {MAX_BODY} are read", close=True)
    if int(length) and headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    try:
        return await reader.readexactly(int(length))
    except asyncio.IncompleteReadError:
        return None


def head(status: int, kind: str, keep_alive: bool, length: int | None) -> bytes:
    """Status line and headers; length None: the body comes in chunks, or until the close where keep_alive is False."""
    lines = [
        f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}",
        "server: rungproof-simulated",
        f"content-type: {kind}",
        f"connection: {'keep-alive' if keep_alive else 'close'}",
    ]
    if length is not None:
        lines.append(f"content-length: {length}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def chunked_head(keep_alive: bool) -> bytes:
    """The head of an event stream sent in chunks."""
    plain = head(200, "text/event-stream; charset=utf-8", keep_alive, None)
    return plain[:-2] + b"transfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body; of b"" the last one."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def error_body(status: int, message: str, param: str | None = None) -> dict[str, Any]:
    """An error object as vLLM's."""
    kinds = {400: "BadRequestError", 404: "NotFoundError", 500: "InternalServerError"}
    kind = kinds.get(status, http.HTTPStatus(status).phrase)
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


async def send_json(writer: asyncio.StreamWriter, status: int, value: object, keep_alive: bool) -> None:
    """A whole answer of one JSON value."""
    await send(writer, status, "application/json", json.dumps(value).encode(), keep_alive)


async def send(writer: asyncio.StreamWriter, status: int, kind: str, body: bytes, keep_alive: bool) -> None:
    """A whole answer."""
    writer.write(head(status, kind, keep_alive, len(body)) + body)
    await writer.drain()


async def linger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float = 0.5) -> None:
    """Read and forget what a refused peer still sends, so that the refusal is not lost in a connection reset."""
    try:
        writer.write_eof()
        async with asyncio.timeout(seconds):
            while await reader.read(MAX_HEAD):
                pass
    except (OSError, TimeoutError):
        return
