"""A pack that lies elsewhere or in a zip, brought into a folder: with limits, and never a byte outside of it."""

import http.client
import shutil
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from rungproof.records.errors import ConfigError, EvidenceError
from rungproof.verify import MOST_BYTES, MOST_FILES, wrong_name

RATIO, SMALL = 100, 64 * 2**20  # a zip may unpack to RATIO times its size, or to SMALL
BLOCK, SOCKET_S, WHOLE_S = 2**20, 60.0, 3600.0


@contextmanager
def folder_of(what: str) -> Iterator[Path]:
    """A folder as it is; the folder in a zip, or in a zip at an http(s) address, in a temporary place.

    Raises ConfigError for anything else, EvidenceError for a zip that is not a pack's or too large.
    """
    if urlsplit(what).scheme in ("http", "https"):
        with TemporaryDirectory(prefix="rungproof-") as home:
            place = Path(home) / "pack.zip"
            download(what, place)
            yield unpack(place, Path(home) / "unpacked")
    elif Path(what).is_dir():
        yield Path(what)
    elif Path(what).is_file():
        with TemporaryDirectory(prefix="rungproof-") as home:
            yield unpack(Path(what), Path(home) / "unpacked")
    else:
        raise ConfigError(
            f"{what}: there is no such folder or zip; give a pack, its zip, an address of it, or results/<campaign>"
        )


def download(url: str, to: Path) -> None:
    """Fetch a zip. Raises ConfigError where it cannot be had, EvidenceError above the limits."""
    until = time.monotonic() + WHOLE_S
    size = 0
    try:
        with urllib.request.urlopen(url, timeout=SOCKET_S) as answer, to.open("wb") as file:
            while block := answer.read(BLOCK):
                size += len(block)
                if size > MOST_BYTES or time.monotonic() > until:
                    raise EvidenceError(
                        f"{url}: more than {MOST_BYTES} bytes, or not done after {WHOLE_S:g} s; refused"
                    )
                file.write(block)
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        raise ConfigError(f"{url}: cannot be fetched ({error}); fetch it by other means and give the file") from error


def unpack(place: Path, to: Path) -> Path:
    """Unpack a pack's zip, in which everything lies in one folder; returns that folder.

    Raises EvidenceError for a name that leaves it, a link, a name twice, a damaged or encrypted entry, or too much inside.
    """
    allowed = min(MOST_BYTES, max(SMALL, RATIO * place.stat().st_size))
    try:
        with zipfile.ZipFile(place) as held:
            entries = held.infolist()
            tops = {entry.filename.split("/")[0] for entry in entries}
            if (
                len(entries) > MOST_FILES
                or len(tops) != 1
                or len({entry.filename for entry in entries}) != len(entries)
            ):
                raise EvidenceError(
                    f"{place}: {len(entries)} entries in {len(tops)} folders, or a name twice; expected one folder"
                )
            for entry in entries:
                allowed = _entry(held, entry, to, allowed)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, NotImplementedError, ValueError) as error:
        raise EvidenceError(f"{place}: not a zip that can be read ({error})") from error
    return to / tops.pop()


def _entry(held: zipfile.ZipFile, entry: zipfile.ZipInfo, to: Path, allowed: int) -> int:
    """Write one entry; returns how many bytes may still come."""
    name, kind = entry.filename, entry.external_attr >> 28
    if (why := wrong_name(name.removesuffix("/"))) or kind not in (0, 0o10, 0o04):
        raise EvidenceError(
            f"zip entry {name!a:.100}: {why or 'a link or a device'}; expected plain files under one folder"
        )
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise EvidenceError(
            f"zip entry {name:.100}: compressed by method {entry.compress_type}; expected stored or deflated"
        )
    target = to / name
    if entry.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        return allowed
    target.parent.mkdir(parents=True, exist_ok=True)
    with held.open(entry) as source, target.open("xb") as file:
        while block := source.read(BLOCK):
            allowed -= len(block)
            if allowed < 0:
                shutil.rmtree(to)
                raise EvidenceError(f"zip entry {name:.100}: unpacks to more than a pack holds; refused")
            file.write(block)
    return allowed
