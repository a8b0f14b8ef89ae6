"""The mark beside a folder that was built: written last, and only where the folder is the one that was planned."""

from pathlib import Path

from rungproof.records.codec import load_json
from rungproof.records.errors import SetupError
from rungproof.records.files import write_atomic


def mark_ready(to: Path, key: str, digest: str, mark: Path) -> None:
    """Copy the manifest of `to` to `mark`. Raises SetupError when its `key` does not begin with the planned `digest`."""
    data = (to / "manifest.json").read_bytes()
    found = str(load_json(data, str(to / "manifest.json")).get(key, ""))
    if not found.startswith(digest):
        raise SetupError(
            f"{to}: made from another lock or recipe than was planned ({key} begins {found[:12]}; expected {digest}): a file "
            f"changed while the call ran. Remove the folder and run the same command again."
        )
    write_atomic(mark, data)
