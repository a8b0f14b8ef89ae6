"""One request on one non-blocking connection: what it has sent and received, and how it ended."""

import contextlib
import socket
import struct
import sys
import time

from rungproof.judge.http1 import Framing
from rungproof.records.formats import EndKind

# Python names the option only in later versions. 35 on Linux, but for the sparc, parisc and mips families.
SO_TIMESTAMPNS: int = getattr(socket, "SO_TIMESTAMPNS", 35)
_STAMP = struct.Struct("@ll")  # struct timespec: seconds, nanoseconds
_ANCILLARY = socket.CMSG_SPACE(_STAMP.size) if hasattr(socket, "CMSG_SPACE") else 0

# A read that covers several packets carries the stamp of the LAST one, and packets that wait in the queue are merged
# before we read, so a smaller buffer would not tell them apart. It means that a stamp is never early, and late only
# where this process was behind: at most until the read. The buffer holds far more than an event, so that a process
# that was behind catches up in one call.
READ_SIZE = 64 * 1024


def new_socket(family: int) -> socket.socket:
    """A non-blocking TCP socket whose kernel stamps what it receives, where it can. Raises OSError."""
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if sys.platform.startswith("linux"):
            with contextlib.suppress(OSError):
                made.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    except BaseException:
        made.close()
        raise
    return made


class Stream:
    """One request. `received` holds (kernel stamp on the real-time clock or None, monotonic read stamp, bytes) [ns]."""

    def __init__(self, key: str, body: bytes, request: bytes, delay_ns: int) -> None:
        self.key = key
        self.body = body
        self.delay_ns = delay_ns
        self.socket: socket.socket | None = None
        self.addresses: list[tuple[int, tuple[object, ...]]] = []
        self.connected_ns: int | None = None
        self.sent_ns: int | None = None
        self.sent_end_ns: int | None = None
        self.progress_ns = 0
        self.end: EndKind | None = None
        self.end_ns = 0
        self.detail = ""
        self.received: list[tuple[int | None, int, bytes]] = []
        self._unsent = memoryview(request)
        self._framing = Framing()

    @property
    def sending(self) -> bool:
        """Bytes of the request still wait to be sent."""
        return self.end is None and self.sent_ns is not None and len(self._unsent) > 0

    def finish(self, end: EndKind, detail: str = "") -> None:
        """End this request, once; closes its connection. Later calls change nothing."""
        if self.end is None:
            self.end, self.detail, self.end_ns = end, detail, time.monotonic_ns()
        self.drop()

    def drop(self) -> None:
        """Close the connection, if there is one."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def send(self) -> None:
        """Give the kernel as much of the request as it takes; the first call stamps `sent_ns`."""
        if self.socket is None:
            return
        now = time.monotonic_ns()
        if self.sent_ns is None:
            self.sent_ns = now
        self.progress_ns = now
        try:
            while len(self._unsent):
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            # The server may have answered (say, 413) and closed: what it said is still there to be read, and the
            # read that follows reports the end.
            self._unsent = memoryview(b"")
            return
        self.sent_end_ns = time.monotonic_ns()

    def receive(self) -> None:
        """Read once, stamp, store; end the request where the framing, the peer or the bound ends it."""
        if self.socket is None:
            return
        try:
            data, ancillary, _, _ = self.socket.recvmsg(READ_SIZE, _ANCILLARY)
        except (BlockingIOError, InterruptedError):
            return
        except (ConnectionResetError, BrokenPipeError) as error:
            self.finish("reset", error.strerror or "connection reset")
            return
        except OSError as error:
            self.finish("client_error", f"read: {error.strerror}")
            return
        now = self.progress_ns = time.monotonic_ns()
        if not data:
            self.finish("eof", "the server closed the connection")
            return
        kernel_ns = None
        for level, kind, value in ancillary:
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(value) == _STAMP.size:
                seconds, nanoseconds = _STAMP.unpack(value)
                kernel_ns = seconds * 10**9 + nanoseconds
        self.received.append((kernel_ns, now, data))
        self._framing.feed(data)
        if self._framing.finished:
            self.finish("framed")
        elif self._framing.problem is not None:
            self.finish("oversize" if self._framing.oversize else "client_error", self._framing.problem)
