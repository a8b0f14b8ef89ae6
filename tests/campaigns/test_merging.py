"""What is published is changed: superseded, withdrawn, and with lines of others; everything else stays, and log and pages tell of it."""

import base64
import json
import os
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from campaigns.checkout import Checkout
from campaigns.forge import signed
from campaigns.packs import statements, tree
from rungproof.cli import main
from rungproof.publish.log import append, check, entry_after, read_log
from rungproof.publish.pack import Pack, add_line, build, withdraw
from rungproof.publish.signing import FileSigner, Signer, find_signer, keyid, pem, signed_line
from rungproof.records.codec import sha256
from rungproof.records.errors import ConfigError, EvidenceError, RungproofError
from rungproof.records.proof import (
    MEASUREMENT,
    PAGE,
    PAYLOAD_TYPE,
    PROVENANCE,
    REPLAY,
    Envelope,
    key_file,
    line_of,
    pae,
    read_line,
    statement,
)
from verify.laid import Key, run


def test_the_log_tells_what_was_published_and_what_it_superseded(
    measured: Checkout, signer: Signer, tmp_path: Path
) -> None:
    """Another pack of a study needs a reason; withdrawn, it is published again as a new one; pages show the head they were made at."""
    study = measured.study("mini")
    first = build(study, tmp_path, measured.folder)
    with pytest.raises(ConfigError, match="would supersede it"):
        build(study, tmp_path, measured.folder, signer)
    assert [p.name for p in (tmp_path / "mini").iterdir() if p.is_dir()] == [first.id]
    second = build(study, tmp_path, measured.folder, signer, "signed now")
    held = read_log(tmp_path)
    assert [(e.event, e.pack, e.supersedes, e.reason) for e in held.entries] == [
        ("publish", first.id, "", ""),
        ("supersede", second.id, first.id, "signed now"),
    ]
    assert (second.standing.log_head, second.standing.supersedes) == (held.head, first.id)
    assert json.loads((second.folder / "page/standing.json").read_text())["log_head"] == held.heads[1]
    withdraw(second.folder, signer, "a mistake")
    for folder, words in ((second.folder, "was withdrawn"), (tmp_path / "mini/000000000000", "no such pack")):
        with pytest.raises(ConfigError, match=words):
            withdraw(folder, signer, "again")
    assert build(study, tmp_path, measured.folder, signer).new
    held = read_log(tmp_path)
    assert [e.event for e in held.entries] == ["publish", "supersede", "withdraw", "publish"]
    assert check(tmp_path, held) == []


def test_a_crash_before_the_log_was_written_is_made_good(measured: Checkout, signer: Signer, tmp_path: Path) -> None:
    """The pack lies there and the log knows nothing of it: the next call writes the entry, and the page shows the new head."""
    study = measured.study("mini")
    build(study, tmp_path, measured.folder, signer)
    (tmp_path / "log.jsonl").unlink()
    (tmp_path / "mini/.building-left").mkdir()
    again = build(study, tmp_path, measured.folder, signer)
    held = read_log(tmp_path)
    assert len(held.entries) == 1 and again.standing.log_head == held.head and check(tmp_path, held) == []
    assert not (tmp_path / "mini/.building-left").exists()


def test_a_crash_between_the_two_moves_loses_no_line(
    measured: Checkout, signer: Signer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pack that was about to be replaced is put back, by the call itself where it lives, else by the next."""
    study = measured.study("mini")
    made = build(study, tmp_path, measured.folder, signer)
    before = tree(tmp_path)
    left = tmp_path / "mini/.building-left/before"
    left.mkdir(parents=True)
    made.folder.rename(left / made.id)
    assert not build(study, tmp_path, measured.folder, signer).new
    assert tree(tmp_path) == before
    rename = Path.rename

    def fails(path: Path, to: Path) -> Path:
        if path.parent.name.startswith(".building-") and to == made.folder:
            raise OSError(5, "Input/output error")
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(RungproofError, match="Input/output error"):
        build(study, tmp_path, measured.folder, signer)
    assert tree(tmp_path) == before

    def interrupted(path: Path, to: Path) -> Path:
        if path.parent.name.startswith(".building-") and to == made.folder:
            raise KeyboardInterrupt
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build(study, tmp_path, measured.folder, signer)
    assert tree(tmp_path) == before


def test_the_command_line_of_the_log(
    measured: Checkout,
    signer: Signer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`log verify` tells head and faults by its exit code; `withdraw` wants the key that signed, and makes none."""
    reports = tmp_path / "reports"
    made = build(measured.study("mini"), reports, measured.folder, signer)
    check_log = ["log", "verify", "--reports", str(reports)]
    assert main(check_log) == 0 and read_log(reports).head in capsys.readouterr().out
    assert main(["log", "verify", "--reports", str(tmp_path)]) == 1
    monkeypatch.setenv("RUNGPROOF_KEY", str(tmp_path / "none.pem"))
    take_back = ["withdraw", str(made.folder), "--reason", "a mistake"]
    assert main(take_back) == 2 and not (tmp_path / "none.pem").exists()
    find_signer(str(tmp_path / "other.pem"), tmp_path / "checkout", {})
    assert main([*take_back, "--key", str(tmp_path / "other.pem")]) == 2
    assert "with the key that signed it" in capsys.readouterr().err
    assert isinstance(signer, FileSigner)
    (tmp_path / "mine.pem").touch(0o600)
    (tmp_path / "mine.pem").write_bytes(signer.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    assert main([*take_back, "--key", str(tmp_path / "mine.pem")]) == 0
    assert [e.event for e in read_log(reports).entries] == ["publish", "withdraw"] and main(check_log) == 0
    with (reports / "log.jsonl").open("ab") as file:
        file.write(b'{"torn')
    capsys.readouterr()
    assert main(check_log) == 0 and "cut short (6 bytes)" in capsys.readouterr().err
    (made.folder / "MANIFEST.sha256").write_text("x")
    assert main(check_log) == 1 and "its manifest's sha256 begins" in capsys.readouterr().err
    assert main(["withdraw", str(tmp_path), "--reason", "x"]) == 2
    text = (reports / "log.jsonl").read_text()
    (reports / "log.jsonl").write_text(text.replace("publish", "replay_", 1))
    assert main(check_log) == 4


def replayed(folder: Path, signer: Signer, **more: Any) -> bytes:
    """A line of somebody who recomputed a pack on every level."""
    levels = dict.fromkeys(("L0", "L1", "L2", "L3", "L4"), "ok")
    said = {"kind": "recompute", "levels": levels, "public_key": pem(signer.public).decode(), **more}
    subject = {"MANIFEST.sha256": sha256((folder / "MANIFEST.sha256").read_bytes())}
    return signed_line(statement(subject, REPLAY, said), signer)


def surrogate(folder: Path, signer: Signer) -> bytes:
    """Such a line whose key is half a character, which JSON can say and UTF-8 cannot."""
    held = read_line(replayed(folder, signer, public_key="HALF"), "line").payload.replace(b"HALF", b"\\ud800")
    return line_of(Envelope(held, keyid(signer.public), signer.sign(pae(PAYLOAD_TYPE, held))))


def test_a_line_of_somebody_else_joins_the_proof(measured: Checkout, signer: Signer, tmp_path: Path) -> None:
    """The state moves, page, log and zip tell of it, nothing under the manifest changes, and the same line again is no news."""
    made = build(measured.study("mini"), tmp_path, measured.folder, signer)
    before = tree(made.folder)
    other = find_signer(str(tmp_path / "other.pem"), tmp_path / "checkout", {})[0]
    line = replayed(made.folder, other)
    told = add_line(made.folder, line, signer)
    after = tree(made.folder)
    assert told.standing.state == "Recomputed" and made.standing.state == "Lab-measured"
    assert {p for p in before if before[p] != after[p] and not p.startswith("page/")} == {"proof.intoto.jsonl"}
    assert after["proof.intoto.jsonl"].startswith(before["proof.intoto.jsonl"] + line)
    assert [s["predicateType"] for s in statements(made.folder)] == [PROVENANCE, MEASUREMENT, PAGE, REPLAY, PAGE]
    assert statements(made.folder)[-1]["predicate"]["state"] == "Recomputed"
    assert statements(made.folder)[-1]["subject"][0]["digest"]["sha256"] == sha256(after["page/MANIFEST.sha256"])
    held = read_log(tmp_path)
    assert (held.entries[-1].event, held.entries[-1].line) == ("replay", sha256(line.rstrip(b"\n")))
    assert told.standing.log_head == held.head and check(tmp_path, held) == []
    with zipfile.ZipFile(made.zip) as packed:
        assert packed.read(f"{made.id}/proof.intoto.jsonl") == after["proof.intoto.jsonl"]
    add_line(made.folder, line, signer)
    build(measured.study("mini"), tmp_path, measured.folder, signer)
    assert tree(made.folder) == after and read_log(tmp_path) == held


def test_a_merged_line_is_on_the_disk_before_the_proof_without_it_is_gone(
    measured: Checkout, signer: Signer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sent it may not have it any more, and a machine may lose its power."""
    made = build(measured.study("mini"), tmp_path, measured.folder, signer)
    other = find_signer(str(tmp_path / "other.pem"), tmp_path / "checkout", {})[0]
    forced: list[int] = []
    fsync, rename = os.fsync, Path.rename

    def watched(handle: int) -> None:
        fsync(handle)
        forced.append(os.fstat(handle).st_ino)

    def moves(path: Path, to: Path) -> Path:
        if path == made.folder:
            assert new_proof(tmp_path).stat().st_ino in forced
            forced.append(-1)
        return rename(path, to)

    monkeypatch.setattr(os, "fsync", watched)
    monkeypatch.setattr(Path, "rename", moves)
    add_line(made.folder, replayed(made.folder, other), signer)
    assert -1 in forced


def new_proof(reports: Path) -> Path:
    """The proof of the pack that is being made."""
    return next(reports.glob("mini/.building-*/*/proof.intoto.jsonl"))


def test_lines_that_must_not_join(measured: Checkout, signer: Signer, tmp_path: Path) -> None:
    """A changed line, one about another pack, one that is no replay, a proof that is cut; and only the publisher may merge."""
    made = build(measured.study("mini"), tmp_path, measured.folder, signer)
    other = find_signer(str(tmp_path / "other.pem"), tmp_path / "checkout", {})[0]
    good = replayed(made.folder, other)
    envelope = json.loads(good)
    forged = {
        **envelope,
        "payload": base64.b64encode(base64.b64decode(envelope["payload"]).replace(b"ok", b"OK")).decode(),
    }
    unsigned = {**envelope, "signatures": []}
    (tmp_path / "another").mkdir()
    (tmp_path / "another/MANIFEST.sha256").write_text("x")
    loose = "A key of mine:\n" + pem(other.public).decode()
    lines = {
        "no key of its own": replayed(made.folder, other, public_key=None),
        "a key that openssl alone would not read": replayed(made.folder, other, public_key=loose),
        "a key that is no text": surrogate(made.folder, other),
        "forged": json.dumps(forged).encode() + b"\n",
        "unsigned": json.dumps(unsigned).encode() + b"\n",
        "no replay": (made.folder / "proof.intoto.jsonl").read_bytes().splitlines(keepends=True)[0],
        "another pack": replayed(tmp_path / "another", other),
        "without its end": good[:-1],
        "two at once": good + good,
        "no line": b"hello\n",
    }
    (tmp_path / "keys" / key_file(keyid(other.public))).write_bytes(pem(other.public))
    before = tree(tmp_path / "mini")
    for name, line in lines.items():
        with pytest.raises(EvidenceError):
            add_line(made.folder, line, signer)
        assert tree(tmp_path / "mini") == before, name
    for wrong in (other, None):
        with pytest.raises(ConfigError, match="its publisher is"):
            add_line(made.folder, good, wrong)
        assert tree(tmp_path / "mini") == before and len(read_log(tmp_path).entries) == 1


def test_a_withdrawn_pack_says_so_itself(
    measured: Checkout, signer: Signer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every page, badge and zip; by the publisher's word; under the manifest nothing changes; whoever verifies it is told, and with the
    log its L1 fails while the other levels are still looked at."""
    made = build(measured.study("mini"), tmp_path, measured.folder, signer)
    before = tree(made.folder)
    assert withdraw(made.folder, signer, "a clock of <the> host was wrong") == ""
    after, held = tree(made.folder), read_log(tmp_path)
    assert {p for p in before if before[p] != after.get(p) and not p.startswith("page/")} == {"proof.intoto.jsonl"}
    assert set(before) == set(after)
    for name in ("index", "numbers", "evidence", "environment"):
        text = after[f"page/{name}.html"].decode()
        assert f"Withdrawn on {held.entries[-1].at[:10]}." in text and "a clock of &lt;the&gt; host was wrong" in text
    assert b"withdrawn" in after["page/badge.svg"] and b"withdrawn" not in before["page/badge.svg"]
    told = json.loads(after["page/standing.json"])
    assert (told["ended"], told["ended_at"], told["log_head"]) == ("withdrawn", held.entries[-1].at, held.head)
    assert [s["predicateType"] for s in statements(made.folder)] == [PROVENANCE, MEASUREMENT, PAGE, PAGE]
    assert statements(made.folder)[-1]["subject"][0]["digest"]["sha256"] == sha256(after["page/MANIFEST.sha256"])
    with zipfile.ZipFile(made.zip) as packed:
        assert packed.read(f"{made.id}/page/index.html") == after["page/index.html"]
    assert main(["verify", str(made.folder)]) == 0
    said = capsys.readouterr().out
    assert said.count(" ok") == 5 and "its page says: withdrawn" in said and "page made again" in said
    assert main(["verify", str(made.folder), "--log", str(tmp_path / "log.jsonl")]) == 11
    said = capsys.readouterr().out
    assert "log.jsonl: this pack was withdrawn" in said and "a clock of <the> host was wrong" in said
    assert said.count(" ok") == 4 and "L4 sense     ok" in said
    with pytest.raises(ConfigError, match="was withdrawn"):
        withdraw(made.folder, signer, "again")
    build(measured.study("mini"), tmp_path, measured.folder, signer)
    assert b"Withdrawn" not in (made.folder / "page/index.html").read_bytes()


def test_a_superseded_pack_says_by_which(measured: Checkout, signer: Signer, tmp_path: Path) -> None:
    """Also the page of a pack that nobody signed; the page of another publisher's pack stays, which is told, and an older one is made good."""
    study = measured.study("mini")
    first = build(study, tmp_path, measured.folder)
    untold = tree(first.folder)
    second = build(study, tmp_path, measured.folder, signer, "signed now")
    assert second.stale == () and "does not say" not in str(second)
    page = (first.folder / "page/index.html").read_text()
    assert f'<a href="../../{second.id}/page/index.html">' in page and "signed now" in page
    assert "Superseded" not in (second.folder / "page/index.html").read_text()
    assert main(["verify", "--level", "L0", str(first.folder)]) == 0
    told = tree(first.folder)
    for name, data in untold.items():  # as a version before this one left it
        (first.folder / name).write_bytes(data)
    build(study, tmp_path, measured.folder, signer)
    assert tree(first.folder).keys() == told.keys()
    assert tree(first.folder)["page/index.html"] == told["page/index.html"]
    other = find_signer(str(tmp_path / "other.pem"), tmp_path / "checkout", {})[0]
    third = build(study, tmp_path, measured.folder, other, "by another key")
    assert [one.partition(": ")[0] for one in third.stale] == [str(second.folder)]
    assert "does not say that it is superseded" in str(third) and check(tmp_path, read_log(tmp_path)) == []


def test_a_reason_that_names_a_rate_stays_in_the_log(measured: Checkout, signer: Signer, tmp_path: Path) -> None:
    """No number stands on a page without evidence, so the page says where the reason is, and the pack still verifies."""
    made = build(measured.study("mini"), tmp_path, measured.folder, signer)
    withdraw(made.folder, signer, "it was 12.5 tok/s in truth")
    page = (made.folder / "page/index.html").read_text()
    assert "12.5 tok/s in truth" not in page and "the publisher&#39;s log has it" in page
    assert "12.5 tok/s in truth" in (tmp_path / "log.jsonl").read_text()
    assert main(["verify", str(made.folder)]) == 0


def test_a_withdrawal_is_logged_whatever_its_page_is_like(
    measured: Checkout, signer: Signer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the summary cannot be read, page and files stay as they are; a crash before the log was written is made good."""
    made = build(measured.study("mini"), tmp_path, measured.folder, signer)

    def crash(*_args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("rungproof.publish.pack.merging.append", crash)
        with pytest.raises(KeyboardInterrupt):
            withdraw(made.folder, signer, "a mistake")
    (made.folder / "summary.json").write_text("{}")
    before = tree(made.folder)
    assert "summary.json" in withdraw(made.folder, signer, "a mistake")
    assert tree(made.folder) == before
    assert [e.event for e in read_log(tmp_path).entries] == ["publish", "withdraw"]


def test_a_pack_of_before_still_verifies_by_its_own_program(pack: Pack, tmp_path: Path) -> None:
    """Its reducer knows of no end of a pack: the page says it all the same, and every level of its own verify.py holds."""
    key = Key(tmp_path, "lab")
    old = shutil.copytree(pack.folder, tmp_path / "reports/mini/old")
    path = old / "reducer/rungproof/records/standing.py"
    cut = re.sub(r"    (?:ended|ended_at|reason|successor): .*\n", "", path.read_text())
    path.write_text(cut.replace("ended", "over"))
    signed(old, key)
    folder = old.rename(old.with_name(sha256((old / "MANIFEST.sha256").read_bytes())[:12]))
    (tmp_path / "lab.key.pem").chmod(0o600)
    signer = find_signer(str(tmp_path / "lab.key.pem"), tmp_path / "checkout", {})[0]
    held = read_log(tmp_path / "reports")
    append(tmp_path / "reports", held, entry_after(held, "publish", "mini", folder.name, signer)[0])
    assert withdraw(folder, signer, "a wrong clock") == ""
    assert "a wrong clock" in (folder / "page/index.html").read_text()
    done = run(folder)
    assert done.returncode == 0, done.stdout
