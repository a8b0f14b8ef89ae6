"""Suites: prompts as data, each with an id, and the digest by which records name it."""

import typing
from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveInt, model_validator

from rungproof.config.base import Section, check_section, read_yaml
from rungproof.config.lanes import Name
from rungproof.records.codec import digest, sha256
from rungproof.records.errors import ConfigError


class StrictPrompt(Section):
    """One raw completion prompt."""

    id: Name
    class_: str = Field(alias="class", min_length=1)
    text: str = Field(min_length=1)


class CanaryCheckSpec(Section):
    """One canary check; `expect` is the text that `contains` and `equals` look for."""

    id: Name
    kind: Literal["repeat8", "contains", "equals", "json_object"]
    prompt: str = Field(min_length=1)
    max_tokens: PositiveInt
    expect: str = ""


class LongText(Section):
    """One long text of a depth suite; `file` lies beside the suite."""

    id: Name
    class_: str = Field(alias="class", min_length=1)
    file: str = Field(min_length=1)
    source: str = Field(min_length=1)
    licence: str = Field(min_length=1)


class StrictSuite(Section):
    """Prompts of a strict suite."""

    id: Name
    kind: Literal["strict"]
    source: str = Field(min_length=1)
    licence: str = Field(min_length=1)
    prompts: list[StrictPrompt] = Field(min_length=1)


class LadderPrompt(Section):
    """One prompt of a small context; the opener comes before it."""

    id: Name
    text: str = Field(min_length=1)


class LadderSuite(Section):
    """Prompt i of a ladder is openers[i] + " " + prompts[i mod len(prompts)].text; `rule` says so in words."""

    id: Name
    kind: Literal["ladder"]
    source: str = Field(min_length=1)
    licence: str = Field(min_length=1)
    rule: str = Field(min_length=1)
    openers: list[str] = Field(min_length=1)
    prompts: list[LadderPrompt] = Field(min_length=1)

    @property
    def size(self) -> int:
        """How many unique prompts it makes."""
        return len(self.openers)

    @model_validator(mode="after")
    def _distinct(self) -> "LadderSuite":
        if len(set(self.openers)) != len(self.openers):
            raise ValueError("openers must all differ: they are what makes the prompts unique")
        return self

    def unique(self, count: int) -> list[str]:
        """The first `count` prompts. Raises ConfigError when there are fewer openers."""
        if count > len(self.openers):
            raise ConfigError(
                f"suite {self.id}: {count} unique prompts are needed, it has {len(self.openers)} openers; add openers"
            )
        return [f"{self.openers[i]} {self.prompts[i % len(self.prompts)].text}" for i in range(count)]


class TiePrompt(Section):
    """One prompt that broke: `broke` of its `of` outputs left the oracle when the suite was made."""

    id: Name
    text: str = Field(min_length=1)
    broke: PositiveInt
    of: PositiveInt


class TieSuite(Section):
    """Prompts of a ladder whose outputs broke, with how often, as `rungproof suite tie` writes it. `made_from`: which rung of which campaign."""

    id: Name
    kind: Literal["tie"]
    source: str = Field(min_length=1)
    licence: str = Field(min_length=1)
    made_from: str = Field(min_length=1)
    prompts: list[TiePrompt] = Field(min_length=1)

    @property
    def size(self) -> int:
        """How many unique prompts it has."""
        return len(self.prompts)

    @model_validator(mode="after")
    def _distinct(self) -> "TieSuite":
        if len({prompt.text for prompt in self.prompts}) != len(self.prompts):
            raise ValueError("texts must all differ; verbatim copies are made by `copies` of the workload")
        return self

    def unique(self, count: int) -> list[str]:
        """The first `count` prompts. Raises ConfigError when there are fewer."""
        if count > len(self.prompts):
            raise ConfigError(
                f"suite {self.id}: {count} unique prompts are needed, it has {len(self.prompts)}; use more copies or a lower rung"
            )
        return [prompt.text for prompt in self.prompts[:count]]


class LongSuite(Section):
    """Texts of a depth suite."""

    id: Name
    kind: Literal["long"]
    source: str = Field(min_length=1)
    licence: str = Field(min_length=1)
    texts: list[LongText] = Field(min_length=1)


class CanarySuite(Section):
    """Checks of a canary. `weak`: in what it proves less than one that asks a model for sense; shown on the page."""

    id: Name
    kind: Literal["canary"]
    source: str = Field(min_length=1)
    licence: str = Field(min_length=1)
    weak: str = ""
    checks: list[CanaryCheckSpec] = Field(min_length=1)


AnySuite = StrictSuite | LadderSuite | TieSuite | LongSuite | CanarySuite
KINDS: dict[str, tuple[type[AnySuite], ...]] = {
    "strict": (StrictSuite,), "ladder": (LadderSuite, TieSuite), "probe": (LadderSuite, TieSuite), "depth": (LongSuite,),
    "short": (LongSuite,), "canary": (CanarySuite,),
}  # fmt: skip


def read_suite(folder: Path, name: str, wanted: str) -> AnySuite:
    """The suite NAME.yaml for a workload kind (or "canary"). Raises ConfigError for a suite of another kind or one that lies about its id."""
    path = folder / f"{name}.yaml"
    value = read_yaml(path)
    kind = value.get("kind") if isinstance(value, dict) else None
    fitting = [cls for cls in KINDS[wanted] if kind in typing.get_args(cls.model_fields["kind"].annotation)]
    suite = check_section((fitting or KINDS[wanted])[0], value, str(path))
    if suite.id != name:
        raise ConfigError(f"{path}: id: found {suite.id!r}; expected {name!r}, the file's own name")
    ids = [
        p.id
        for p in getattr(suite, "prompts", []) + getattr(suite, "texts", []) + getattr(suite, "checks", [])
        if hasattr(p, "id")
    ]
    if len(set(ids)) != len(ids):
        raise ConfigError(f"{path}: an id stands twice; expected each once")
    return suite


def suite_digest(suite: Section, folder: Path) -> str:
    """sha256 over the suite's content and the bytes of the files it names. Raises ConfigError when one is missing."""
    files = {}
    for text in getattr(suite, "texts", []):
        path = folder / text.file
        if path.resolve().parent != folder.resolve() and folder.resolve() not in path.resolve().parents:
            raise ConfigError(f"{path}: lies outside {folder}; expected a file beside the suite")
        try:
            files[text.id] = sha256(path.read_bytes())
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error.strerror}); the suite names it") from error
    return digest({"suite": suite.model_dump(by_alias=True), "files": files})
