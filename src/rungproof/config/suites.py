"""Suites: prompts as data, each with an id, and the digest by which records name it."""

from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveInt, model_validator

from rungproof.config.base import Section, read_section
from rungproof.config.sections import Name
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


KINDS: dict[str, type[StrictSuite] | type[LadderSuite] | type[LongSuite] | type[CanarySuite]] = {
    "strict": StrictSuite, "ladder": LadderSuite, "depth": LongSuite, "canary": CanarySuite,
}  # fmt: skip


def read_suite(folder: Path, name: str, wanted: str) -> StrictSuite | LadderSuite | LongSuite | CanarySuite:
    """The suite NAME.yaml for a workload kind (or "canary"). Raises ConfigError for a suite of another kind or one that lies about its id."""
    path = folder / f"{name}.yaml"
    suite = read_section(KINDS[wanted], path)
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
