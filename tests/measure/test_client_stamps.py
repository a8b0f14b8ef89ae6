"""Kernel stamps are on before a batch begins, and their absence is told."""

import socket

import pytest

from rungproof.measure.client import stamps
from rungproof.measure.client.stream import read_stamped
from rungproof.measure.selftest import burst_server, one_round


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has measured nothing yet."""
    monkeypatch.setattr(stamps, "_kept", [])


@pytest.mark.usefixtures("fresh")
def test_stamps_are_on_when_it_says_so() -> None:
    """A connection made and read at once after that has a stamp on its first byte."""
    if not stamps.switch_on():
        pytest.skip("this kernel gives no receive stamps")
    for _ in range(50):
        with (
            socket.create_server(("127.0.0.1", 0)) as listener,
            socket.create_connection(listener.getsockname()) as sends,
        ):
            receives, _ = listener.accept()
            with receives:
                stamps.stamp_receives(receives)
                sends.send(b".")
                assert read_stamped(receives)[1] is not None


def test_every_batch_of_a_process_has_the_same_source_of_stamps() -> None:
    """Many short batches, each on fresh connections: none falls back because stamps came too late for its first byte."""
    with burst_server(1.0) as address:
        sources = [one_round(address, 1, 1.0, 2).stamp_source for _ in range(30)]
    assert len(set(sources)) == 1


@pytest.mark.usefixtures("fresh")
def test_a_kernel_without_stamps_is_waited_for_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no stamp ever comes it says so, and where no loopback is to be had nothing is raised."""
    monkeypatch.setattr(stamps, "PATIENCE_S", 0.05)
    monkeypatch.setattr(stamps, "read_stamped", lambda connection: (connection.recv(1), None))
    assert not stamps.switch_on()

    def refuse(*_: object) -> None:
        raise OSError(99, "Cannot assign requested address")

    monkeypatch.setattr(stamps, "_kept", [])
    monkeypatch.setattr(socket, "create_server", refuse)
    assert not stamps.switch_on()
