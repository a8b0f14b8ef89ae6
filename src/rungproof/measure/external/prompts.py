"""Prompts for a server that already runs: those of a ladder suite, or of a file of one's own."""

import json
from dataclasses import dataclass
from pathlib import Path

from rungproof.config.base import read_section
from rungproof.config.suites import LadderSuite, read_suite
from rungproof.records.errors import ConfigError

SUITE = "ladder-v1"
FORMS = "a text file with one prompt a line, a .json file with a list of strings, or a ladder suite in .yaml"


@dataclass(frozen=True, slots=True)
class Prompts:
    """Key -> text, in order; `source` names where they come from."""

    source: str
    texts: dict[str, str]


def load_prompts(file: Path | None, root: Path, count: int) -> Prompts:
    """The first `count` prompts of `file`, or of the checkout's ladder suite under `root`.

    Raises ConfigError when there is neither, when there are fewer, or when two are the same: a server that has seen a
    prompt may answer it from its cache.
    """
    if file is not None:
        source, texts = str(file), _of_file(file, count)
    elif (root / "config/suites" / f"{SUITE}.yaml").exists():
        suite = read_suite(root / "config/suites", SUITE, "ladder")
        source, texts = f"suite {SUITE}", suite.unique(count) if isinstance(suite, LadderSuite) else []
    else:
        raise ConfigError(
            f"no prompts: {root / 'config/suites' / SUITE}.yaml is not there, as this is no checkout of rungproof. "
            f"Give --prompts FILE ({FORMS}), or --root CHECKOUT"
        )
    _check(texts, source, count)
    return Prompts(source, {f"p{i:02d}": text for i, text in enumerate(texts[:count])})


def _of_file(file: Path, count: int) -> list[str]:
    if file.suffix in (".yaml", ".yml"):
        suite = read_section(LadderSuite, file)
        return suite.unique(count)
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror}); expected {FORMS}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 at byte {error.start}; save the file as UTF-8") from error
    if file.suffix == ".json":
        return _of_json(file, text)
    return [line for line in text.replace("\r\n", "\n").split("\n") if line.strip()]


def _of_json(file: Path, text: str) -> list[str]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file}: not valid JSON ({error}); expected a list of strings") from error
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
        raise ConfigError(f"{file}: expected a JSON list of strings that are not empty")
    return value


def _check(texts: list[str], source: str, count: int) -> None:
    if not texts:
        raise ConfigError(f"{source}: holds no prompt; expected {FORMS}")
    if len(texts) < count:
        raise ConfigError(
            f"{source}: found {len(texts)} prompts; the highest concurrency needs {count}. Add prompts or lower --concurrency"
        )
    first: dict[str, int] = {}
    for number, text in enumerate(texts[:count], start=1):
        if (same := first.setdefault(text, number)) != number:
            raise ConfigError(
                f"{source}: prompts {same} and {number} are the same; expected all to differ, as caches would help"
            )
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ConfigError(
                f"{source}: prompt {number} holds a lone surrogate, which cannot be sent as UTF-8"
            ) from error
