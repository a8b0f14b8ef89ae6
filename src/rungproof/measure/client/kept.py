"""Connections that carry one request after another, where a step asks for that instead of fresh ones."""

import socket


class Kept:
    """Open connections to one server, idle between batches. Close it when the step is over."""

    def __init__(self) -> None:
        self.idle: list[socket.socket] = []

    def take(self) -> socket.socket | None:
        """A connection that still stands and says nothing, or None; one that the server has closed is dropped."""
        while self.idle:
            held = self.idle.pop()
            try:
                held.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                return held
            except OSError:
                pass
            held.close()  # closed by the server, or it spoke unasked
        return None

    def close(self) -> None:
        """Close all of them."""
        while self.idle:
            self.idle.pop().close()
