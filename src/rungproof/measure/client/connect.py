"""Open the connections of a batch, all at once, before its barrier."""

import errno
import os
import resource
import selectors
import socket
import ssl
import time
from collections.abc import Sequence

from rungproof.measure.client.kept import Kept
from rungproof.measure.client.planned import Address
from rungproof.measure.client.stream import Stream, new_socket


def connect_all(address: Address, streams: Sequence[Stream], deadline_ns: int, kept: Kept | None = None) -> None:
    """Connect every stream: from `kept` while it has connections, else each trying the host's addresses in turn.

    One that cannot be connected is finished with the reason.
    """
    fresh = [stream for stream in streams if not _take(stream, kept)]
    if not fresh:
        return
    allow_files(len(fresh))
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError) as error:
        for stream in fresh:
            stream.finish("client_error", f"{address.host}: no address found ({error})")
        return
    with selectors.DefaultSelector() as selector:
        context = _context() if address.tls else None
        for stream in fresh:
            stream.addresses = [(int(family), where) for family, _, _, _, where in found]
            _next_address(stream, selector)
        while selector.get_map():
            left_s = (deadline_ns - time.monotonic_ns()) / 1e9
            if left_s <= 0:
                break
            for key, _ in selector.select(left_s):
                selector.unregister(key.fileobj)
                if isinstance(key.fileobj, ssl.SSLSocket):
                    _shake(key.data, key.fileobj, selector)
                else:
                    _settle(key.data, selector, context, address.host)
    for stream in fresh:
        if stream.end is None and stream.connected_ns is None:
            stream.finish("timeout", "not connected before the deadline")


def allow_files(more: int) -> None:
    """Let this process hold `more` open files, as far as the system allows it; 1,024 in all is a usual limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = more + 512
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
        )


def _take(stream: Stream, kept: Kept | None) -> bool:
    """Give the stream a kept connection, if there is one."""
    stream.socket = kept.take() if kept is not None else None
    if stream.socket is None:
        return False
    stream.connected_ns = time.monotonic_ns()
    return True


def _next_address(stream: Stream, selector: selectors.BaseSelector, code: int = 0) -> None:
    """Begin to connect to the next address; finish the stream where none is left. `code`: errno of the last one."""
    stream.drop()
    if not stream.addresses:
        stream.finish("refused" if code == errno.ECONNREFUSED else "client_error", f"connect: {os.strerror(code)}")
        return
    family, where = stream.addresses.pop(0)
    try:
        stream.socket = new_socket(family)
        code = stream.socket.connect_ex(where)
    except OSError as error:
        _next_address(stream, selector, error.errno or 0)
        return
    if code in (0, errno.EINPROGRESS):
        selector.register(stream.socket, selectors.EVENT_WRITE, stream)
    else:
        _next_address(stream, selector, code)


def _settle(stream: Stream, selector: selectors.BaseSelector, context: ssl.SSLContext | None, host: str) -> None:
    """A connection attempt is over: it stands, or the next address is tried. With TLS its handshake comes then."""
    if stream.socket is None:
        return
    code = stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        _next_address(stream, selector, code)
    elif context is None:
        stream.connected_ns = time.monotonic_ns()
    else:
        wrapped = context.wrap_socket(stream.socket, server_hostname=host, do_handshake_on_connect=False)
        stream.socket = wrapped
        _shake(stream, wrapped, selector)


def _context() -> ssl.SSLContext:
    """OpenSSL's own rules and the system's authorities; HTTP/1.1 and nothing else is offered."""
    made = ssl.create_default_context()
    made.set_alpn_protocols(["http/1.1"])
    return made


def _shake(stream: Stream, connection: ssl.SSLSocket, selector: selectors.BaseSelector) -> None:
    """Go on with the TLS handshake; a server that is not who it should be ends the request."""
    try:
        connection.do_handshake()
        stream.connected_ns = time.monotonic_ns()
    except ssl.SSLWantReadError:
        selector.register(connection, selectors.EVENT_READ, stream)
    except ssl.SSLWantWriteError:
        selector.register(connection, selectors.EVENT_WRITE, stream)
    except OSError as error:
        stream.finish("client_error", f"TLS: {error}")
