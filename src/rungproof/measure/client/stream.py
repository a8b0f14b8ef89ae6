"""One request on one non-blocking connection: what it has sent and received, and how it ended."""

import contextlib
import socket
import ssl
import struct
import sys
import time
from typing import NamedTuple

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
NOT_YET = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def new_socket(family: int) -> socket.socket:
    """A non-blocking TCP socket whose kernel stamps what it receives, where it can. Raises OSError."""
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stamp_receives(made)
    except BaseException:
        made.close()
        raise
    return made


def stamp_receives(connection: socket.socket) -> None:
    """Ask the kernel for its stamp of every received packet; where it has none, nothing happens."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)


def read_stamped(connection: socket.socket) -> tuple[bytes, int | None]:
    """Read once: the bytes and the kernel's receive stamp [ns, real-time clock], None where it gave none. Raises OSError.

    Under TLS the kernel's stamps are those of records and not of our bytes, so there is none; what OpenSSL has decrypted
    already is taken along, since no wait would tell of it.
    """
    if isinstance(connection, ssl.SSLSocket):
        clear = connection.recv(READ_SIZE)
        while waiting := connection.pending():
            clear += connection.recv(waiting)
        return clear, None
    data, ancillary, _, _ = connection.recvmsg(READ_SIZE, _ANCILLARY)
    for level, kind, value in ancillary:
        if kind == SO_TIMESTAMPNS and level == socket.SOL_SOCKET and len(value) == _STAMP.size:
            seconds, nanoseconds = _STAMP.unpack(value)
            return data, seconds * 10**9 + nanoseconds
    return data, None


class Taken(NamedTuple):
    """What is left of a request when it is over, and all that another process needs to be told of it.

    `received`: (kernel stamp on the real-time clock or None, monotonic read stamp, bytes) of each read [ns].
    """

    key: str
    body: bytes
    connected_ns: int | None
    sent_ns: int | None
    sent_end_ns: int | None
    end: EndKind
    end_ns: int
    detail: str
    received: list[tuple[int | None, int, bytes]]


class Stream:
    """One request. `received` is that of Taken; `kept`: where its connection goes if it can serve another one."""

    def __init__(
        self, key: str, body: bytes, request: bytes, delay_ns: int, kept: list[socket.socket] | None = None
    ) -> None:
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
        self._kept = kept

    @property
    def sending(self) -> bool:
        """Bytes of the request still wait to be sent."""
        return self.end is None and self.sent_ns is not None and len(self._unsent) > 0

    def finish(self, end: EndKind, detail: str = "") -> None:
        """End this request, once; closes its connection, or keeps it for a later one. Later calls change nothing."""
        if self.end is None:
            self.end, self.detail, self.end_ns = end, detail, time.monotonic_ns()
            whole = end == "framed" and not len(self._unsent) and self._framing.reusable
            if whole and self._kept is not None and self.socket is not None:
                self._kept.append(self.socket)
                self.socket = None
        self.drop()

    def drop(self) -> None:
        """Close the connection, if there is one."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def taken(self) -> Taken:
        """The request as it ended; one that did not is cancelled first."""
        self.finish("cancelled", "interrupted")
        return Taken(
            self.key, self.body, self.connected_ns, self.sent_ns, self.sent_end_ns, self.end or "cancelled", self.end_ns,
            self.detail, self.received,
        )  # fmt: skip

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
        except NOT_YET:
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
            data, kernel_ns = read_stamped(self.socket)
        except NOT_YET:
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
        self.received.append((kernel_ns, now, data))
        self._framing.feed(data)
        if self._framing.finished:
            self.finish("framed")
        elif self._framing.problem is not None:
            self.finish("oversize" if self._framing.oversize else "client_error", self._framing.problem)
