"""Every argument and variable asked for, looked up in the running server. What cannot be read is not in force."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rungproof.measure.serving import procfs
from rungproof.measure.serving.engines.engine import Engine, text
from rungproof.measure.serving.order import Order
from rungproof.records.formats import Knob, Reason


@dataclass(frozen=True, slots=True)
class Shown:
    """What a running server shows of how it was started; None where it shows nothing."""

    command_line: tuple[str, ...] | None
    variables: dict[str, str] | None
    arguments_from: str = "command line"
    variables_from: str = "environment"

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
        *(_argument(engine, key, value, shown) for key, value in arguments.items()),
        *(_variable(name, value, shown) for name, value in asked.items()),
        *engine.log_knobs(arguments, log),
    )


def portable(knob: Knob, order: Order) -> Knob:
    """A knob whose found value, which may quote the server's log, names no path of this machine."""
    return knob if knob.found is None else replace(knob, found=order.portable(knob.found))


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


def _argument(engine: Engine, key: str, value: Any, shown: Shown) -> Knob:
    found = None if shown.command_line is None else _shown(key, shown.command_line)
    wanted = engine.write({key: value})
    if not wanted:  # written by leaving it away: in force if it is not there
        absent = shown.command_line is not None and found is None
        return Knob(f"--{key}", "left away", "left away" if absent else found, shown.arguments_from, absent)
    asked = wanted[0] if len(wanted) == 1 else text(value)
    return Knob(f"--{key}", asked, found, shown.arguments_from, found == wanted[-1])


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


def _variable(name: str, value: str, shown: Shown) -> Knob:
    found = None if shown.variables is None else shown.variables.get(name)
    return Knob(name, value, found, shown.variables_from, found == value)
