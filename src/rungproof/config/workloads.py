"""Workloads beside strict, depth and ladder: the sweep of short prompts and the tie probe; and dense rungs."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PositiveInt, StringConstraints, WithJsonSchema, model_validator

from rungproof.config.base import NAME, Section

SuiteName = Annotated[str, StringConstraints(pattern=NAME)]


def dense(value: Any) -> Any:
    """`{first: 1, last: 16, step: 1}` as the list it stands for; anything else as it is."""
    if not isinstance(value, dict):
        return value
    whole = {"step": 1, **value}
    if set(whole) != {"first", "last", "step"} or not all(type(v) is int and v > 0 for v in whole.values()):
        raise ValueError("dense rungs have `first`, `last` and, if not 1, `step`, each a whole number above 0")
    return list(range(whole["first"], whole["last"] + 1, whole["step"]))


_COUNT = {"type": "integer", "exclusiveMinimum": 0}
Rungs = Annotated[
    list[PositiveInt],
    BeforeValidator(dense),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "array", "items": _COUNT, "minItems": 1},
                {
                    "type": "object",
                    "properties": {"first": _COUNT, "last": _COUNT, "step": _COUNT},
                    "required": ["first", "last"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


class Short(Section):
    """Prompts of a few tokens, many times: 1 to draft depth + 2, where drafts have nothing to look up yet."""

    kind: Literal["short"]
    suite: SuiteName = Field(
        description="File under config/suites/ of kind long, from whose texts the prompts are cut."
    )
    lengths: list[PositiveInt] = Field(
        min_length=1, description="Prompt lengths [tokens], ascending; 1 to draft depth + 2 where an arm drafts."
    )
    prompts: int = Field(8, ge=1, le=64, description="Different prompts of each length.")
    repeats: int = Field(4, ge=1, le=100, description="How many times each is sent, one at a time.")
    tokens: PositiveInt = Field(32, description="Tokens of each answer (ignore_eos).")
    window: int = Field(16, ge=2, description="Tokens of the decode-rate window.")

    @model_validator(mode="after")
    def _fits(self) -> "Short":
        if sorted(set(self.lengths)) != self.lengths:
            raise ValueError("lengths must ascend without repeats")
        if self.window > self.tokens:
            raise ValueError("the window is longer than the answer: no rate could be had")
        return self


class Probe(Section):
    """A tie probe: a ladder's prompts one at a time with the two likeliest tokens of each position. Never a measured run."""

    kind: Literal["probe"]
    suite: SuiteName = Field(description="File under config/suites/, the one of the ladder that it looks into.")
    prompts: int = Field(ge=1, le=1024, description="How many of its prompts, from the first on.")
    tokens: PositiveInt = Field(128, description="Tokens of each answer (ignore_eos).")
    window: int = Field(100, ge=2, description="Tokens of the decode-rate window; the probe shows no rate.")
