"""Scenarios of one stream, each as what the server then says. Numbers as in docs/scenarios.md."""

import re
from collections.abc import Awaitable, Callable

from rungproof.measure.simulated.scenarios.talk import FIRST_ID, STEP_S, Talk

Play = Callable[[Talk], Awaitable[None]]
ERROR = {"error": {"message": "the engine died", "type": "internal_error", "code": 500}}
SLOW_S = 0.15


async def plain(talk: Talk) -> None:
    """S00."""
    await talk.head()
    await talk.all()
    await talk.close()


def comments(*cuts: bytes, before: bytes = b"") -> Play:
    """S07: a plain answer with these chunks before each event, and `before` ahead of the first."""

    async def play(talk: Talk) -> None:
        await talk.head()
        if before:
            await talk.send(before)
        for k in range(talk.tokens):
            for cut in cuts:
                await talk.send(cut)
            await talk.send(talk.token(k, talk.tokens - 1))
            await talk.pause(STEP_S)
        await talk.close()

    return play


async def split_character(talk: Talk) -> None:
    """S01."""
    await talk.head()
    for k in range(talk.tokens):
        data = talk.event(talk.piece([FIRST_ID + k], "狐", "length" if k == talk.tokens - 1 else None))
        at = data.index("狐".encode()) + 1
        await talk.send(data[:at])
        await talk.pause(0.01)
        await talk.send(data[at:])
    await talk.close()


async def ten_in_one_write(talk: Talk) -> None:
    """S02."""
    await talk.head()
    events = [talk.token(k, talk.tokens - 1) for k in range(talk.tokens)]
    for at in range(0, len(events), 10):
        await talk.send(b"".join(events[at : at + 10]))
        await talk.pause(0.02)
    await talk.close()


async def byte_by_byte(talk: Talk) -> None:
    """S03."""
    await talk.head(chunked=False)
    for k in range(talk.tokens):
        for byte in talk.token(k, talk.tokens - 1):
            await talk.raw(bytes([byte]))
            await talk.pause(0)
        await talk.pause(STEP_S)
    await talk.close()


async def cut_at_spaces(talk: Talk) -> None:
    """S05."""
    await talk.head(chunked=False)
    for k in range(talk.tokens):
        data = talk.event(talk.piece([FIRST_ID + k], f" two  words {k} ", "length" if k == talk.tokens - 1 else None))
        for part in re.split(rb"( )", data):
            await talk.raw(part)
            await talk.pause(0.001)
    await talk.close()


async def giant_lines(talk: Talk) -> None:
    """S06."""
    await talk.head()
    await talk.send(talk.event({**talk.piece([FIRST_ID], "t0 "), "prompt_token_ids": list(range(100_000, 132_768))}))
    await talk.send(talk.event({**talk.piece([FIRST_ID + 1], "t1 "), "pad": "x" * 2_000_000}))
    await talk.run(2, talk.tokens, talk.tokens - 1)
    await talk.close()


async def usage_shapes(talk: Talk) -> None:
    """S08."""
    await talk.head()
    await talk.all()
    counts = talk.usage(talk.tokens)["usage"]
    for value in ({"usage": counts}, {"choices": None, "usage": counts}, {"choices": [], "usage": counts}):
        await talk.send(talk.event(value))
    await talk.done()


async def no_space(talk: Talk) -> None:
    """S09."""
    await talk.head()
    for k in range(talk.tokens):
        await talk.send(talk.token(k, talk.tokens - 1).replace(b"data: ", b"data:", 1))
        await talk.pause(STEP_S)
    await talk.send(talk.event(talk.usage(talk.tokens), prefix="data:"))
    await talk.done()


def error_after(count: int, data: bytes | None = None) -> Play:
    """S10, S11, S12: `count` tokens, then an error in the stream of status 200."""

    async def play(talk: Talk) -> None:
        await talk.head()
        await talk.run(0, count)
        await talk.send(talk.event(ERROR) if data is None else data)
        await talk.done()

    return play


async def error_document(talk: Talk) -> None:
    """S14."""
    await talk.document(ERROR)


async def end_without_length(talk: Talk) -> None:
    """S15."""
    await talk.head(chunked=False)
    await talk.run(0, 5)


async def cut_chunk(talk: Talk) -> None:
    """S16."""
    await talk.head()
    await talk.run(0, 5)


async def reset(talk: Talk) -> None:
    """S17."""
    await talk.head()
    await talk.run(0, 5)
    await talk.pause(0.5)  # what its client has not read by then is lost to it
    talk.reset()


async def no_last_blank(talk: Talk) -> None:
    """S19."""
    await talk.head(chunked=False)
    await talk.all()
    await talk.send(talk.event(talk.usage(talk.tokens))[:-2])


async def carriage_returns(talk: Talk) -> None:
    """S20."""
    await talk.head()
    for k in range(talk.tokens):
        await talk.send(talk.token(k, talk.tokens - 1).replace(b"\n", b"\r\n"))
        await talk.pause(STEP_S)
    await talk.send(talk.event(talk.usage(talk.tokens), end="\r\n") + b"data: [DONE]\r\n\r\n")
    await talk.end()


async def one_token(talk: Talk) -> None:
    """S22."""
    await talk.head()
    await talk.pause(0.02)
    await talk.run(0, 1, 0)
    await talk.close(1)


async def all_in_one_event(talk: Talk) -> None:
    """S23."""
    await talk.head()
    await talk.pause(SLOW_S)
    ids = range(FIRST_ID, FIRST_ID + talk.tokens)
    await talk.send(talk.event(talk.piece(ids, "".join(f"t{k} " for k in range(talk.tokens)), "length")))
    await talk.close()


async def late_done(talk: Talk) -> None:
    """S24."""
    await talk.head()
    await talk.all()
    await talk.pause(0.5)
    await talk.close()


async def left_open(talk: Talk) -> None:
    """S25."""
    await talk.head()
    await talk.all()
    await talk.send(talk.event(talk.usage(talk.tokens)) + talk.event("[DONE]"))
    await talk.hold()


async def role_first(talk: Talk) -> None:
    """S27."""
    await talk.head()
    await talk.send(talk.event(talk.piece([], "", None, role="assistant", content="")))
    await talk.pause(SLOW_S)
    await talk.all()
    await talk.close()


def reasoning(all_of_it: bool) -> Play:
    """S28, S29: half of the tokens, or all, in a reasoning channel; under both of its names."""

    async def play(talk: Talk) -> None:
        await talk.head()
        stop = talk.tokens if all_of_it else talk.tokens // 2
        for k in range(talk.tokens):
            finish = "length" if k == talk.tokens - 1 else None
            word = f"t{k} "
            delta = {"reasoning_content": word, "reasoning": word} if k < stop else {"content": word}
            await talk.send(talk.event(talk.piece([FIRST_ID + k], "", finish, **delta)))
            await talk.pause(STEP_S)
        await talk.close()

    return play


async def empty_texts(talk: Talk) -> None:
    """S30."""
    await talk.head()
    for k in range(talk.tokens):
        await talk.send(talk.event(talk.piece([], "")))
        await talk.pause(STEP_S)
        await talk.send(
            talk.event(
                talk.piece([FIRST_ID + k], "" if k == 0 else f"t{k} ", "length" if k == talk.tokens - 1 else None)
            )
        )
    await talk.close()


async def burst_at_the_end(talk: Talk) -> None:
    """S32."""
    await talk.head()
    await talk.pause(0.4)
    await talk.send(b"".join(talk.token(k, talk.tokens - 1) for k in range(talk.tokens)))
    await talk.close()


async def nothing(talk: Talk) -> None:
    """S34."""
    await talk.head()
    await talk.done()
