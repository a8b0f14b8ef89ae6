"""Open the connections of a batch, all at once, before its barrier."""

import errno
import os
import selectors
import socket
import time
from collections.abc import Sequence

from rungproof.measure.client.planned import Address
from rungproof.measure.client.stream import Stream, new_socket


def connect_all(address: Address, streams: Sequence[Stream], deadline_ns: int) -> None:
    """Connect every stream, each trying the host's addresses in turn; one that cannot is finished with the reason."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError) as error:
        for stream in streams:
            stream.finish("client_error", f"{address.host}: no address found ({error})")
        return
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            stream.addresses = [(int(family), where) for family, _, _, _, where in found]
            _next_address(stream, selector)
        while selector.get_map():
            left_s = (deadline_ns - time.monotonic_ns()) / 1e9
            if left_s <= 0:
                break
            for key, _ in selector.select(left_s):
                selector.unregister(key.fileobj)
                _settle(key.data, selector)
    for stream in streams:
        if stream.end is None and stream.connected_ns is None:
            stream.finish("timeout", "not connected before the deadline")


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
    if code == 0:
        stream.connected_ns = time.monotonic_ns()
    elif code == errno.EINPROGRESS:
        selector.register(stream.socket, selectors.EVENT_WRITE, stream)
    else:
        _next_address(stream, selector, code)


def _settle(stream: Stream, selector: selectors.BaseSelector) -> None:
    """A connection attempt is over: it stands, or the next address is tried."""
    if stream.socket is None:
        return
    code = stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        _next_address(stream, selector, code)
    else:
        stream.connected_ns = time.monotonic_ns()
