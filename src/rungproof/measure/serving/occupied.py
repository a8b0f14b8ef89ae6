"""Whether the devices of a session are free before it, and given back after it. Nothing that is not ours is ever touched."""

import os
import time
from collections.abc import Callable, Sequence

from rungproof.measure.hosts.devices import Device
from rungproof.measure.serving import lock, procfs
from rungproof.records.formats import Reason

BACK_S = 15.0  # memory of an ended process is given back within seconds
SLACK_BYTES = 256 * 1024 * 1024  # what a driver keeps for itself moves a little
IDLE_SHARE, IDLE_BYTES = 0.05, 2**30  # what a driver may keep of a device that nobody holds: the greater of both
EVERY_S = 0.25


def before(devices: Sequence[Device], allowed: Sequence[str], wait_s: float = BACK_S) -> tuple[Reason, ...]:
    """Why the devices cannot be used now; () if they are free. Memory still in use is waited for, a holder is not."""
    made: list[Reason] = []
    for device in devices:
        if held := foreign(device, allowed):
            made.append(
                Reason(
                    "device is held by another process",
                    ", ".join(held),
                    "nobody: end that process, or use another device",
                    device.key,
                )
            )
        elif not _settled(lambda device=device: _idle(device), wait_s):  # type: ignore[misc]
            used, total = device.memory() or (0, 0)
            made.append(
                Reason(
                    "device memory is in use", f"{_gib(used)} of {_gib(total)} GiB, by nobody that this user can see",
                    f"at most {IDLE_SHARE:.0%} or 1 GiB", device.key,
                )
            )  # fmt: skip
    return tuple(made)


def used(devices: Sequence[Device]) -> dict[str, int]:
    """Memory in use on each device [bytes], where it says."""
    return {device.key: found[0] for device in devices if (found := device.memory()) is not None}


def after(
    devices: Sequence[Device], allowed: Sequence[str], was: dict[str, int], wait_s: float = BACK_S
) -> tuple[str, ...]:
    """What was not given back after the server's end, in words; () if all was. `was`: `used` before the start."""
    made = []
    for device in devices:

        def clean(device: Device = device) -> bool:
            now = device.memory()
            back = now is None or device.key not in was or now[0] <= was[device.key] + SLACK_BYTES
            return back and not foreign(device, allowed)

        if not _settled(clean, wait_s):
            held = ", ".join(foreign(device, allowed)) or "nobody that this user can see"
            now = device.memory()
            made.append(f"{device.key}: {_gib(now[0]) + ' GiB' if now else 'an unknown amount'} in use, held by {held}")
    return tuple(made)


def missing(devices: Sequence[Device], asked: Sequence[str]) -> tuple[Reason, ...]:
    """Devices that a host profile names and that are not there."""
    there = [device.key for device in devices]
    lacking = [key for key in asked if key not in there]
    return (Reason("device is not there", ", ".join(there) or "none", ", ".join(lacking)),) if lacking else ()


def foreign(device: Device, allowed: Sequence[str]) -> list[str]:
    """Processes that hold a device, in words; those with an allowed name left out."""
    made = []
    for pid in device.holders():
        found = procfs.process(pid)
        name = found.name if found else "not visible here"
        if pid != os.getpid() and name not in allowed and not (found and found.gone):
            made.append(f"process {pid} ({name}) of {owner(pid)}")
    return made


def owner(pid: int) -> str:
    """The user of a process, in words."""
    try:
        return f"user {lock.user(os.stat(procfs.PROC / str(pid)).st_uid)}"
    except OSError:
        return "an unknown user"


def _idle(device: Device) -> bool:
    found = device.memory()
    return found is None or found[0] <= max(IDLE_SHARE * found[1], IDLE_BYTES)


def _settled(holds: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() >= until:
            return False
        time.sleep(EVERY_S)
    return True


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f}"
