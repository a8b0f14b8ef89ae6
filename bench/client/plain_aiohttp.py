"""A client as most are written: aiohttp, a task a stream, a stamp after each parsed event."""

import argparse
import asyncio
import json
import sys
import time
from itertools import pairwise
from pathlib import Path

import aiohttp
from truth import Answer, plain


async def one(session: aiohttp.ClientSession, url: str, body: dict[str, object]) -> Answer:
    """One request; a success if nothing was raised, as usual."""
    stamps: list[float] = []
    words: list[str] = []
    begun = time.perf_counter()
    try:
        async with session.post(url, json=body) as answer:
            answer.raise_for_status()
            async for line in answer.content:
                if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                    continue
                value = json.loads(line[6:])
                if value.get("choices"):
                    stamps.append(time.perf_counter())
                    words.append(value["choices"][0]["text"])
    except (TimeoutError, aiohttp.ClientError):
        return Answer(False, text="".join(words))
    gaps = [(after - before) * 1000 for before, after in pairwise(stamps)]
    return Answer(True, (stamps[0] - begun) * 1000 if stamps else None, gaps, len(stamps), "".join(words))


async def run(options: argparse.Namespace) -> list[Answer]:
    """All streams at once."""
    url = f"{options.url}/v1/completions"
    body = {
        "model": options.model, "max_tokens": options.tokens, "stream": True, "stream_options": {"include_usage": True},
    }  # fmt: skip
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=120)) as session:
        asked = (one(session, url, {**body, "prompt": [i, 1, 2, 3]}) for i in range(options.streams))
        return list(await asyncio.gather(*asked))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("url", "model", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--streams", type=int, required=True)
    parser.add_argument("--tokens", type=int, required=True)
    chosen = parser.parse_args()
    Path(chosen.out).write_text(json.dumps(plain(asyncio.run(run(chosen)))))
    sys.exit(0)
