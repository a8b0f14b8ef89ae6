"""Hostile packs: each is refused at its level with a line that says why; nothing of them is run, followed, or held in memory whole."""

import gzip
import json
import os
import shutil
import socket
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rungproof import verify as verifier
from rungproof.cli import main
from rungproof.publish.pack import files
from rungproof.records import raw
from rungproof.records.errors import EvidenceError
from verify.laid import Key, lay, line, manifests, run, seal, sha256


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Key:
    """The publisher's key."""
    return Key(tmp_path_factory.mktemp("keys"), "lab")


@pytest.fixture(scope="module")
def laid(key: Key, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack whose bytes and signatures are good; it has no results in it."""
    return lay(tmp_path_factory.mktemp("laid") / "pack", key)


@pytest.fixture
def pack(laid: Path, tmp_path: Path) -> Path:
    """A copy to be spoilt."""
    return shutil.copytree(laid, tmp_path / "pack")


def add_line(pack: Path, text: str) -> None:
    """Append to the manifest."""
    with (pack / "MANIFEST.sha256").open("a") as file:
        file.write(text)


def odd_name(pack: Path, name: bytes) -> None:
    """A file whose name no pack may have."""
    with open(os.fsencode(pack) + b"/" + name, "wb") as file:
        file.write(b"x")


def deep(pack: Path) -> None:
    """Folders in folders."""
    (pack / "/".join(["d"] * 40)).mkdir(parents=True)


L0: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte of a file is changed": (lambda p: (p / "README.md").write_text("another\n"), "README.md: its sha256"),
    "a page is changed": (lambda p: (p / "page/index.html").write_text("x"), "page/index.html: its sha256"),
    "a file is missing": (lambda p: (p / "README.md").unlink(), "README.md: in the manifest, but not in the folder"),
    "a file in no manifest": (lambda p: (p / "more.txt").write_text("x"), "more.txt: in the folder, but in no manifest"),
    "a module beside the script": (lambda p: (p / "json.py").write_text("raise SystemExit(0)"), "json.py: in the folder"),
    "no manifest": (lambda p: (p / "MANIFEST.sha256").unlink(), "MANIFEST.sha256: holds no line"),
    "an empty manifest": (lambda p: (p / "MANIFEST.sha256").write_text(""), "holds no line"),
    "a path that leaves the folder": (lambda p: add_line(p, f"{'0' * 64}  ../../etc/passwd\n"), "leaves the folder"),
    "an absolute path": (lambda p: add_line(p, f"{'0' * 64}  /etc/passwd\n"), "leaves the folder or is no path"),
    "a file named twice": (lambda p: add_line(p, f"{sha256(p / 'verify.py')}  verify.py\n"), "named twice, or not in order"),
    "lines not in order": (lambda p: add_line(p, f"{'0' * 64}  a\n"), "not in order"),
    "a line that is cut": (lambda p: add_line(p, f"{'0' * 64}  z"), "ends in the middle"),
    "another hash": (lambda p: add_line(p, "d41d8cd98f00b204e9800998ecf8427e  z\n"), "not a line of sha256sum"),
    "bytes that are no text": (lambda p: (p / "MANIFEST.sha256").write_bytes(b"\xff\xfe"), "not ASCII"),
    "a symbolic link": (
        lambda p: (p / "README.md").unlink() or (p / "README.md").symlink_to("/etc/hostname"), "README.md: a link"
    ),
    "a linked folder": (lambda p: (p / "more").symlink_to("/etc"), "more: a link"),
    "a hard link": (lambda p: os.link(p / "README.md", p / "second"), "a link or no plain file"),
    "a pipe": (lambda p: os.mkfifo(p / "pipe"), "pipe: a link or no plain file"),
    "a name with a line end": (lambda p: odd_name(p, b"a\nb"), "not allowed in names"),
    "a name that is no text": (lambda p: odd_name(p, b"\xff\xfe"), "not allowed in names"),
    "a name that turns writing around": (lambda p: odd_name(p, "\u202egpj".encode()), "not allowed in names"),
    "folders forty deep": (deep, "folders deeper than 16"),
}  # fmt: skip


def test_a_good_pack_passes_bytes_and_signer(laid: Path, key: Key) -> None:
    """Exit code 0 up to L1, with the publisher's key trusted; no file is written beside the script."""
    before = sorted(laid.rglob("*"))
    done = run(laid, "--level", "L1", "--trust", str(key.public))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "L0 bytes     ok" in done.stdout and "the key that you trust" in done.stdout
    assert sorted(laid.rglob("*")) == before


@pytest.mark.parametrize(("spoil", "words"), L0.values(), ids=L0)
def test_spoilt_bytes_fail_at_l0(pack: Path, spoil: Callable[[Path], object], words: str) -> None:
    """Exit code 10, the reason in words, and no level after it."""
    spoil(pack)
    done = run(pack)
    assert (done.returncode, done.stderr) == (10, ""), done.stdout + done.stderr
    assert words in done.stdout and "L1" not in done.stdout


def test_a_bomb_is_told_without_being_held(pack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A raw file that unpacks to more than one may hold fails at L0; one byte less passes."""
    with gzip.open(pack / "bomb.raw.jsonl.gz", "wb") as file:
        file.write(b"\0" * 2**20)
    manifests(pack)
    for most, found in (
        (2**20, []),
        (2**20 - 1, ["bomb.raw.jsonl.gz: more than 1048575 bytes after decompression; refused"]),
    ):
        monkeypatch.setattr(verifier, "UNPACKED", most)
        assert verifier.l0_bytes(verifier.Files(pack)).failures == found


def test_what_is_written_can_be_verified() -> None:
    """Limits stand in three places, since verify.py and the rooms of the library import nothing from each other: they are the same."""
    assert (verifier.UNPACKED, verifier.LARGEST) == (raw.MAX_RAW, raw.MAX_FILE)
    assert (verifier.MOST_FILES, verifier.MOST_BYTES, verifier.LARGEST) == (
        files.MOST_FILES,
        files.MOST_BYTES,
        files.LARGEST,
    )
    assert raw.MAX_RAW > 340 * 1024 * 4096 * 3  # a token of a vLLM stream, users, tokens, oracle and two passes


def test_a_pack_too_large_to_be_verified_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """One file, their number, and all together: each is refused before anything is published."""
    made = {"a": b"123", "b": b"12"}
    assert files.manifest(made)
    for name, most in (("LARGEST", 2), ("MOST_FILES", 1), ("MOST_BYTES", 4)):
        with monkeypatch.context() as patch:
            patch.setattr(files, name, most)
            with pytest.raises(EvidenceError, match="at most"):
                files.manifest(made)


def test_nothing_beside_the_script_is_imported(pack: Path) -> None:
    """Modules of Python's own names lie beside the script; without `-I` too, none of them is run."""
    for name in (
        "json",
        "hashlib",
        "argparse",
        "re",
        "gzip",
        "subprocess",
        "tempfile",
        "dataclasses",
        "typing",
        "pathlib",
    ):
        (pack / f"{name}.py").write_text("import os, sys\nos.write(1, b'HIJACKED')\nsys.exit(0)\n")
    done = run(pack, isolated=False)
    assert done.returncode == 10 and "HIJACKED" not in done.stdout


def test_cached_code_of_the_pack_is_never_run(pack: Path, key: Key) -> None:
    """A compiled module in the reducer, named in the manifest, is not what is run."""
    cache = pack / "reducer/rungproof/judge/checks/__pycache__"
    cache.mkdir()
    (cache / "levels.cpython-311.pyc").write_bytes(b"\0" * 64)
    seal(pack, key)
    done = run(pack)
    assert done.returncode == 12 and "summary.json" in done.stdout, done.stdout
    assert "L3 identity  FAILED" in done.stdout and "L4 sense     FAILED" in done.stdout  # there was nothing to compare


def append(pack: Path, data: bytes) -> None:
    """Another line of proof."""
    with (pack / "proof.intoto.jsonl").open("ab") as file:
        file.write(data)


def first(pack: Path, change: Callable[[dict], object]) -> None:  # type: ignore[type-arg]
    """Change the first envelope."""
    path = pack / "proof.intoto.jsonl"
    head, *rest = path.read_bytes().splitlines(keepends=True)
    envelope = json.loads(head)
    change(envelope)
    path.write_bytes(json.dumps(envelope).encode() + b"\n" + b"".join(rest))


L1: dict[str, tuple[Callable[[Path], object], str]] = {
    "the manifest is made again": (lambda p: ((p / "README.md").write_text("x"), manifests(p)), "no provenance statement"),
    "the page and its manifest are made again": (
        lambda p: ((p / "page/index.html").write_text("x"), manifests(p)), "no page statement"
    ),
    "the proof is gone": (lambda p: (p / "proof.intoto.jsonl").unlink(), "no provenance statement"),
    "the proof is cut": (
        lambda p: (p / "proof.intoto.jsonl").write_bytes((p / "proof.intoto.jsonl").read_bytes()[:-9]), "middle of a line"
    ),
    "a signature is another's": (lambda p: first(p, lambda e: e["signatures"][0].update(sig="AA" * 43 + "A=")), "proof.intoto.jsonl:1"),
    "signatures are taken away": (lambda p: first(p, lambda e: e.update(signatures=[])), "no provenance statement"),
    "a line that is no JSON": (lambda p: append(p, b"{\n"), "not a DSSE envelope"),
    "a key stands twice": (lambda p: append(p, b'{"payload":"","payload":""}\n'), "a key stands twice"),
    "JSON ten thousand deep": (lambda p: append(p, b"[" * 10_000 + b"]" * 10_000 + b"\n"), "not a DSSE envelope"),
    "a number that is not finite": (lambda p: append(p, b'{"payload": 1e999}\n'), "not finite"),
    "a number of ten thousand digits": (lambda p: append(p, b'{"payload": ' + b"9" * 10_000 + b"}\n"), "not a DSSE envelope"),
    "more lines than a pack has": (lambda p: append(p, b"{}\n" * 10_001), "more than 10000 lines"),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "words"), L1.values(), ids=L1)
def test_spoilt_statements_fail_at_l1(pack: Path, spoil: Callable[[Path], object], words: str) -> None:
    """Exit code 11, the reason in words, and the reducer is not loaded."""
    spoil(pack)
    done = run(pack)
    assert (done.returncode, done.stderr) == (11, ""), done.stdout + done.stderr
    assert words in done.stdout and "L2" not in done.stdout


def test_another_publisher_than_the_trusted_one(pack: Path, key: Key, tmp_path: Path) -> None:
    """Signed again with another key: good by itself, and said so; refused with --trust."""
    other = Key(tmp_path, "other")
    seal(pack, other)
    told = run(pack, "--level", "L1")
    assert told.returncode == 0 and "you have not said whom you trust" in told.stdout
    done = run(pack, "--level", "L1", "--trust", str(key.public))
    assert done.returncode == 11 and "you trust" in done.stdout


def test_an_unsigned_pack_says_so_and_goes_on(tmp_path: Path) -> None:
    """L1 fails and is the exit code; the numbers are still looked at."""
    made = lay(tmp_path / "pack", None)
    done = run(made)
    assert done.returncode == 11 and "unsigned" in done.stdout and "L2 numbers" in done.stdout


@pytest.mark.parametrize("pem", ["", "-----BEGIN PUBLIC KEY-----\nMCowBQ==\n-----END PUBLIC KEY-----\n", "x" * 4000])
def test_a_signer_that_is_no_key(pack: Path, pem: str) -> None:
    """Refused before openssl sees it."""
    (pack / "signer.pub.pem").write_text(pem)
    manifests(pack)
    assert run(pack).returncode == 11


def test_a_line_of_an_unknown_key_counts_for_nothing(pack: Path, tmp_path: Path) -> None:
    """Somebody's replay whose key is not here is told, not believed; with the key in it, it is checked."""
    other = Key(tmp_path, "other")
    subject = sha256(pack / "MANIFEST.sha256")
    append(pack, line("replay", subject, {"kind": "replay"}, other))
    assert "was not checked and counts for nothing" in run(pack, "--level", "L1").stdout
    append(pack, line("replay", subject, {"kind": "replay", "public_key": other.public.read_text()}, other))
    done = run(pack, "--level", "L1")
    assert done.returncode == 0 and "by 2 keys" in done.stdout
    forged = json.loads(line("replay", subject, {"kind": "replay", "public_key": other.public.read_text()}, other))
    forged["signatures"][0]["sig"] = "AA" * 43 + "A="
    append(pack, json.dumps(forged).encode() + b"\n")
    assert run(pack, "--level", "L1").returncode == 11


def test_without_openssl_nothing_is_taken_on_trust(laid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """L1 fails where openssl cannot be run, and says what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run(laid, "--level", "L1")
    assert done.returncode == 11 and "install it" in done.stdout


def test_a_tool_can_read_it(laid: Path) -> None:
    """--json: one object with every level, its state, and the exit code. Levels that have nothing to compare do not hold."""
    done = run(laid, "--json")
    said = json.loads(done.stdout)
    assert said["exit"] == done.returncode == 12
    assert [(level["level"], level["ok"]) for level in said["levels"]] == [
        ("L0", True),
        ("L1", True),
        ("L2", False),
        ("L3", False),
        ("L4", False),
    ]


def test_wrong_use_is_told(laid: Path, tmp_path: Path) -> None:
    """Exit code 2."""
    assert run(laid, "--level", "L9").returncode == 2
    assert run(laid, "--trust", "/nonexistent").returncode == 2
    assert run(laid, str(tmp_path / "nowhere")).returncode == 2


def zipped(place: Path, entries: dict[str, bytes], **odd: int) -> Path:
    """A zip with these entries."""
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in entries.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = odd.get("attributes", 0o100644 << 16)
            out.writestr(entry, data)
    return place


ZIPS: dict[str, tuple[dict[str, bytes], dict[str, int], str]] = {
    "a name that leaves the folder": ({"a/../../x": b""}, {}, "leaves the folder"),
    "an absolute name": ({"/etc/x": b""}, {}, "leaves the folder"),
    "two folders": ({"a/x": b"", "b/x": b""}, {}, "expected one folder"),
    "a symbolic link": ({"a/x": b"/etc/passwd"}, {"attributes": 0o120777 << 16}, "a link or a device"),
    "a zip bomb": ({"a/x": b"\0" * (80 * 2**20)}, {}, "unpacks to more"),
    "nothing": ({}, {}, "expected one folder"),
}


@pytest.mark.parametrize(("entries", "odd", "words"), ZIPS.values(), ids=ZIPS)
def test_a_hostile_zip_writes_nothing_outside(
    tmp_path: Path, entries: dict[str, bytes], odd: dict[str, int], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused with the reason and exit code 4; nothing is left behind."""
    place = zipped(tmp_path / "pack.zip", entries, **odd)
    assert main(["verify", str(place)]) == 4
    assert words in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["pack.zip"]


def test_a_zip_of_another_compression_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Other methods have errors of their own, and ask for more memory than a pack needs."""
    place = tmp_path / "pack.zip"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_LZMA) as out:
        out.writestr("a/x", b"x" * 1000)
    held = place.read_bytes()
    place.write_bytes(held.replace(b"\x5d\x00\x00", b"\xff\xff\xff", 1))
    assert main(["verify", str(place)]) == 4
    assert "expected stored or deflated" in capsys.readouterr().err


def test_a_server_that_speaks_no_http_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and one line, whatever it answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as one:
                one.recv(4096)
                one.sendall(b"SSH-2.0-none\r\n\r\n")

        other = threading.Thread(target=answer)
        other.start()
        assert main(["verify", f"http://127.0.0.1:{server.getsockname()[1]}/pack.zip"]) == 2
        other.join()
    assert "cannot be fetched" in capsys.readouterr().err


def test_a_zip_and_an_address_of_it_are_verified(
    laid: Path, key: Key, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same levels as of the folder; a file that is no zip is told."""
    entries = {f"pack/{p.relative_to(laid).as_posix()}": p.read_bytes() for p in laid.rglob("*") if p.is_file()}
    place = zipped(tmp_path / "pack.zip", entries)
    assert main(["verify", str(place), "--level", "L1", "--trust", str(key.public)]) == 0
    assert "L1 signer    ok" in capsys.readouterr().out
    (tmp_path / "none.zip").write_bytes(b"PK no")
    assert main(["verify", str(tmp_path / "none.zip")]) == 4
    assert main(["verify", "http://127.0.0.1:1/pack.zip"]) == 2
    assert main(["verify", str(tmp_path / "nowhere")]) == 2
