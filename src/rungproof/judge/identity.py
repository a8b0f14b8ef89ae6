"""Identity of outputs: complete arrays of token ids, never text, never a prefix."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rungproof.records.formats import Agreement, Alignment, Collision, CopyGroup, Divergence
from rungproof.records.requests import prompt_key

SHOWN_IDS = 8  # ids kept of each side from the divergence on
LEAST_COMPARED = 4  # fewer later tokens do not tell how two outputs go on
TELLING_IDS = 4  # an output with fewer different ids may well be that of two prompts


@dataclass(frozen=True, slots=True)
class Sample:
    """One output of a prompt. `body`: digest of its request, "" where it is not known; `oracle`: it is the truth of its prompt."""

    site: str
    batch: str
    ids: tuple[int, ...]
    body: str = ""
    oracle: bool = False


def divergence(site: str, batch: str, got: Sequence[int], oracle: Sequence[int]) -> Divergence | None:
    """Where `got` first leaves its oracle; None only if both hold tokens and are equal in full.

    The index counts from 0; where one side has ended its id is None, and two empty outputs differ at 0.
    """
    if got and oracle and list(got) == list(oracle):
        return None
    shared = min(len(got), len(oracle))
    index = next((i for i in range(shared) if got[i] != oracle[i]), shared)
    how, rejoined, compared = alignment(got, oracle, index)
    return Divergence(
        site=site,
        batch=batch,
        index=index,
        got=got[index] if index < len(got) else None,
        oracle=oracle[index] if index < len(oracle) else None,
        got_length=len(got),
        oracle_length=len(oracle),
        got_ids=tuple(got[index : index + SHOWN_IDS]),
        oracle_ids=tuple(oracle[index : index + SHOWN_IDS]),
        alignment=how,
        rejoined=rejoined,
        compared=compared,
    )


def alignment(got: Sequence[int], oracle: Sequence[int], index: int) -> tuple[Alignment, int, int]:
    """How two outputs go on after they part at `index`: (kind, equal later tokens, later tokens compared).

    substitution: one token was replaced and more than half of those after it agree again; insertion, deletion: they agree
    again when one token of `got`, or of the oracle, is left out. end: one side has ended. none: the outputs go different ways.
    Of several that hold, the one with the most equal tokens, in this order.
    """
    if index >= len(got) or index >= len(oracle):
        return "end", 0, 0
    best: tuple[Alignment, int, int] = ("none", 0, 0)
    shifts: tuple[tuple[Alignment, int, int], ...] = (("substitution", 1, 1), ("insertion", 1, 0), ("deletion", 0, 1))
    for kind, of_got, of_oracle in shifts:
        pairs = list(zip(got[index + of_got :], oracle[index + of_oracle :], strict=False))
        equal = sum(a == b for a, b in pairs)
        if len(pairs) >= LEAST_COMPARED and 2 * equal > len(pairs) and equal > best[1]:
            best = (kind, equal, len(pairs))
    return best


def minority_share(samples: Sequence[Sequence[tuple[int, ...]]]) -> float | None:
    """Share of samples that are not their prompt's most common answer; needs no oracle.

    `samples` holds for each prompt its answers. An empty answer agrees with nothing. None where there is no sample.
    """
    total = off = 0
    for answers in samples:
        counts = Counter(answer for answer in answers if answer)
        total += len(answers)
        off += len(answers) - max(counts.values(), default=0)
    return off / total if total else None


def agreement(samples: Sequence[Sample]) -> Agreement:
    """The oracle-free view of all outputs of a comparison; an output without tokens agrees with nothing."""
    prompts: dict[str, list[Sample]] = {}
    for one in samples:
        prompts.setdefault(prompt_key(one.site), []).append(one)
    different = {prompt: len({s.ids for s in of}) for prompt, of in prompts.items()}
    return Agreement(
        prompts=len(prompts),
        samples=len(samples),
        bistable=tuple(prompt for prompt, count in different.items() if count == 2),
        unstable=tuple(prompt for prompt, count in different.items() if count > 2),
        oracle_minority=tuple(prompt for prompt, of in prompts.items() if _outvoted(of)),
        copies=_copies(samples),
        collisions=_collisions(samples),
    )


def _outvoted(samples: Sequence[Sample]) -> bool:
    """Whether another output of the prompt is more common than its oracle's."""
    counts = Counter(s.ids for s in samples if s.ids)
    truth = next((s.ids for s in samples if s.oracle), None)
    return truth is not None and counts[truth] < max(counts.values(), default=0)


def _copies(samples: Sequence[Sample]) -> tuple[CopyGroup, ...]:
    """Groups of byte-identical requests within one batch, in the order in which they were sent."""
    groups: dict[tuple[str, str], list[Sample]] = {}
    for one in samples:
        if one.body:
            groups.setdefault((one.batch, one.body), []).append(one)
    return tuple(
        CopyGroup(batch, tuple(s.site for s in of), len({s.ids for s in of}))
        for (batch, _), of in groups.items()
        if len(of) > 1
    )


def _collisions(samples: Sequence[Sample]) -> tuple[Collision, ...]:
    """Outputs that stand for two different prompts, each pair of prompts once. Outputs of a few different ids tell nothing."""
    first: dict[tuple[int, ...], Sample] = {}
    found: dict[tuple[str, str], Collision] = {}
    for one in samples:
        if len(set(one.ids)) < TELLING_IDS:
            continue
        other = first.setdefault(one.ids, one)
        if prompt_key(other.site) != prompt_key(one.site) and not (one.body and one.body == other.body):
            pair = (prompt_key(one.site), prompt_key(other.site))
            found.setdefault(pair, Collision(one.site, one.batch, other.site, other.batch))
    return tuple(found.values())
