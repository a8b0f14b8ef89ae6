"""Records on disk: canonical JSON, digests, and dataclasses to and from JSON with every type checked.

Canonical JSON is UTF-8, keys sorted, no insignificant space, no NaN, a newline at the end. A digest is the
sha256 of those bytes, so equal content has an equal digest wherever and whenever it is written.
"""

import dataclasses
import hashlib
import json
import math
import types
import typing
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from rungproof.records.errors import EvidenceError

Record = TypeVar("Record")


def canonical(value: Any) -> bytes:
    """Canonical JSON of plain values or of a record. Raises ValueError for NaN and infinities."""
    text = json.dumps(plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8") + b"\n"


def sha256(data: bytes) -> str:
    """Digest of bytes, 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """sha256 of the canonical JSON of `value`."""
    return sha256(canonical(value))


def plain(value: Any) -> Any:
    """A record as dicts, lists and scalars."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def parse(cls: type[Record], data: bytes, where: str) -> Record:
    """Read one record. `where` names the file in the error.

    Raises EvidenceError for anything but exactly this record: broken JSON, duplicate, unknown or missing keys,
    wrong types, another format name.
    """
    return build(cls, load_json(data, where), where)


def read(cls: type[Record], path: Path) -> Record:
    """`parse` of a file; a missing or unreadable file is an EvidenceError too."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EvidenceError(
            f"{path}: cannot be read ({error.strerror}); expected a record of type {cls.__name__}"
        ) from error
    return parse(cls, data, str(path))


def load_json(data: bytes, where: str) -> Any:
    """JSON with duplicate keys, NaN and infinities (1e999 too) refused. Raises EvidenceError."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(items)
        if len(made) != len(items):
            raise EvidenceError(f"{where}: a key stands twice in one object; expected each key once")
        return made

    def constant(name: str) -> NoReturn:
        raise EvidenceError(f"{where}: found {name}; expected a finite number")

    def finite(text: str) -> float:
        value = float(text)
        return value if math.isfinite(value) else constant(text[:40])

    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constant, parse_float=finite)
    except (ValueError, RecursionError) as error:
        raise EvidenceError(f"{where}: not valid JSON ({error}); the file is damaged or not one of ours") from error


def build(cls: type[Record], value: Any, where: str) -> Record:
    """A record from plain values; see `parse`."""
    return typing.cast(Record, _build(cls, value, where))


def _build(kind: Any, value: Any, where: str) -> Any:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return _build_record(kind, value, where)
    if origin in (typing.Union, types.UnionType):
        return _build_union(args, value, where)
    if origin is typing.Literal:
        if value not in args or type(value) not in {type(arg) for arg in args}:
            raise EvidenceError(f"{where}: found {value!r:.80}; expected one of {', '.join(map(repr, args))}")
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise EvidenceError(f"{where}: found {type(value).__name__}; expected a list")
        if args[-1] is Ellipsis:
            return tuple(_build(args[0], item, f"{where}[{i}]") for i, item in enumerate(value))
        if len(value) != len(args):
            raise EvidenceError(f"{where}: found {len(value)} entries; expected {len(args)}")
        return tuple(_build(arg, item, f"{where}[{i}]") for i, (arg, item) in enumerate(zip(args, value, strict=True)))
    if origin is dict:
        if not isinstance(value, dict):
            raise EvidenceError(f"{where}: found {type(value).__name__}; expected an object")
        return {key: _build(args[1], item, f"{where}.{key}") for key, item in value.items()}
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise EvidenceError(f"{where}: found {value!r:.80}; expected {getattr(kind, '__name__', kind)}")
    return value


def _build_union(options: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in options:
        return None
    first: EvidenceError | None = None
    for option in options:
        if option is type(None):
            continue
        try:
            return _build(option, value, where)
        except EvidenceError as error:
            first = first or error
    raise first or EvidenceError(f"{where}: found {value!r:.80}; expected nothing")


def _build_record(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise EvidenceError(f"{where}: found {type(value).__name__}; expected an object ({kind.__name__})")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    if unknown := sorted(set(value) - set(fields)):
        raise EvidenceError(f"{where}: unknown key {unknown[0]!r}; {kind.__name__} has {', '.join(sorted(fields))}")
    hints = typing.get_type_hints(kind)
    made = {}
    for name, field in fields.items():
        if name in value:
            made[name] = _build(hints[name], value[name], f"{where}.{name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise EvidenceError(f"{where}: key {name!r} is missing; {kind.__name__} needs it")
    return kind(**made)
