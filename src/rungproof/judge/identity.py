"""Identity of outputs: complete arrays of token ids, never text, never a prefix."""

from collections import Counter
from collections.abc import Sequence

from rungproof.records.formats import Divergence


def divergence(site: str, batch: str, got: Sequence[int], oracle: Sequence[int]) -> Divergence | None:
    """Where `got` first leaves its oracle; None only if both hold tokens and are equal in full.

    The index counts from 0; where one side has ended its id is None, and two empty outputs differ at 0.
    """
    if got and oracle and list(got) == list(oracle):
        return None
    shared = min(len(got), len(oracle))
    index = next((i for i in range(shared) if got[i] != oracle[i]), shared)
    return Divergence(
        site=site,
        batch=batch,
        index=index,
        got=got[index] if index < len(got) else None,
        oracle=oracle[index] if index < len(oracle) else None,
        got_length=len(got),
        oracle_length=len(oracle),
    )


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
