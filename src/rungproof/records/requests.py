"""The exact request bodies of an item, in order. What is sent and what is judged are both taken from here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rungproof.records.errors import ConfigError
from rungproof.records.plan import Item

COPY = "~"  # between the key of a prompt and the number of its copy: p03, p03~2, p03~3


def prompt_key(key: str) -> str:
    """The key of the prompt that a request is a copy of; its own where it is none."""
    return key.partition(COPY)[0]


def copy_key(key: str, number: int) -> str:
    """The key of the copy of that number, from 1 on; the first keeps the prompt's own."""
    return key if number == 1 else f"{key}{COPY}{number}"


def counts(spec: dict[str, Any], prompts: int) -> tuple[int, int]:
    """(requests, most tokens of one) of an item; `prompts`: how many its suite gives, for strict and depth."""
    kind = spec["kind"]
    if kind == "strict":
        return prompts, int(spec["cap"])
    if kind == "short":
        return int(spec["prompts"]) * int(spec["repeats"]), int(spec["tokens"])
    if kind == "probe":
        return int(spec["prompts"]), int(spec["tokens"])
    if kind == "depth":
        return prompts, int(spec["tokens"])
    c = int(spec["concurrency"])
    return c // int(spec.get("copies", 1)) + c * int(spec["passes"]), int(spec["tokens"])


@dataclass(frozen=True, slots=True)
class Body:
    """One request: its key, its JSON body, and how long after the barrier it is sent [ns]."""

    key: str
    body: dict[str, Any]
    delay_ns: int = 0


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Requests that go out together behind one barrier."""

    batch: str
    bodies: tuple[Body, ...]


# What an engine must be asked besides: llama.cpp gives token ids in the part of an event that is for debugging, and knows its
# penalty by another name.
ENGINES: dict[str, dict[str, Any]] = {"llama.cpp": {"verbose": True, "return_tokens": True, "repeat_penalty": 1.0}}


def sampling(seed: int, engine: str = "") -> dict[str, Any]:
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
        **ENGINES.get(engine, {}),
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
        return tuple(_ids_batch(item, f"depth-{key}", key, ids, spec["depth"], model) for key, ids in prompts.items())
    if spec["kind"] == "short":
        return tuple(
            _ids_batch(item, f"short-{n}-{key}", copy_key(key, n), ids, spec["length"], model)
            for n in range(1, spec["repeats"] + 1)
            for key, ids in prompts.items()
        )
    if spec["kind"] == "probe":
        chosen = _chosen(item, prompts, int(spec["prompts"]), model)
        looked = [Body(one.key, {**one.body, "logprobs": 2, "return_tokens_as_token_ids": True}) for one in chosen]
        return tuple(BatchPlan(f"probe-{i:02d}", (body,)) for i, body in enumerate(looked))
    return _ladder(item, prompts, model)


def _ladder(item: Item, prompts: dict[str, Any], model: str) -> tuple[BatchPlan, ...]:
    """The oracle requests of a rung, one at a time, then its passes: each prompt as often as it has copies, the copies apart."""
    spec = item.spec
    copies, apart_ns = int(spec.get("copies", 1)), round(spec.get("stagger_ms", 0) * 1e6)
    chosen = _chosen(item, prompts, spec["concurrency"] // copies, model)
    oracle = tuple(BatchPlan(f"oracle-{i:02d}", (body,)) for i, body in enumerate(chosen))
    sent = [(copy_key(one.key, n), one.body) for n in range(1, copies + 1) for one in chosen]
    once = tuple(Body(key, body, i * apart_ns) for i, (key, body) in enumerate(sent))
    return oracle + tuple(BatchPlan(f"pass-{n}", once) for n in range(1, spec["passes"] + 1))


def _chosen(item: Item, prompts: dict[str, Any], count: int, model: str) -> list[Body]:
    if len(prompts) < count:
        raise ConfigError(
            f"{item.id}: {count} unique prompts are needed, the suite gives {len(prompts)}; add openers to it"
        )
    spec = item.spec
    return [
        Body(key, completion(model, text, spec["tokens"], True, spec["sampling"]))
        for key, text in list(prompts.items())[:count]
    ]


def _ids_batch(item: Item, batch: str, key: str, ids: Sequence[int], length: int, model: str) -> BatchPlan:
    spec = item.spec
    if len(ids) < length:
        raise ConfigError(
            f"{item.id}: text {key!r} has {len(ids)} tokens; {length} are needed. Lengthen the text or lower the depth."
        )
    return BatchPlan(batch, (Body(key, completion(model, ids[:length], spec["tokens"], True, spec["sampling"])),))
