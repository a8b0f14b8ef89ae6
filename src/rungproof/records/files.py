"""Writing files whole or not at all."""

import os
import tempfile
from pathlib import Path

from rungproof.records.errors import HostError


def write_atomic(path: Path, data: bytes) -> None:
    """Write `data` to `path`: a temporary name in the same folder, fsync, rename. Raises HostError when the disk refuses."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise HostError(
            f"{path}: could not be written ({error.strerror}). Finished records are kept; free some space or mend the "
            "permissions of this folder and run the same command again."
        ) from error


def to_disk(path: Path) -> None:
    """Force a file, or the names in a folder, to the disk. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def append_synced(path: Path, data: bytes) -> None:
    """Append one flush to a raw file and force it to the disk. Raises HostError when the disk refuses."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise HostError(
            f"{path}: could not be appended to ({error.strerror}). What was written before is kept; free some space and "
            "run the same command again."
        ) from error
