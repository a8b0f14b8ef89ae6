"""The published log: a chain that tells every change, survives a crash, and takes two publishers at once."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rungproof.publish import log, signing
from rungproof.publish.log import Event
from rungproof.records.codec import canonical, sha256
from rungproof.records.errors import EvidenceError


def add(reports: Path, event: Event, pack: str, signer: signing.Signer | None = None, **more: str) -> None:
    """One entry, as every publisher writes it."""
    with log.locked(reports):
        held = log.read_log(reports)
        entry, _ = log.entry_after(held, event, "mini", pack, signer, **more)
        if signer:
            log.write_key(reports, signer)
        log.append(reports, held, entry)


def pack(reports: Path, text: str, signer: signing.Signer | None = None) -> str:
    """A folder that is a pack as far as the log looks; its id."""
    name = sha256(text.encode())[:12]
    (reports / "mini" / name).mkdir(parents=True)
    (reports / "mini" / name / "MANIFEST.sha256").write_text(text)
    (reports / "mini" / name / "proof.intoto.jsonl").write_text("line\n")
    if signer:
        (reports / "mini" / name / "signer.pub.pem").write_bytes(signing.pem(signer.public))
    return name


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """A log with one event of each kind, signed."""
    signer, _ = signing.find_signer(str(tmp_path / "key.pem"), tmp_path / "checkout", {})
    home = tmp_path / "reports"
    one, two = pack(home, "one\n", signer), pack(home, "two\n", signer)
    add(home, "publish", one, signer)
    add(home, "supersede", two, signer, reason="a fault in one", supersedes=one)
    add(home, "replay", two, signer, line=sha256(b"line"))
    add(home, "withdraw", two, signer, reason="a fault in two")
    return home


def test_a_whole_log_holds(reports: Path) -> None:
    """Chain, signatures, packs and replay lines; each line names the sha256 of the one before it."""
    held = log.read_log(reports)
    assert [e.event for e in held.entries] == ["publish", "supersede", "replay", "withdraw"]
    assert log.check(reports, held) == [] and held.torn == b""
    lines = (reports / "log.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["previous"] for line in lines] == ["", *(sha256(line) for line in lines[:-1])]
    assert held.head == sha256(lines[-1])


def lines_of(change: Callable[[list[bytes]], object]) -> Callable[[Path], None]:
    """A change of the file's lines."""

    def made(reports: Path) -> None:
        lines = (reports / "log.jsonl").read_bytes().splitlines(keepends=True)
        change(lines)
        (reports / "log.jsonl").write_bytes(b"".join(lines))

    return made


def rewrite(number: int, **fields: object) -> Callable[[Path], None]:
    """An entry changed, and the chain mended after it: what only the signature can find."""

    def change(lines: list[bytes]) -> None:
        previous = ""
        for at, line in enumerate(lines):
            made = {**json.loads(line), "previous": previous, **(fields if at == number else {})}
            lines[at] = canonical(made)
            previous = sha256(lines[at].rstrip(b"\n"))

    return lines_of(change)


FORGED = {
    "an entry is taken out": lines_of(lambda lines: lines.pop(1)),
    "the first is taken out": lines_of(lambda lines: lines.pop(0)),
    "two change places": lines_of(lambda lines: lines.reverse()),
    "an entry stands twice": lines_of(lambda lines: lines.insert(1, lines[0])),
    "a reason is edited": lines_of(lambda lines: lines.__setitem__(1, lines[1].replace(b"fault", b"typo!"))),
    "a space is put in": lines_of(lambda lines: lines.__setitem__(3, lines[3].replace(b'","', b'", "', 1))),
    "an empty line": lines_of(lambda lines: lines.insert(2, b"\n")),
    "an unknown event": lines_of(lambda lines: lines.__setitem__(3, lines[3].replace(b"withdraw", b"forget!!"))),
    "the chain is mended after an edit": rewrite(1, reason="better"),
    "a withdrawal turned into another": rewrite(3, pack="0" * 12),
    "a replay's line is gone": lambda reports: next(reports.glob("mini/*/proof.intoto.jsonl")).parent.joinpath("x").touch()
    or [p.write_text("other\n") for p in reports.glob("mini/*/proof.intoto.jsonl")],
    "a path in place of a pack": rewrite(3, pack="../../other"),
    "an absolute study": rewrite(3, study="/etc"),
    "somebody else withdraws": lambda reports: add(reports, "withdraw", log.read_log(reports).entries[0].pack, reason="x"),
    "a pack is gone": lambda reports: next(reports.glob("mini/*/MANIFEST.sha256")).unlink(),
    "a pack was changed": lambda reports: next(reports.glob("mini/*/MANIFEST.sha256")).write_text("x"),
    "the key is gone": lambda reports: next(reports.glob("keys/*.pem")).unlink(),
    "the key is another": lambda reports: next(reports.glob("keys/*.pem")).write_text("x"),
}  # fmt: skip


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_each_forgery_is_found(reports: Path, change: Callable[[Path], object]) -> None:
    """By the chain, or by what the entries are held against; it is named with its line or folder."""
    change(reports)
    try:
        found = log.check(reports, log.read_log(reports))
    except EvidenceError as error:
        found = [str(error)]
    assert found and "reports" in found[0]


@pytest.mark.parametrize("torn", [b'{"seq"', b'{"at":"2026', b"\x00\x00"])
def test_a_torn_last_line_is_told_and_mended(reports: Path, torn: bytes) -> None:
    """After a crash in the middle of a write the whole entries stay, and the next entry follows them."""
    before = (reports / "log.jsonl").read_bytes()
    (reports / "log.jsonl").write_bytes(before + torn)
    held = log.read_log(reports)
    assert (len(held.entries), held.torn) == (4, torn)
    add(reports, "publish", pack(reports, "three\n"))
    after = log.read_log(reports)
    assert (len(after.entries), after.torn) == (5, b"")
    assert (reports / "log.jsonl").read_bytes().startswith(before)


def test_an_entry_that_lost_only_its_end_is_no_entry_and_no_end_of_the_chain(reports: Path) -> None:
    """A last line without its end was never forced to the disk whole: it goes, and all before it stays."""
    path = reports / "log.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert len(log.read_log(reports).entries) == 3 and log.read_log(reports).torn
    add(reports, "withdraw", log.read_log(reports).entries[-1].pack, reason="again")
    assert [e.event for e in log.read_log(reports).entries] == ["publish", "supersede", "replay", "withdraw"]


MANY = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from publish.test_log import add
for number in range(20):
    add(Path(sys.argv[1]), "publish", sys.argv[3] + str(number))
"""


def test_two_publishers_at_once(tmp_path: Path) -> None:
    """Each waits for the other: forty entries, one chain."""
    tests = str(Path(__file__).parents[1])
    calls = [subprocess.Popen([sys.executable, "-c", MANY, str(tmp_path), tests, name]) for name in "ab"]
    assert [call.wait(600) for call in calls] == [0, 0]
    held = log.read_log(tmp_path)
    assert len(held.entries) == 40 and {e.pack[0] for e in held.entries} == {"a", "b"}


def test_the_pack_that_stands(reports: Path) -> None:
    """A withdrawn pack does not stand, and the one that it superseded does not come back by itself."""
    held = log.read_log(reports)
    first, second = held.entries[0], held.entries[1]
    assert held.current("mini") is None and held.current("other") is None
    until = log.Log(held.entries[:3], held.heads[:3], b"")
    assert until.current("mini") == second
    assert until.told("mini", first.pack) == log.Told(
        "superseded", first.at, "", second.at, "a fault in one", second.pack
    )
    assert until.told("mini", second.pack) == log.Told("current", second.at, first.pack)
    assert until.told("mini", "x") == until.told("other", first.pack) == log.Told()
    last = held.entries[-1]
    assert held.told("mini", second.pack) == log.Told("withdrawn", second.at, first.pack, last.at, "a fault in two")
    again, head = log.entry_after(held, "publish", "mini", second.pack, None)
    assert held.after(again, head).told("mini", second.pack) == log.Told("current", again.at)
