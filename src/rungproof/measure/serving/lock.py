"""One measurement at a time on a host: a lock file that supervisor and guard hold for as long as a server may live."""

import fcntl
import json
import os
from pathlib import Path

from rungproof.records.errors import HostError


def _open(path: Path) -> int:
    """Open for reading and writing, whoever made it. A shared folder may forbid O_CREAT on another user's file."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
        os.fchmod(handle, 0o666)  # whatever the umask says: the next user must be able to lock it
        return handle
    except FileExistsError:
        return os.open(path, flags)


def take(path: Path, campaign: str, session: str) -> int:
    """Take the host's lock, or raise HostError at once that says who holds it. Returns the file's descriptor."""
    try:
        handle = _open(path)
    except OSError as error:
        raise HostError(
            f"{path}: the host's lock file cannot be opened ({error.strerror}); expected a file that all may write"
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        found = _holder(handle)
        os.close(handle)
        raise HostError(
            f"this host is measuring: {path} is held by {found}; wait until it has ended, or use another host"
        ) from error
    text = json.dumps({"pid": os.getpid(), "campaign": campaign, "session": session}).encode() + b"\n"
    os.ftruncate(handle, 0)
    os.pwrite(handle, text, 0)
    return handle


def release(handle: int) -> None:
    """Give the lock back, for every process that shares this descriptor."""
    os.ftruncate(handle, 0)
    fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


def _holder(handle: int) -> str:
    try:
        found = json.loads(os.pread(handle, 4096, 0))
        return f"process {found['pid']}, campaign {found['campaign']}, session {found['session']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "a process that has not written its name"
