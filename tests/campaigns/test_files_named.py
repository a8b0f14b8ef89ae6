"""docs/records.md names every file that a run and a pack write."""

import re
from pathlib import Path

from campaigns.checkout import Checkout
from rungproof.publish.pack import Pack

ROOT = Path(__file__).resolve().parents[2]
RUN, _, REST = (ROOT / "docs/records.md").read_text(encoding="utf-8").partition("\n## Gates\n")


def named(text: str) -> list[re.Pattern[str]]:
    """The paths in the first column of each table: <x> stands for a name, * for any end of one, a slash at the end for all below."""
    made = []
    for line in text.splitlines():
        for path in re.findall(r"`([^`]+)`", line.split(" | ")[0]) if line.startswith("| `") else []:
            parts = re.split(r"(<[a-z]+>|\*)", path)
            words = ("[^/]+" if p.startswith("<") else "[^/]*" if p == "*" else re.escape(p) for p in parts)
            made.append(re.compile("".join(words) + (".*" if path.endswith("/") else "")))
    return made


def unnamed(folder: Path, known: list[re.Pattern[str]]) -> list[str]:
    """Files below a folder that no pattern fits."""
    paths = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]
    assert len(paths) > 50
    return [path for path in paths if not any(one.fullmatch(path) for one in known)]


def test_every_file_of_a_run_is_named(measured: Checkout) -> None:
    """Results of a finished campaign."""
    assert unnamed(measured.study("mini"), named(RUN)) == []


def test_every_file_of_a_pack_is_named(pack: Pack) -> None:
    """Its signed pack; the job's own logs are not among what a pack may hold."""
    records = [
        line for line in RUN.splitlines() if "/logs/" not in line and "/control/" not in line and "`logs/`" not in line
    ]
    assert unnamed(pack.folder, named("\n".join(records) + REST)) == []


def test_a_file_that_is_not_named_is_found(pack: Pack) -> None:
    """Without one of the lines the test above fails."""
    lines = [line for line in (RUN + REST).splitlines() if "canary_before.raw" not in line]
    assert unnamed(pack.folder, named("\n".join(lines)))
