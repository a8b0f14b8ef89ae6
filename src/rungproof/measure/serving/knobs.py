"""Every argument and variable asked for, looked up in the running server. What cannot be read is not in force."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rungproof.measure.serving import procfs
from rungproof.measure.serving.engines.engine import Engine, render, text
from rungproof.records.formats import Knob, Reason


@dataclass(frozen=True, slots=True)
class Shown:
    """What a running server shows of how it was started; None where it shows nothing."""

    command_line: tuple[str, ...] | None
    variables: dict[str, str] | None

    @classmethod
    def of(cls, pid: int, proc: Path = procfs.PROC) -> "Shown":
        """Read it from /proc."""
        return cls(procfs.command_line(pid, proc), procfs.variables(pid, proc))

    def whole(self, boot: str) -> bool:
        """Whether our nonce is still there; a process that sets its own title may write over what it shows."""
        return self.variables is not None and self.variables.get("RUNGPROOF_BOOT") == boot


def verify(
    engine: Engine, arguments: Mapping[str, Any], asked: Mapping[str, str], shown: Shown, log: str
) -> tuple[Knob, ...]:
    """All knobs of a server, from its command line, its environment and what its log states."""
    return (
        *(_argument(key, value, shown.command_line) for key, value in arguments.items()),
        *(_variable(name, value, shown.variables) for name, value in asked.items()),
        *engine.log_knobs(arguments, log),
    )


def reasons(knobs: Sequence[Knob]) -> tuple[Reason, ...]:
    """One reason for each knob that is not in force."""
    return tuple(
        Reason(
            "knob not in force",
            "nothing" if knob.found is None else knob.found,
            knob.asked,
            f"{knob.name} ({knob.source})",
        )
        for knob in knobs
        if not knob.ok
    )


def _argument(key: str, value: Any, shown: tuple[str, ...] | None) -> Knob:
    found = None if shown is None else _shown(key, shown)
    wanted = render({key: value})
    return Knob(f"--{key}", wanted[0] if len(wanted) == 1 else text(value), found, "command line", found == wanted[-1])


def _shown(key: str, shown: tuple[str, ...]) -> str | None:
    """The last word on `key`, as the option parser takes it: the value, or the flag itself where it has none."""
    found: str | None = None
    for place, word in enumerate(shown):
        name, mark, value = word.partition("=")
        if name.replace("_", "-") not in (f"--{key}", f"--no-{key}"):
            continue
        following = shown[place + 1] if place + 1 < len(shown) else None
        if mark:
            found = value
        elif following is not None and not following.startswith("--"):
            found = following
        else:
            found = word
    return found


def _variable(name: str, value: str, present: dict[str, str] | None) -> Knob:
    found = None if present is None else present.get(name)
    return Knob(name, value, found, "environment", found == value)
