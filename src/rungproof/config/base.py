"""Reading one YAML file into a typed section, with errors that say what to write."""

from collections.abc import Hashable
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from rungproof.records.errors import ConfigError

NAME = r"^[a-z0-9][a-z0-9_-]{0,40}$"


class Section(BaseModel):
    """Base of every section: unknown keys are refused, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=False)


S = TypeVar("S", bound=Section)


class _Loader(yaml.SafeLoader):
    """Safe YAML in which a key that stands twice is an error, since the second would silently win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable) or key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)

    def construct_finite(self, node: yaml.ScalarNode) -> float:
        """Records hold no other number, so a plan with one could not be written down."""
        value = float(self.construct_yaml_float(node))
        if not isfinite(value):
            raise yaml.constructor.ConstructorError(None, None, f"{node.value} is not a finite number", node.start_mark)
        return value


_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_finite)


def read_yaml(path: Path) -> Any:
    """The plain values of one YAML file. Raises ConfigError for a missing, unreadable or malformed file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        names = sorted(p.stem for p in path.parent.glob("*.yaml"))
        known = f"; {path.parent.name}/ holds {', '.join(names)}" if names else ""
        raise ConfigError(f"{path}: cannot be read ({error.strerror}){known}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8") from error
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = f":{mark.line + 1}" if mark else ""
        raise ConfigError(f"{path}{at}: not valid YAML: {getattr(error, 'problem', error)}") from error
    except (ValueError, RecursionError) as error:  # a day that no calendar has, too many digits, brackets without end
        raise ConfigError(f"{path}: not valid YAML: {error}; put what is a text into quotes") from error


def yaml_of_strangers(text: str, where: str) -> Any:
    """The plain values of a YAML text that somebody else wrote. Raises ConfigError for what is no YAML, and for aliases: aliases of
    aliases can be made to fill the memory, and no file of ours has any."""
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text, _Loader)):
            raise ConfigError(f"{where}: holds aliases; a file of a stranger is read without them")
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: not valid YAML: {getattr(error, 'problem', error)}") from error


def yaml_text(value: dict[str, Any]) -> str:
    """Plain values as YAML, keys in their order."""
    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120))


def read_section(cls: type[S], path: Path) -> S:
    """One file as one section. Raises ConfigError that lists every wrong key at once."""
    return check_section(cls, read_yaml(path), str(path))


def check_section(cls: type[S], value: Any, where: str) -> S:
    """Plain values as one section; `where` names the file in the error."""
    if not isinstance(value, dict):
        raise ConfigError(
            f"{where}: found {type(value).__name__}; expected keys and values ({', '.join(cls.model_fields)})"
        )
    try:
        return cls.model_validate(value)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{where}: {_explain(cls, one)}" for one in error.errors())) from error


def _explain(cls: type[Section], one: Any) -> str:
    key = ".".join(str(part) for part in one["loc"]) or "(the whole file)"
    if one["type"] == "extra_forbidden":
        return f"{key}: unknown key. Known here: {', '.join(_known(cls, one['loc']))}. Correct the spelling or remove the line."
    if one["type"] == "missing":
        return f"{key}: the key is missing. Add a line `{one['loc'][-1]}: ...`; config/README.md explains it."
    found = repr(one["input"])
    return f"{key}: found {found[:80]}; {one['msg'][0].lower() + one['msg'][1:]}. config/README.md explains the key."


def _known(cls: type[Section], loc: tuple[Any, ...]) -> list[str]:
    """Keys of the section in which the unknown one stands, as far as the path leads through plain sections."""
    current: Any = cls
    for part in loc[:-1]:
        fields = getattr(current, "model_fields", {})
        annotation = fields[part].annotation if part in fields else None
        candidates = [a for a in (annotation, *getattr(annotation, "__args__", ())) if hasattr(a, "model_fields")]
        if candidates:
            current = candidates[-1]
    return sorted(getattr(current, "model_fields", {}))


def yaml_value(text: str) -> Any:
    """One word of a command line as the value that YAML would read, if it would be written back just so; else as text."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    if isinstance(value, (dict, list)) or (
        isinstance(value, (int, float)) and not isinstance(value, bool) and str(value) == text
    ):
        return value
    return text
