"""A small asyncio server in a thread that answers well, badly or not at all, by the path that is asked for."""

import asyncio
import json
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from rungproof.measure.client import Address

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter, bytes], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
TOKENS = 6


def event(value: Any) -> bytes:
    """One server-sent event as one chunk of a chunked body."""
    text = value if isinstance(value, str) else json.dumps(value)
    data = f"data: {text}\n\n".encode()
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def token(number: int, finish: str | None = None) -> bytes:
    """One token, its text the server's own send stamp."""
    choice = {"index": 0, "text": str(time.monotonic_ns()), "token_ids": [number], "finish_reason": finish}
    return event({"choices": [choice]})


def ending(count: int = TOKENS) -> bytes:
    """Usage, [DONE], end of the chunked body."""
    use = {"prompt_tokens": 1, "completion_tokens": count}
    return event({"choices": [], "usage": use}) + event("[DONE]") + END


async def normal(_: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes, step_s: float = 0.005) -> None:
    """A good stream, a token each few milliseconds."""
    writer.write(HEAD)
    for number in range(TOKENS):
        writer.write(token(number, "length" if number == TOKENS - 1 else None))
        await writer.drain()
        await asyncio.sleep(step_s)
    writer.write(ending())


async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> None:
    """A good stream that takes more than a second: what begins with it is still there when all have begun."""
    await normal(reader, writer, body, 0.2)


async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> None:
    """A good stream, a byte a write."""
    whole = HEAD + token(0) + token(1, "length") + ending(2)
    for at in range(len(whole)):
        writer.write(whole[at : at + 1])
        await writer.drain()
        await asyncio.sleep(0)


async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> None:
    """Two tokens, then a reset."""
    writer.write(HEAD + token(0) + token(1))
    await writer.drain()
    await asyncio.sleep(0.5)  # what its peer has not read by then is lost to it
    handle = writer.get_extra_info("socket")
    handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    writer.transport.abort()


async def early(_: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> None:
    """Two tokens, then a clean end of the connection."""
    writer.write(HEAD + token(0) + token(1))


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> None:
    """Two tokens, then nothing, for as long as the client stays."""
    writer.write(HEAD + token(0) + token(1))
    await writer.drain()
    await reader.read()


async def open_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> None:
    """A good stream on a connection that the server keeps open."""
    await normal(reader, writer, body)
    await reader.read()


async def refusing(_: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> None:
    """Status 503."""
    writer.write(b"HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy")


async def echo(_: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> None:
    """The request's body, as it came."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)


async def noise(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> None:
    """No HTTP at all, and the connection stays open."""
    writer.write(b"\x16\x03\x01 hello\r\n")
    await writer.drain()
    await reader.read()


async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> None:
    """A body without end."""
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b": " + b"x" * 1_000_000)
        await writer.drain()


HANDLERS: dict[str, Handler] = {
    "/normal": normal, "/drip": drip, "/reset": reset, "/early": early, "/silent": silent, "/open": open_end,
    "/503": refusing, "/slow": slow, "/echo": echo, "/noise": noise, "/flood": flood,
}  # fmt: skip


class Server:
    """An asyncio server in a thread; `hits` holds (path, head, monotonic time the request was read [ns])."""

    def __init__(self, host: str, tls: ssl.SSLContext | None = None) -> None:
        self.hits: list[tuple[str, str, int]] = []
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._failed: OSError | None = None
        self._thread = threading.Thread(target=self._run, args=(host, tls), daemon=True)
        self._thread.start()
        assert self._ready.wait(60)
        if self._failed is not None:
            raise self._failed

    def _run(self, host: str, tls: ssl.SSLContext | None) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            server = self._loop.run_until_complete(asyncio.start_server(self._serve, host, 0, backlog=256, ssl=tls))
        except OSError as error:
            self._failed = error
            self._ready.set()
            return
        name = server.sockets[0].getsockname()
        self.address = Address(name[0], name[1])
        self._ready.set()
        self._loop.run_forever()
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next(int(line[15:]) for line in head.split("\r\n") if line.lower().startswith("content-length:"))
            body = await reader.readexactly(length)
            path = head.split(" ")[1]
            self.hits.append((path, head, time.monotonic_ns()))
            await HANDLERS[path](reader, writer, body)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def close(self) -> None:
        """Stop the loop and the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        assert not self._thread.is_alive()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()
