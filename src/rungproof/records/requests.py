"""The exact request bodies of an item, in order. What is sent and what is judged are both taken from here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rungproof.records.errors import ConfigError
from rungproof.records.plan import Item


@dataclass(frozen=True, slots=True)
class Body:
    """One request: its key and its JSON body."""

    key: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Requests that go out together behind one barrier."""

    batch: str
    bodies: tuple[Body, ...]


def sampling(seed: int) -> dict[str, Any]:
    """Every sampling parameter, explicit, since a server's own defaults may come from the model's files."""
    return {
        "n": 1,
        "temperature": 0.0,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "seed": seed,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
    }


def completion(
    model: str, prompt: str | Sequence[int], tokens: int, exact_length: bool, parameters: dict[str, Any]
) -> dict[str, Any]:
    """One completion request. exact_length: the answer goes on past its natural end until `tokens` [tokens]."""
    return {
        "model": model,
        "prompt": prompt if isinstance(prompt, str) else list(prompt),
        "max_tokens": tokens,
        "ignore_eos": exact_length,
        **parameters,
    }


def batches(item: Item, prompts: dict[str, Any], model: str) -> tuple[BatchPlan, ...]:
    """All batches of an item in order. `prompts`: key -> text, or key -> token ids for a depth.

    Raises ConfigError when there are fewer prompts, or shorter ones, than the item needs.
    """
    spec = item.spec
    if spec["kind"] == "strict":
        return tuple(
            BatchPlan(f"strict-{i:02d}", (Body(key, completion(model, text, spec["cap"], False, spec["sampling"])),))
            for i, (key, text) in enumerate(prompts.items())
        )
    if spec["kind"] == "depth":
        return tuple(_depth(item, key, ids, model) for key, ids in prompts.items())
    concurrency = spec["concurrency"]
    if len(prompts) < concurrency:
        raise ConfigError(
            f"{item.id}: {concurrency} unique prompts are needed, the suite gives {len(prompts)}; add openers to it"
        )
    chosen = [
        Body(key, completion(model, text, spec["tokens"], True, spec["sampling"]))
        for key, text in list(prompts.items())[:concurrency]
    ]
    oracle = tuple(BatchPlan(f"oracle-{i:02d}", (body,)) for i, body in enumerate(chosen))
    return oracle + tuple(BatchPlan(f"pass-{n}", tuple(chosen)) for n in range(1, spec["passes"] + 1))


def _depth(item: Item, key: str, ids: Sequence[int], model: str) -> BatchPlan:
    spec, depth = item.spec, item.spec["depth"]
    if len(ids) < depth:
        raise ConfigError(
            f"{item.id}: text {key!r} has {len(ids)} tokens; {depth} are needed. Lengthen the text or lower the depth."
        )
    body = completion(model, ids[:depth], spec["tokens"], True, spec["sampling"])
    return BatchPlan(f"depth-{key}", (Body(key, body),))
