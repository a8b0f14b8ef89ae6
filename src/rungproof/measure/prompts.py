"""The prompts of a run, written once before its first request: texts as they are, long texts as token ids."""

import tempfile
from pathlib import Path

from rungproof.config.load import Loaded
from rungproof.config.sections import Depth
from rungproof.measure.models.checkpoints import tokenise
from rungproof.plan.resolve import prompts_of
from rungproof.records.codec import canonical, load_json
from rungproof.records.errors import ConfigError
from rungproof.records.files import write_atomic
from rungproof.records.plan import Plan


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
    write_atomic(to, canonical({"format": "rungproof.prompts/1", "workload": workload, "prompts": prompts}))


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
