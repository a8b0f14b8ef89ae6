"""Evidence of one attempt made by hand, sound until a test breaks one thing of it."""

import json
from dataclasses import replace
from typing import Any

from rungproof.judge.attempt import Evidence
from rungproof.judge.evidence import expected_batches
from rungproof.records import raw
from rungproof.records.codec import digest
from rungproof.records.formats import Attempt, Canary, CanaryCheck, ClientCheck, Closed, Knob, Server
from rungproof.records.plan import Item
from rungproof.records.requests import batches, sampling

BOOT, SESSION, LAUNCH = "00ff00ff00ff00ff", "r001.base.a", "1" * 64
TOKENS = 24


def ladder_item(concurrency: int = 2, passes: int = 2) -> Item:
    """One rung."""
    spec = {
        "kind": "ladder", "suite": "s", "suite_sha256": "0", "sampling": sampling(42), "concurrency": concurrency, "passes": passes, "tokens": TOKENS,
    }  # fmt: skip
    rules = {"window": 16, "exact": "every-pass", "shown": "last", "min_distinct": 8}
    return Item("base", "a", "ladder", f"c{concurrency}", spec, digest(spec), rules)


def strict_item(replicate: str = "a", arm: str = "base") -> Item:
    """A strict suite of two prompts in two classes."""
    spec = {"kind": "strict", "suite": "s", "suite_sha256": "0", "sampling": sampling(42), "cap": TOKENS}
    return Item(
        arm, replicate, "strict", "suite", spec, digest(spec), {"window": 16, "classes": {"p0": "x", "p1": "y"}}
    )


def answer(key: str) -> list[int]:
    """The true token ids of a prompt."""
    return [100 + 7 * i + ord(key[-1]) for i in range(TOKENS)]


def response(ids: list[int], cached: int | None = 0, prompt_tokens: int = 5) -> bytes:
    """A streamed completion, one token an event, as vLLM writes it."""
    events = [{"choices": [{"index": 0, "text": "x", "token_ids": [i], "finish_reason": None}]} for i in ids[:-1]]
    events.append({"choices": [{"index": 0, "text": "x", "token_ids": ids[-1:], "finish_reason": "length"}]})
    usage: dict[str, Any] = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": len(ids),
        "total_tokens": prompt_tokens + len(ids),
    }
    usage["prompt_tokens_details"] = None if cached is None else {"cached_tokens": cached}
    events.append({"choices": [], "usage": usage})
    body = b"".join(b"data: " + json.dumps(e).encode() + b"\n\n" for e in events) + b"data: [DONE]\n\n"
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def request(batch: str, key: str, body: str, data: bytes, start_ns: int) -> raw.Request:
    """One exchange: each event arrives 5 ms after the one before."""
    head, _, rest = data.partition(b"\r\n\r\n")
    pieces = [head + b"\r\n\r\n", *(p + b"\n\n" for p in rest.split(b"\n\n")[:-1])]
    chunks = tuple((start_ns + 5_000_000 * (n + 1), len(p)) for n, p in enumerate(pieces))
    return raw.Request(
        batch,
        key,
        body,
        start_ns - 1000,
        start_ns + 10,
        start_ns + 20,
        "framed",
        chunks[-1][0],
        "",
        chunks,
        b"".join(pieces).decode("latin-1"),
    )


def metrics(when: str, tokens: int, preemptions: int = 0, hits: int = 0) -> raw.Metrics:
    """A reading of /metrics."""
    text = (
        f'vllm:generation_tokens_total{{engine="0"}} {tokens}\nvllm:prompt_tokens_total{{engine="0"}} 5\n'
        f'vllm:num_preemptions_total{{engine="0"}} {preemptions}\nvllm:prefix_cache_hits_total{{engine="0"}} {hits}\n'
    )
    return raw.Metrics(when, 1, True, text)  # type: ignore[arg-type]


class Kit:
    """A sound attempt of `item`; change `lines`, `attempt`, ... and ask for `evidence`."""

    def __init__(self, item: Item, flips: dict[str, list[str]] | None = None) -> None:
        """flips: batch -> keys whose answers differ from the truth at index 11."""
        self.item = item
        self.prompts = {f"p{i}": f"prompt {i}" for i in range(4 if item.spec["kind"] == "ladder" else 2)}
        self.model = f"m-{BOOT}"
        self.expected = expected_batches(item, self.prompts, self.model)
        self.lines: list[raw.Line] = [raw.Header(SESSION, BOOT, item.id), metrics("before", 0)]
        start, made = 1_000_000_000, 0
        for batch, said in zip(batches(item, self.prompts, self.model), self.expected, strict=True):
            keys = tuple(key for key, _ in said.requests)
            self.lines.append(raw.Batch(batch.batch, start, keys, "kernel", 0, 60, wait_ns=0))
            for key, body in said.requests:
                ids = answer(key)
                if key in (flips or {}).get(batch.batch, []):
                    ids[11] += 1
                self.lines.append(request(batch.batch, key, body, response(ids), start))
                made += len(ids)
            start += 1_000_000_000
        self.lines.append(metrics("after", made))
        self.server = Server(
            SESSION, item.arm, item.replicate, "ready", (), BOOT, "http://127.0.0.1:1", self.model, {"engine": "simulated"}, LAUNCH,
            (Knob("--dtype", "x", "x", "cmdline", True),), {}, {}, 1, "2026-01-01T00:00:00+00:00", 1.0,
        )  # fmt: skip
        check = CanaryCheck("c", True, "p", ((1,),), "t", ())
        self.before: Canary | None = Canary(SESSION, BOOT, "before", "job", "passed", (), (check,), None, "x")
        self.after: Canary | None = Canary(SESSION, BOOT, "after", "job", "passed", (), (check,), None, "x")
        self.closed = Closed(SESSION, BOOT, "job", True, (), "SIGTERM", (), "x", 1.0)
        self.client: ClientCheck | None = ClientCheck(
            SESSION, BOOT, 4, 1.0, 3, 3000, 0.004, 0.01, 0.2, 0.05, 9.0, 0.1, 40_000.0, 0.1, "lag", ("kernel",), (), "x"
        )
        self.attempt = Attempt(
            "c",
            SESSION,
            BOOT,
            item.arm,
            item.replicate,
            item.workload,
            item.item,
            item.spec,
            item.spec_sha256,
            "measured",
            (),
            None,
            "x",
            "x",
            1.0,
        )

    def evidence(self) -> Evidence:
        """What the judge is given."""
        return Evidence(
            self.server, self.before, self.after, self.closed, self.attempt, tuple(self.lines), (), self.client
        )

    def swap(self, n: int, **changes: Any) -> None:
        """Change fields of line n (negative counts from the end)."""
        self.lines[n] = replace(self.lines[n], **changes)  # type: ignore[type-var]
