"""Manifest, zip and the reducer's source: the parts of a pack that are made from bytes alone."""

import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

import rungproof
from rungproof.records.codec import sha256
from rungproof.records.errors import EvidenceError
from rungproof.records.raw import MAX_FILE

PROOF, PAGE, MANIFEST = "proof.intoto.jsonl", "page", "MANIFEST.sha256"
PLAIN = re.compile(r"[A-Za-z0-9._@+/-]{1,1000}")
# As verify.py has them, which nothing can be imported from here; a test holds them equal.
MOST_FILES, MOST_BYTES, LARGEST = 200_000, 16 * 2**30, MAX_FILE
EARLIEST = (1980, 1, 1, 0, 0, 0)  # the first date that a zip can hold


def manifest(made: Mapping[str, bytes]) -> bytes:
    """What `sha256sum -c` reads: one line a file, sorted by path. Raises EvidenceError for a path that not every reader would take,
    and for more than a verifier reads."""
    whole = sum(map(len, made.values()))
    if len(made) > MOST_FILES or whole > MOST_BYTES:
        raise EvidenceError(
            f"{len(made)} files of {whole} bytes; a pack holds at most {MOST_FILES} files of {MOST_BYTES} bytes. Split the campaign"
        )
    for path, data in made.items():
        if len(data) > LARGEST:
            raise EvidenceError(f"{path}: {len(data)} bytes; a file of a pack holds at most {LARGEST}")
        if not PLAIN.fullmatch(path) or {"", ".", ".."} & set(path.split("/")):
            raise EvidenceError(
                f"{path!r:.120}: no name for a file of a pack; expected letters, digits and . _ @ + - between slashes"
            )
    return "".join(f"{sha256(data)}  {path}\n" for path, data in sorted(made.items())).encode()


def reducer() -> dict[str, bytes]:
    """The source that recomputes every number: verify.py at the root, `records` and `judge` below reducer/."""
    home = Path(rungproof.__file__).parent
    made = {
        "verify.py": (home / "verify.py").read_bytes(),
        "reducer/rungproof/__init__.py": (home / "__init__.py").read_bytes(),
    }
    for room in ("records", "judge"):
        for path in sorted((home / room).rglob("*.py")):
            made[f"reducer/rungproof/{path.relative_to(home).as_posix()}"] = path.read_bytes()
    return made


def write_tree(folder: Path, made: Mapping[str, bytes]) -> None:
    """Write files below a folder. Raises OSError when the disk refuses."""
    for path, data in made.items():
        to = folder / path
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(data)


def write_zip(folder: Path, to: Path) -> None:
    """The whole folder as a zip in which everything lies under the folder's name: sorted, one date, one mode, so that
    equal folders give equal bytes. Raises OSError when the disk refuses."""
    with zipfile.ZipFile(to, "w") as out:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            entry = zipfile.ZipInfo(f"{to.stem}/{path.relative_to(folder).as_posix()}", EARLIEST)
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            entry.compress_type = zipfile.ZIP_STORED if path.suffix == ".gz" else zipfile.ZIP_DEFLATED
            out.writestr(entry, path.read_bytes(), compresslevel=9)
