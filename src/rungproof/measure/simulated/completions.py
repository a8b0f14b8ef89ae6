"""POST /v1/completions of the simulated server: checking the request, streaming or collecting the answer."""

import asyncio
import json
import math
import sys
import time
import uuid
from dataclasses import dataclass
from typing import Any, TypeVar

from rungproof.measure.simulated import wire
from rungproof.measure.simulated.answers import Answer, text_of, tokenise
from rungproof.measure.simulated.engine import FLIP_AT, Engine, Interrupted, Run, Step
from rungproof.measure.simulated.faults import BrokenFaults, Fault
from rungproof.measure.simulated.wire import Refused

DEFAULT_MAX_TOKENS = 16  # the interface's own default
_Kind = TypeVar("_Kind", int, bool)
_IN_BAND = "the simulated engine failed, as its faults file asks"


@dataclass(frozen=True, slots=True)
class Ask:
    """A checked request body."""

    prompt_ids: tuple[int, ...]
    prompt: str
    max_tokens: int
    ignore_eos: bool
    stream: bool
    include_usage: bool
    return_token_ids: bool
    logprobs: int | None


def check(body: bytes, model: str, max_model_len: int) -> Ask:
    """The request in `body`. Raises Refused (400 or 404) naming the parameter that is wrong."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise Refused(400, "the body is not JSON") from None
    if not isinstance(value, dict):
        raise Refused(400, f"the body must be a JSON object, found {type(value).__name__}")
    if value.get("model") not in (None, model):
        raise Refused(404, f"The model {str(value['model'])[:200]!r} does not exist.", param="model")
    ids, prompt = _prompt(value.get("prompt"))
    max_tokens = _typed(value, "max_tokens", int, DEFAULT_MAX_TOKENS)
    if max_tokens < 1:
        raise Refused(400, f"max_tokens must be at least 1, found {max_tokens}", param="max_tokens")
    if len(ids) + max_tokens > max_model_len:
        message = f"{len(ids)} prompt tokens and max_tokens {max_tokens} exceed the context of {max_model_len} tokens"
        raise Refused(400, message, param="max_tokens")
    _refuse_unsimulated(value)
    stream = _typed(value, "stream", bool, False)
    options = value.get("stream_options")
    if options is not None and not (stream and isinstance(options, dict)):
        raise Refused(400, "stream_options must be an object, and only with stream true", param="stream_options")
    return Ask(
        prompt_ids=ids,
        prompt=prompt,
        max_tokens=max_tokens,
        ignore_eos=_typed(value, "ignore_eos", bool, False),
        stream=stream,
        include_usage=_typed(options or {}, "include_usage", bool, False),
        return_token_ids=_typed(value, "return_token_ids", bool, False),
        logprobs=_logprobs(value),
    )


def _prompt(value: object) -> tuple[tuple[int, ...], str]:
    if isinstance(value, str):
        try:
            ids = tokenise(value)
        except UnicodeEncodeError:
            raise Refused(400, "the prompt holds a lone surrogate", param="prompt") from None
        prompt = value
    elif isinstance(value, list) and all(type(code) is int and 0 <= code < 2**31 for code in value):
        ids = tuple(value)
        prompt = text_of(ids)
    else:
        raise Refused(400, "prompt must be one string, or one list of token ids", param="prompt")
    if not ids:
        raise Refused(400, "the prompt is empty", param="prompt")
    return ids, prompt


def _logprobs(value: dict[str, Any]) -> int | None:
    """How many log probabilities a position is to have: none, or two."""
    found = value.get("logprobs")
    if found not in (None, 2) or type(found) not in (type(None), int):
        raise Refused(400, "logprobs other than 2 is not simulated", param="logprobs")
    return 2 if found == 2 else None


def _typed(value: dict[str, Any], key: str, kind: type[_Kind], default: _Kind) -> _Kind:
    found = value.get(key)
    if found is None:
        return default
    if type(found) is not kind:
        raise Refused(400, f"{key} must be of type {kind.__name__}, found {type(found).__name__}", param=key)
    return found


def _refuse_unsimulated(value: dict[str, Any]) -> None:
    """Sampling parameters are checked and then have no effect; what would change the answer's form is refused."""
    _typed(value, "seed", int, 0)
    temperature = value.get("temperature", 0)
    sane = temperature is None or (type(temperature) in (int, float) and 0 <= temperature < math.inf)
    if not sane:
        raise Refused(400, "temperature must be a number of at least 0", param="temperature")
    for key in ("n", "best_of"):
        if value.get(key) not in (None, 1):
            raise Refused(400, f"{key} other than 1 is not simulated", param=key)
    for key in ("echo", "prompt_logprobs", "stop", "stop_token_ids", "suffix"):
        found = value.get(key)
        if found not in (None, False, [], "") or type(found) is int:
            raise Refused(400, f"{key} is not simulated", param=key)


async def answer(
    engine: Engine, request: wire.Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    """Answer one completions request; whether the connection can serve another. Raises Refused."""
    ask = check(request.body, engine.model, engine.options.max_model_len)
    run = Run(ask.prompt_ids, ask.prompt, ask.max_tokens, ask.ignore_eos, _faults(engine))
    engine.admit(run)
    try:
        await engine.prefill()
        if engine.whole_answer_fault(run, "http_500"):
            raise Refused(500, "the simulated server failed, as its faults file asks")
        if engine.whole_answer_fault(run, "cache_hit"):
            engine.find_in_cache(run)
        exchange = _Exchange(engine, run, ask, request, writer)
        try:
            await (exchange.stream() if ask.stream else exchange.whole())
            return request.keep_alive and (request.chunked or not ask.stream)
        except Interrupted as fault:
            if fault.how == "hang":
                await writer.drain()
                while await reader.read(wire.MAX_HEAD):
                    pass
            return await exchange.interrupted(fault.how)
    finally:
        engine.leave(run)


def _faults(engine: Engine) -> tuple[Fault, ...]:
    try:
        return engine.faults.read()
    except BrokenFaults as error:
        print(f"ERROR: faults file: {error}", file=sys.stderr, flush=True)
        raise Refused(500, f"faults file: {error}") from error


class _Exchange:
    """The body of one answer."""

    def __init__(self, engine: Engine, run: Run, ask: Ask, request: wire.Request, writer: asyncio.StreamWriter) -> None:
        self.engine = engine
        self.run = run
        self.ask = ask
        self.request = request
        self.writer = writer
        self.frame = wire.chunk if request.chunked else bytes
        self.fixed = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": engine.model,
            "system_fingerprint": "rungproof-simulated",
        }

    async def stream(self) -> None:
        """Send events, usage, [DONE] and the last chunk."""
        if self.request.chunked:
            self.writer.write(wire.chunked_head(self.request.keep_alive))
        else:
            self.writer.write(wire.head(200, "text/event-stream; charset=utf-8", False, None))
        first = True
        async for step in self.engine.steps(self.run):
            self._event({"choices": [self._choice(step, with_prompt=first)], "usage": None})
            first = False
            await self.writer.drain()
        if self.ask.include_usage:
            self._event({"choices": [], "usage": self._usage()})
        self._done()
        await self.writer.drain()

    async def whole(self) -> None:
        """Collect the answer and send it as one JSON object."""
        body = json.dumps(await self._collect()).encode()
        await wire.send(self.writer, 200, "application/json", body, self.request.keep_alive)

    async def _collect(self) -> dict[str, Any]:
        ids: list[int] = []
        text: list[str] = []
        async for step in self.engine.steps(self.run):
            ids.extend(step.ids)
            text.append(step.text)
        step = Step(tuple(ids), "".join(text), self.run.finish)
        return self.fixed | {"choices": [self._choice(step, with_prompt=True)], "usage": self._usage()}

    async def interrupted(self, how: str) -> bool:
        """What comes after a fault has ended the body; whether the connection can serve another request."""
        error = wire.error_body(500, _IN_BAND)
        if how == "error_in_band" and self.ask.stream:
            self._event(error, bare=True)
            self._done()
        elif how == "error_in_band":
            await wire.send_json(self.writer, 200, error, self.request.keep_alive)
        elif how == "cut_no_done" and self.ask.stream:
            self.writer.write(self.frame(b""))
        elif how == "cut_no_done":
            self.writer.write(wire.head(200, "application/json", False, 1000) + b'{"id":"cmpl-')
        await self.writer.drain()
        whole = how == "error_in_band" or (how == "cut_no_done" and self.ask.stream)
        return whole and self.request.keep_alive and (self.request.chunked or not self.ask.stream)

    def _event(self, value: dict[str, Any], *, bare: bool = False) -> None:
        text = json.dumps(value if bare else self.fixed | value, separators=(",", ":"), ensure_ascii=False)
        self.writer.write(self.frame(b"data: %b\n\n" % text.encode()))

    def _done(self) -> None:
        self.writer.write(self.frame(b"data: [DONE]\n\n") + self.frame(b""))

    def _choice(self, step: Step, *, with_prompt: bool) -> dict[str, Any]:
        given = self.ask.return_token_ids
        return {
            "index": 0,
            "text": step.text,
            "logprobs": self._logprobs(step) if self.ask.logprobs else None,
            "finish_reason": step.finish,
            "stop_reason": None,
            "prompt_token_ids": self.ask.prompt_ids if given and with_prompt else None,
            "token_ids": step.ids if given else None,
        }

    def _logprobs(self, step: Step) -> dict[str, Any]:
        """The two likeliest tokens of each position of a step, named by id: the one that was said, and one at the margin below it."""
        answer, start = Answer(self.run.prompt_ids, self.run.prompt), self.run.produced - len(step.ids)
        tops = []
        for k, said in enumerate(step.ids, start=start):
            tie = FLIP_AT if self.engine.options.flip_at_inflight else None
            other = answer.flipped(k) if answer.flipped(k) != said else answer.token(k)
            tops.append({f"token_id:{said}": -0.25, f"token_id:{other}": -0.25 - answer.margin(k, tie)})
        return {
            "tokens": [next(iter(top)) for top in tops],
            "token_logprobs": [-0.25] * len(tops),
            "top_logprobs": tops,
            "text_offset": [0] * len(tops),
        }

    def _usage(self) -> dict[str, Any]:
        prompt, produced = len(self.run.prompt_ids), self.run.produced
        shown = self.engine.options.prompt_tokens_details
        return {
            "prompt_tokens": prompt,
            "total_tokens": prompt + produced,
            "completion_tokens": produced,
            "prompt_tokens_details": {"cached_tokens": self.run.cached} if shown else None,
        }
