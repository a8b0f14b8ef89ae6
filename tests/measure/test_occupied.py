"""Devices before and after a session: foreign holders are named and left alone, memory must be given back."""

import subprocess
from collections.abc import Iterator

import pytest

from rungproof.measure.hosts.devices import Device
from rungproof.measure.serving import occupied

GIB = 2**30


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that does nothing."""
    made = subprocess.Popen(["sleep", "3600"])
    yield made
    made.kill()
    made.wait()


def device(used: list[int] | None, holders: list[int] | None = None) -> Device:
    """A device of 16 GiB; `used`: what it says at each look [bytes], the last value for ever; None: it does not say."""

    def memory() -> tuple[int, int] | None:
        if used is None:
            return None
        return (used.pop(0) if len(used) > 1 else used[0], 16 * GIB)

    return Device("gpu0", "0000:03:00.0", dict, dict, memory, lambda: holders or [])


def test_a_foreign_holder_is_named_with_its_user_and_left_alone(sleeper: "subprocess.Popen[bytes]") -> None:
    """Process, name and user of whoever holds the device stand in the refusal; it goes on to run."""
    (reason,) = occupied.before([device([0], [sleeper.pid])], (), 0.0)
    assert (reason.what, reason.where) == ("device is held by another process", "gpu0")
    assert f"process {sleeper.pid} (sleep) of user " in reason.found
    assert sleeper.poll() is None
    assert occupied.before([device([0], [sleeper.pid])], ("sleep",), 0.0) == ()


def test_a_holder_that_cannot_be_seen_is_a_holder() -> None:
    """In a container the driver names processes that are not visible here: the device is held all the same."""
    (reason,) = occupied.before([device([0], [2**22 + 5])], (), 0.0)
    assert "not visible here" in reason.found


def test_memory_that_nobody_holds_is_waited_for_and_then_refused() -> None:
    """Memory of a process that has just ended comes back in seconds; memory that stays is told with its size."""
    assert occupied.before([device([9 * GIB, 5 * GIB, GIB // 8])], (), 5.0) == ()
    (reason,) = occupied.before([device([9 * GIB])], (), 0.3)
    assert (reason.what, reason.found.split(",")[0]) == ("device memory is in use", "9.0 of 16.0 GiB")


def test_a_device_that_does_not_say_is_not_called_full_or_empty() -> None:
    """Where a driver shows no use of memory, holders alone decide."""
    assert occupied.before([device(None)], (), 0.0) == ()
    assert occupied.used([device(None)]) == {}
    assert occupied.after([device(None)], (), {}, 0.0) == ()


def test_what_is_not_given_back_is_told(sleeper: "subprocess.Popen[bytes]") -> None:
    """After the end the memory must be what it was before, but for what a driver keeps, and nobody may hold the device."""
    was = occupied.used([device([GIB])])
    assert occupied.after([device([7 * GIB, GIB + occupied.SLACK_BYTES])], (), was, 5.0) == ()
    (text,) = occupied.after([device([7 * GIB])], (), was, 0.3)
    assert text == "gpu0: 7.0 GiB in use, held by nobody that this user can see"
    (text,) = occupied.after([device([GIB], [sleeper.pid])], (), was, 0.3)
    assert f"held by process {sleeper.pid}" in text


def test_a_device_that_is_not_there_is_refused() -> None:
    """A host profile that names a device which the machine lacks is answered with those that there are."""
    (reason,) = occupied.missing([device([0])], ["gpu0", "gpu1"])
    assert (reason.found, reason.expected) == ("gpu0", "gpu1")
    assert occupied.missing([], ["gpu0"])[0].found == "none"
    assert occupied.missing([device([0])], ["gpu0"]) == ()
