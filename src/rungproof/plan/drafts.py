"""Speculation that a lane or arm asks for by an argument of its engine: no base arm may have any, since base arms are the truth."""

from collections.abc import Mapping
from typing import Any

from rungproof.config.load import Loaded
from rungproof.records.errors import ConfigError

# Beginnings of the arguments that turn drafts on, as each engine's help names them.
DRAFTS = {
    "vllm": ("speculative-",),
    "sglang": ("speculative-",),
    "llama.cpp": ("model-draft", "hf-repo-draft", "spec-type"),
}


def drafting(engine: str, arguments: Mapping[str, Any]) -> list[str]:
    """The arguments, written with - or _, by which this engine would speculate."""
    begins = DRAFTS.get(engine, ())
    return [
        k for k, value in arguments.items() if k.replace("_", "-").startswith(begins) and value not in (None, False)
    ]


def refuse_hidden_drafts(loaded: Loaded) -> None:
    """Raises ConfigError where a lane, a host or a base arm speculates, or vLLM is asked to beside `speculation`."""
    for name, arm in loaded.campaign.arms.items():
        engine = loaded.lanes[arm.lane].engine
        asks = "`speculation` (method, depth)" if engine == "vllm" else "`arguments`"
        for place, arguments in (
            (f"config/lanes/{arm.lane}.yaml: arguments", loaded.lanes[arm.lane].arguments),
            (f"config/hosts/{loaded.host_name}.yaml: arguments.{arm.lane}", loaded.host.arguments.get(arm.lane, {})),
        ):
            if found := drafting(engine, arguments):
                raise ConfigError(
                    f"{place}.{found[0]}: with it every arm of the lane speculates, its oracle too, and would be compared with itself. "
                    f"Write it in the arm that speculates: {asks}, with `oracle` naming the arm without."
                )
        found = drafting(engine, arm.arguments)
        where = f"config/campaigns/{loaded.name}.yaml: arms.{name}"
        if found and engine == "vllm":
            raise ConfigError(
                f"{where}.arguments.{found[0]}: write it as arms.{name}.speculation (method, depth), so that it is gated"
            )
        if found and arm.oracle is None:
            raise ConfigError(
                f"{where}: speculates by {found[0]}, so it needs an oracle: name the arm without speculation"
            )
