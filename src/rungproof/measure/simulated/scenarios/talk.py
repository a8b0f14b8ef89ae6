"""What a scenario can say: pieces of an answer, well formed or not, and ways to end it."""

import asyncio
import json
import socket
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rungproof.measure.simulated import wire

STEP_S = 0.004  # between events, unless a scenario says otherwise
FIRST_ID = 1000  # the id of token k is FIRST_ID + k
HOLD_S = 30.0  # a client that never goes away is let go of after so long


@dataclass(slots=True)
class Hub:
    """What the scenarios of one server process remember from request to request, by scenario."""

    in_flight: Counter[str] = field(default_factory=Counter)
    peak: Counter[str] = field(default_factory=Counter)
    served: Counter[str] = field(default_factory=Counter)
    prompts: Counter[str] = field(default_factory=Counter)
    looks: Counter[str] = field(default_factory=Counter)
    slots: dict[str, asyncio.Semaphore] = field(default_factory=dict)

    def slot(self, name: str, size: int) -> asyncio.Semaphore:
        """The slots of a scenario that serves only so many at once."""
        return self.slots.setdefault(name, asyncio.Semaphore(size))


class Talk:
    """One answer of one scenario. `number`: how many requests of it came before; `tokens`: max_tokens asked for."""

    def __init__(
        self, name: str, hub: Hub, ask: dict[str, Any], body: bytes, chat: bool,
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
    ) -> None:  # fmt: skip
        self.name = name
        self.hub = hub
        self.ask = ask
        self.body = body
        self.chat = chat
        self.number = hub.served[name]
        self.chunked = True
        self._reader = reader
        self._writer = writer
        wanted = ask.get("max_tokens")
        self.tokens = wanted if type(wanted) is int and 0 < wanted <= 4096 else 16
        prompt = ask.get("prompt")
        self.prompt_tokens = len(prompt) if isinstance(prompt, (list, str)) else 1

    async def raw(self, data: bytes) -> None:
        """Exactly these bytes, in a write of their own."""
        self._writer.write(data)
        await self._writer.drain()

    async def head(self, status: str = "200 OK", kind: str = "text/event-stream", chunked: bool = True) -> None:
        """Status line and headers; not chunked: the end of the connection ends the body."""
        self.chunked = chunked
        how = "transfer-encoding: chunked" if chunked else "connection: close"
        await self.raw(f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{how}\r\n\r\n".encode())

    async def send(self, data: bytes) -> None:
        """Bytes of the body, as one chunk where the body is chunked."""
        await self.raw(wire.chunk(data) if self.chunked else data)

    async def document(self, value: object, status: str = "200 OK") -> None:
        """A whole answer of one JSON document."""
        body = json.dumps(value).encode()
        head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        await self.raw(head.encode() + body)

    def event(self, value: object, end: str = "\n", prefix: str = "data: ") -> bytes:
        """One server-sent event: JSON of the value, or the words themselves."""
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return f"{prefix}{text}{end}{end}".encode()

    def piece(self, ids: Iterable[int], text: str, finish: str | None = None, **delta: Any) -> dict[str, Any]:
        """One streamed object; `delta` replaces the content of a chat's delta."""
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish, "token_ids": list(ids)}
        choice |= {"delta": delta or {"content": text}} if self.chat else {"text": text, "logprobs": None}
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        return {"id": "scenario", "object": kind, "model": self.name, "choices": [choice]}

    def usage(self, completion: int, **more: Any) -> dict[str, Any]:
        """The last object, without choices."""
        counts = {"prompt_tokens": self.prompt_tokens, "completion_tokens": completion} | more
        return {"id": "scenario", "object": "text_completion", "choices": [], "usage": counts}

    def token(self, k: int, last: int | None = None) -> bytes:
        """The event of token k; with the finish reason where it is the last one."""
        return self.event(self.piece([FIRST_ID + k], f"t{k} ", "length" if k == last else None))

    async def run(self, start: int, stop: int, last: int | None = None, step_s: float = STEP_S) -> None:
        """Tokens from `start` to before `stop`, one an event, a step between."""
        for k in range(start, stop):
            if k > start:
                await asyncio.sleep(step_s)
            await self.send(self.token(k, last))

    async def all(self, step_s: float = STEP_S) -> None:
        """Every token that was asked for, the last with its finish reason."""
        await self.run(0, self.tokens, self.tokens - 1, step_s)

    async def close(self, completion: int | None = None, **more: Any) -> None:
        """Usage, [DONE], and the end of the body."""
        await self.send(self.event(self.usage(self.tokens if completion is None else completion, **more)))
        await self.done()

    async def done(self) -> None:
        """[DONE] and the end of the body."""
        await self.send(self.event("[DONE]"))
        await self.end()

    async def end(self) -> None:
        """The end of a chunked body; one that is not chunked ends with the connection."""
        if self.chunked:
            await self.raw(b"0\r\n\r\n")

    async def pause(self, seconds: float) -> None:
        """Say nothing for a while."""
        await asyncio.sleep(seconds)

    async def hold(self) -> None:
        """Keep the connection open and say nothing until the client goes."""
        try:
            async with asyncio.timeout(HOLD_S):
                while await self._reader.read(65_536):
                    pass
        except (OSError, TimeoutError):
            return

    def reset(self) -> None:
        """Break the connection off with a reset."""
        handle = self._writer.get_extra_info("socket")
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self._writer.transport.abort()
