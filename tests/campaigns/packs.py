"""Reading a pack back: what every test of packs needs."""

from pathlib import Path
from typing import Any

from rungproof.records.proof import read_line, statement_of


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by path."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def statements(folder: Path) -> list[dict[str, Any]]:
    """The statements of a pack's proof, in order."""
    lines = (folder / "proof.intoto.jsonl").read_bytes().splitlines()
    return [statement_of(read_line(line, "line"), "line") for line in lines]
