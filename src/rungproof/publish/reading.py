"""Files of packs that strangers made: bounded, never a link or a device, and held against the pack's manifest."""

import os
from pathlib import Path

from rungproof.records.codec import sha256
from rungproof.records.errors import EvidenceError

MAX_BYTES = 64 * 2**20  # a record above this is not one of ours


def read_bounded(path: Path, most: int = MAX_BYTES) -> bytes:
    """A plain file's bytes. Raises EvidenceError for a link, a file that cannot be read, and one of more than `most` bytes."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            data = file.read(most + 1) or b""  # a pipe without a writer gives nothing
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be read ({error.strerror}); expected a plain file") from error
    if len(data) > most:
        raise EvidenceError(f"{path}: more than {most} bytes; refused")
    return data


def listed(manifest: bytes, name: str, data: bytes) -> bool:
    """Whether a manifest (`sha256sum` format) names these bytes under this path."""
    return f"{sha256(data)}  {name}".encode() in manifest.split(b"\n")
