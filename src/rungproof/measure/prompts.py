"""The prompts of a run, written once before its first request: texts as they are, long texts as token ids."""

import tempfile
from pathlib import Path

from rungproof.config.load import Loaded
from rungproof.config.sections import Depth
from rungproof.config.workloads import Short
from rungproof.measure.models.checkpoints import tokenise
from rungproof.plan.resolve import prompts_of
from rungproof.records.codec import canonical, load_json
from rungproof.records.errors import ConfigError
from rungproof.records.files import write_atomic
from rungproof.records.plan import Plan

SHORT_EVERY = 37  # tokens between the places at which short prompts are cut from a text


def write_prompts(loaded: Loaded, plan: Plan, workload: str, python: Path | None, model: Path | None, to: Path) -> None:
    """Write the prompts file of one workload for one arm's model. `plan`: the lock of the run; its suite must still be the one on disk.

    A depth's texts are tokenised once with the model's own tokenizer (by `python`, the server's environment) and cut to
    the longest depth; on the simulated server a token is one byte of UTF-8. Raises ConfigError for a text that is too short.
    """
    work = loaded.workloads[workload]
    planned = next(item.spec["suite_sha256"] for item in plan.items if item.workload == workload)
    if loaded.suite_digests[work.suite] != planned:
        raise ConfigError(
            f"config/suites/{work.suite}.yaml: changed since this call was planned (its digest begins "
            f"{loaded.suite_digests[work.suite][:12]}; the plan says {planned[:12]}). Run the same command again."
        )
    prompts: dict[str, object] = dict(prompts_of(loaded, workload))
    if isinstance(work, Depth):
        ids = _ids(loaded, work.suite, prompts, python, model)
        longest = work.depths[-1]
        for key, tokens in ids.items():
            if len(tokens) < longest:
                raise ConfigError(
                    f"config/suites/{work.suite}.yaml: text {key!r} has {len(tokens)} tokens of this model; depth {longest} needs as many. "
                    "Lengthen the text or lower the depth."
                )
        prompts = {key: tokens[:longest] for key, tokens in ids.items()}
    if isinstance(work, Short):
        prompts = dict(short_prompts(_ids(loaded, work.suite, prompts, python, model), work, work.suite))
    write_atomic(to, canonical({"format": "rungproof.prompts/1", "workload": workload, "prompts": prompts}))


def short_prompts(texts: dict[str, list[int]], work: Short, suite: str) -> dict[str, list[int]]:
    """Prompts of the longest length, cut from the texts in turn; no two begin with the same token, so none is a prefix of another.

    Raises ConfigError where the texts do not give as many.
    """
    longest, begun = work.lengths[-1], set[int]()
    found: list[list[int]] = []
    for at in range(0, max(map(len, texts.values())) - longest + 1, SHORT_EVERY):
        for ids in texts.values():
            piece = ids[at : at + longest]
            if len(piece) == longest and piece[0] not in begun and len(found) < work.prompts:
                begun.add(piece[0])
                found.append(piece)
    if len(found) < work.prompts:
        raise ConfigError(
            f"config/suites/{suite}.yaml: gives {len(found)} short prompts that begin differently; {work.prompts} are wanted. "
            "Lower `prompts` of the workload or lengthen the texts."
        )
    return {f"s{i:02d}": piece for i, piece in enumerate(found)}


def _ids(
    loaded: Loaded, suite: str, prompts: dict[str, object], python: Path | None, model: Path | None
) -> dict[str, list[int]]:
    if python is None or model is None:
        return {key: list(str(text).encode()) for key, text in prompts.items()}
    texts = {text.id: loaded.root / "config/suites" / text.file for text in getattr(loaded.suites[suite], "texts", [])}
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / "tokens.json"
        tokenise(python, model, texts, made)
        value = load_json(made.read_bytes(), str(made))
    return {key: value["texts"][key] for key in texts}
