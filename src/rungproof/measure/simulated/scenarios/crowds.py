"""Scenarios of counts, loads and whole servers, each as what the server then says. Numbers as in docs/scenarios.md."""

import hashlib
import json

from rungproof.measure.simulated.scenarios.plays import ERROR, SLOW_S, Play, plain
from rungproof.measure.simulated.scenarios.talk import FIRST_ID, STEP_S, Talk

FLIP_AT = 44  # position of the first wrong token of S59
TOGETHER_S = 0.02  # a step of streams that must be seen decoding at once
LOOKS = 3  # looks at /health that S55 answers with 503


def slots(size: int, step_s: float = STEP_S) -> Play:
    """S35, S36b: so many are served at once, the others wait their turn."""

    async def play(talk: Talk) -> None:
        await talk.head()
        async with talk.hub.slot(talk.name, size):
            await talk.pause(0.02)
            await talk.all(step_s)
        await talk.close()

    return play


async def counted(talk: Talk) -> None:
    """S36."""
    await talk.head()
    await talk.pause(0.2)  # until all are there, and each goes on until the last one has begun, on a slow machine too
    await talk.all(TOGETHER_S)
    await talk.close(in_flight_peak=talk.hub.peak[talk.name])


async def packed(talk: Talk) -> None:
    """S37."""
    await talk.head()
    k, size = 0, 2
    while k < talk.tokens:
        stop = min(k + size, talk.tokens)
        words = "".join(f"t{i} " for i in range(k, stop))
        finish = "length" if stop == talk.tokens else None
        await talk.send(talk.event(talk.piece(range(FIRST_ID + k, FIRST_ID + stop), words, finish)))
        await talk.pause(STEP_S)
        k, size = stop, 2 + (size - 1) % 3
    await talk.close()


async def slow_first(talk: Talk) -> None:
    """S38."""
    await talk.head()
    await talk.pause(SLOW_S)
    await talk.all()
    await talk.close()


def texts(word: str) -> Play:
    """S39, S40: every token has this text, whatever a tokenizer would make of it."""

    async def play(talk: Talk) -> None:
        await talk.head()
        for k in range(talk.tokens):
            await talk.send(talk.event(talk.piece([FIRST_ID + k], word, "length" if k == talk.tokens - 1 else None)))
            await talk.pause(STEP_S)
        await talk.close()

    return play


async def one_document(talk: Talk) -> None:
    """S42."""
    await talk.pause(0.02)
    ids = range(FIRST_ID, FIRST_ID + talk.tokens)
    whole = talk.piece(ids, "".join(f"t{k} " for k in range(talk.tokens)), "length")
    await talk.document(whole | {"usage": talk.usage(talk.tokens)["usage"]})


async def short(talk: Talk) -> None:
    """S43."""
    await talk.head()
    stop = max(1, talk.tokens // 2)
    await talk.run(0, stop, stop - 1)
    await talk.close(stop)


async def prefix_cache(talk: Talk) -> None:
    """S44."""
    seen = json.dumps(talk.ask.get("prompt"))[:64]
    cached = talk.prompt_tokens if talk.hub.prompts[seen] else 0
    talk.hub.prompts[seen] += 1
    await talk.head()
    await talk.all()
    await talk.close(prompt_tokens_details={"cached_tokens": cached})


async def cold_shapes(talk: Talk) -> None:
    """S45."""
    await talk.head()
    await talk.pause(0.02)
    shape = f"{talk.name}/{talk.hub.in_flight[talk.name]}"
    cold = talk.hub.looks[shape] < talk.hub.in_flight[talk.name]
    talk.hub.looks[shape] += 1
    await talk.all(STEP_S * (10 if cold else 1))
    await talk.close()


async def dropped(talk: Talk) -> None:
    """S48."""
    if talk.number % 11 != 10:
        await plain(talk)


async def echo(talk: Talk) -> None:
    """S49, S51."""
    await talk.head()
    await talk.run(0, talk.tokens - 1)
    said = {name: talk.ask[name] for name in sorted(talk.ask) if name not in ("prompt", "messages")}
    words = json.dumps({"body_sha256": hashlib.sha256(talk.body).hexdigest(), "parameters": said})
    await talk.send(talk.event(talk.piece([FIRST_ID + talk.tokens - 1], words, "length")))
    await talk.close()


async def other_length(talk: Talk) -> None:
    """S50."""
    talk.prompt_tokens += 1
    await plain(talk)


async def three_in_ten_fail(talk: Talk) -> None:
    """S52."""
    if talk.number % 10 < 3:
        await talk.document(ERROR, "500 Internal Server Error")
    else:
        await plain(talk)


async def silence(talk: Talk) -> None:
    """S53, S57."""
    await talk.hold()


async def until_healthy(talk: Talk) -> None:
    """S55."""
    if talk.hub.looks[talk.name] <= LOOKS:
        await talk.document({"detail": "loading"}, "503 Service Unavailable")
    else:
        await plain(talk)


async def first_refused(talk: Talk) -> None:
    """S58."""
    if talk.number == 0:
        await talk.document({"detail": "busy"}, "503 Service Unavailable")
    else:
        await plain(talk)


async def flips(talk: Talk) -> None:
    """S59."""
    await talk.head()
    await talk.pause(0.02)
    for k in range(talk.tokens):
        wrong = k >= FLIP_AT and talk.hub.peak[talk.name] >= 8
        code = FIRST_ID + k + (50_000 if wrong else 0)
        await talk.send(talk.event(talk.piece([code], f"t{k} ", "length" if k == talk.tokens - 1 else None)))
        await talk.pause(0.001)
    await talk.close()


async def ids_past_text(talk: Talk) -> None:
    """S61."""
    await talk.head()
    await talk.run(0, talk.tokens - 2)
    await talk.send(talk.event(talk.piece([FIRST_ID + talk.tokens - 2, FIRST_ID + talk.tokens - 1], "", "stop")))
    await talk.close()


async def several_choices(talk: Talk) -> None:
    """S65."""
    await talk.head()
    one = talk.piece([FIRST_ID], "t0 ")
    other = one["choices"][0] | {"index": 1}
    await talk.send(talk.event(one | {"choices": [one["choices"][0], other]}))
    await talk.close(2)


async def early_hints(talk: Talk) -> None:
    """S66."""
    await talk.raw(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n")
    await plain(talk)


async def stalled(talk: Talk) -> None:
    """S67."""
    await talk.head()
    await talk.run(0, 5)
    await talk.hold()
