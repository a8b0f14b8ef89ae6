"""One measurement at a time on a host: a lock file that supervisor and guard hold for as long as a server may live.

Beside it may lie a latch: something of an earlier session did not end, or did not give its device back. Nothing is started
until a person has looked and said `rungproof host clear`.
"""

import fcntl
import json
import os
import pwd
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rungproof.records.errors import HostError

LONGEST = 64 * 1024  # bytes of a record that anybody on this machine may have written


def path_of(name: str) -> Path:
    """The lock file of a host lock's name: in RUNGPROOF_LOCK_DIR or /tmp, one for all users and folders of the machine."""
    return Path(os.environ.get("RUNGPROOF_LOCK_DIR", "/tmp")) / f"rungproof-{name}.lock"


def latch_of(path: Path) -> Path:
    """The latch beside a lock file."""
    return path.with_suffix(".latched")


def take(path: Path, campaign: str, session: str, folder: Path | None = None) -> int:
    """Take the host's lock, or raise HostError at once that says who holds it. Returns the file's descriptor.

    folder: where the session lies, for whoever asks who holds it.
    """
    handle = _locked(path)
    try:
        if (latched := read_latch(path)) is not None:
            raise HostError(latch_words(path, latched))
        now = datetime.now(UTC).isoformat(timespec="seconds")
        text = {
            "pid": os.getpid(),
            "user": user(os.getuid()),
            "campaign": campaign,
            "session": session,
            "folder": str(folder or ""),
            "since": now,
        }
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(text).encode() + b"\n", 0)
    except BaseException:
        os.close(handle)
        raise
    return handle


def release(handle: int) -> None:
    """Give the lock back, for every process that shares this descriptor."""
    os.ftruncate(handle, 0)
    fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


def holder(path: Path) -> str | None:
    """Who holds the lock, in words; None if nobody does. Raises HostError if the file cannot be opened."""
    if not path.exists():
        return None
    handle = _opened(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _holder(handle, with_folder=True)
    finally:
        os.close(handle)
    return None


def latch(path: Path, session: str, reasons: Sequence[str]) -> None:
    """Latch the host. Never raises: it is called where a session is being closed; a latch that could not be written is told."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    text = (
        json.dumps(
            {"session": session, "since": now, "user": user(os.getuid()), "reasons": list(reasons)[:20]}
        ).encode()
        + b"\n"
    )
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(latch_of(path), flags, 0o666)
    except OSError as error:
        print(f"the host could not be latched: {latch_of(path)}: {error.strerror}", flush=True)
        return
    try:
        os.write(handle, text)
        os.fchmod(handle, 0o666)
    except OSError as error:
        print(f"the host's latch may be incomplete: {error.strerror}", flush=True)
    finally:
        os.close(handle)


def read_latch(path: Path) -> dict[str, Any] | None:
    """What a latch says; None without one. A latch that cannot be read is one all the same."""
    try:
        handle = os.open(latch_of(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        return {"reasons": [f"it cannot be read ({error.strerror})"]}
    try:
        found = json.loads(os.read(handle, LONGEST))
    except (OSError, ValueError, RecursionError):
        found = None
    finally:
        os.close(handle)
    return found if isinstance(found, dict) else {"reasons": ["it is damaged"]}


def latch_words(path: Path, latched: dict[str, Any]) -> str:
    """A latch as an error."""
    reasons = latched.get("reasons")
    why = "; ".join(map(str, reasons)) if isinstance(reasons, list) else str(reasons)
    return (
        f"this host is latched since {latched.get('since', 'an unknown time')}, when session {latched.get('session', 'unknown')} left it "
        f"unclean: {why[:2000]}. Look at the device and its processes, end what should not be there, then: rungproof host clear"
        f" ({latch_of(path)})"
    )


def unlatch(path: Path) -> bool:
    """Take the latch away; False if there was none. Raises HostError if it cannot be removed."""
    try:
        latch_of(path).unlink()
        return True
    except FileNotFoundError:
        return False
    except OSError as error:
        raise HostError(
            f"{latch_of(path)}: cannot be removed ({error.strerror}); only its owner or root can"
        ) from error


def user(uid: int) -> str:
    """Name of a user; the number where there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _locked(path: Path) -> int:
    """The lock file's descriptor, locked. A file that was removed or replaced meanwhile does not count."""
    for _ in range(10):
        handle = _opened(path)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            found = _holder(handle)
            os.close(handle)
            raise HostError(
                f"this host is measuring: {path} is held by {found}; wait until it has ended, or use another host"
            ) from error
        try:
            if os.path.samestat(os.fstat(handle), os.stat(path, follow_symlinks=False)):
                return handle
        except FileNotFoundError:
            pass
        os.close(handle)
    raise HostError(f"{path}: is removed again and again by somebody; expected a lock file that stays")


def _opened(path: Path) -> int:
    try:
        return _open(path)
    except OSError as error:
        raise HostError(
            f"{path}: the host's lock file cannot be opened ({error.strerror}); expected a file that all may write"
        ) from error


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


def _holder(handle: int, with_folder: bool = False) -> str:
    """In words; the folder is for people at this machine, and stays out of records."""
    try:
        found = json.loads(os.pread(handle, LONGEST, 0))
        words = f"process {found['pid']}, campaign {found['campaign']}, session {found['session']}"
        more = [
            f"user {found['user']}" if found.get("user") else "",
            f"since {found['since']}" if found.get("since") else "",
        ]
        more += [str(found.get("folder", ""))] if with_folder else []
        return ", ".join([words, *filter(None, more)])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "a process that has not written its name"
