"""Faults told from outside: the file named by RUNGPROOF_SIM_FAULTS, read again at each request.

The file is a JSON list of objects. No variable or no file: no faults. Keys of an object:

do            which fault (below)
match         all given conditions must hold: inflight_at_least (requests in flight, this one included, at the moment
              of the fault), concurrent (exactly so many), prompt_contains, model_contains (the served model name)
after_tokens  the fault comes when so many tokens of the answer are out
times         how often at most, in one server process; absent: each time

While serving (default of after_tokens in brackets):
drop [5] closes the socket in the middle of the body · error_in_band [5] sends an error object inside the stream, then
[DONE] · hang [5] sends nothing more · die [5] ends the process at once with code 70 · flip [44] says wrong tokens from
there on · cut_no_done [all] ends the body properly, without [DONE], and where it cuts tokens off without finish_reason
and usage · short [10] ends the answer early with finish_reason "stop" · slow [0] adds `step_ms` (default 5) to each
step · preempt [0] raises the preemption counter · script [0] overwrites tokens with hostile HTML text · http_500 and
cache_hit concern the whole answer and take no after_tokens.

While starting (of `match` only model_contains can hold):
slow_start adds `seconds` (default 1) · exit_at_start ends with `code` (default 1) · fault_line prints `text` on
stderr · never_ready does not listen · wrong_model serves another model name than asked.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "RUNGPROOF_SIM_FAULTS"
SCRIPT = b"<script>alert(1)</script><img src=x onerror=alert(1)>"
AT_END = -1  # position of a fault that comes after the last token

_POSITIONS = {
    "drop": 5, "error_in_band": 5, "hang": 5, "die": 5, "flip": 44, "cut_no_done": AT_END, "short": 10, "slow": 0,
    "preempt": 0, "script": 0,
}  # fmt: skip
_WHOLE = frozenset({"http_500", "cache_hit"})
_START = frozenset({"slow_start", "exit_at_start", "fault_line", "never_ready", "wrong_model"})
_ALL = frozenset(_POSITIONS) | _WHOLE | _START
_OWN: dict[
    str, tuple[str, Any, int]
] = {  # fault -> its own key, the default (whose kind is required), the greatest number
    "slow": ("step_ms", 5.0, 86_400_000),
    "slow_start": ("seconds", 1.0, 86_400),
    "exit_at_start": ("code", 1, 255),
    "fault_line": ("text", "FAULT: the simulated device fell off the bus", 0),
}
_MATCH: dict[str, type] = {"inflight_at_least": int, "concurrent": int, "prompt_contains": str, "model_contains": str}


class BrokenFaults(Exception):
    """The faults file cannot be used; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What a fault's conditions are held against."""

    inflight: int
    prompt: str
    model: str


@dataclass(frozen=True, slots=True)
class Fault:
    """One entry of the file. `position`: tokens out when it comes, or AT_END; `value`: its own parameter."""

    key: str
    do: str
    match: dict[str, Any]
    position: int
    times: int | None
    value: Any

    def fits(self, situation: Situation) -> bool:
        """Whether all conditions hold."""
        wanted = self.match
        return (
            situation.inflight >= wanted.get("inflight_at_least", 0)
            and situation.inflight == wanted.get("concurrent", situation.inflight)
            and wanted.get("prompt_contains", "") in situation.prompt
            and wanted.get("model_contains", "") in situation.model
        )


class Faults:
    """The faults file of one server process, and how often each fault has come."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._used: dict[str, int] = {}

    def read(self) -> tuple[Fault, ...]:
        """The faults as the file has them now. Raises BrokenFaults."""
        if not self._path:
            return ()
        try:
            entries = json.loads(Path(self._path).read_bytes())
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, RecursionError) as error:
            raise BrokenFaults(f"{self._path}: no readable JSON ({error})") from error
        if not isinstance(entries, list):
            raise BrokenFaults(f"{self._path}: must be a list of faults, found {type(entries).__name__}")
        return tuple(_fault(entry, f"{self._path}: fault {index}", index) for index, entry in enumerate(entries))

    def comes(self, fault: Fault, situation: Situation) -> bool:
        """Whether `fault` comes in this situation; counts it if so."""
        used = self._used.get(fault.key, 0)
        if not fault.fits(situation) or (fault.times is not None and used >= fault.times):
            return False
        self._used[fault.key] = used + 1
        return True

    def at_start(self, model: str) -> tuple[Fault, ...]:
        """The start faults that come. Raises BrokenFaults."""
        situation = Situation(0, "", model)
        return tuple(fault for fault in self.read() if fault.do in _START and self.comes(fault, situation))


def _fault(entry: object, where: str, index: int) -> Fault:
    if not isinstance(entry, dict):
        raise BrokenFaults(f"{where}: must be an object, found {type(entry).__name__}")
    do = entry.get("do")
    if not isinstance(do, str) or do not in _ALL:
        raise BrokenFaults(f"{where}: no fault is called {do!r}; known: {', '.join(sorted(_ALL))}")
    where = f"{where} ({do})"
    allowed = {"do", "match", "times"} | ({"after_tokens"} if do in _POSITIONS else set())
    allowed |= {_OWN[do][0]} if do in _OWN else set()
    if unknown := sorted(entry.keys() - allowed):
        raise BrokenFaults(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(sorted(allowed))}")
    return Fault(
        key=f"{index} {json.dumps(entry, sort_keys=True)}",
        do=do,
        match=_conditions(entry.get("match", {}), where),
        position=_count(entry, "after_tokens", _POSITIONS.get(do, 0), where),
        times=None if "times" not in entry else _count(entry, "times", 0, where),
        value=_own_value(entry, do, where),
    )


def _count(entry: dict[str, Any], key: str, default: int, where: str) -> int:
    value = entry.get(key, default)
    if key in entry and (type(value) is not int or value < 0):
        raise BrokenFaults(f"{where}: {key} must be a whole number of at least 0, found {value!r}")
    return int(value)


def _conditions(match: object, where: str) -> dict[str, Any]:
    if not isinstance(match, dict):
        raise BrokenFaults(f"{where}: match must be an object, found {type(match).__name__}")
    for key, value in match.items():
        if key not in _MATCH or type(value) is not _MATCH[key]:
            kinds = ", ".join(f"{name} ({kind.__name__})" for name, kind in _MATCH.items())
            raise BrokenFaults(f"{where}: condition {key!r}: {value!r} is not one of {kinds}")
    return match


def _own_value(entry: dict[str, Any], do: str, where: str) -> Any:
    if do not in _OWN:
        return None
    key, default, greatest = _OWN[do]
    value = entry.get(key, default)
    kinds = (int, float) if isinstance(default, float) else (type(default),)
    if type(value) not in kinds:
        raise BrokenFaults(f"{where}: {key} must be of type {kinds[-1].__name__}, found {value!r}")
    if not isinstance(value, str) and not 0 <= value <= greatest:
        raise BrokenFaults(f"{where}: {key} must be from 0 to {greatest}, found {value!r}")
    return value
