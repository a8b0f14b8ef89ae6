"""Records on disk: exact, refused when anything is off."""

import gzip

import pytest

from rungproof.records import raw
from rungproof.records.codec import canonical, digest, parse, read
from rungproof.records.errors import EvidenceError, HostError
from rungproof.records.files import write_atomic
from rungproof.records.formats import Closed, Input, Reason
from rungproof.records.raw import Batch, Header, Metrics, Request

CLOSED = Closed(
    "r001.base.a", "0123", "job", True, (Reason("x", "1", "2", "y"),), "SIGTERM", (), "2026-01-01T00:00:00+00:00", 1.5
)


def test_a_record_comes_back_as_it_was() -> None:
    """Writing and reading a record loses nothing, and its bytes are always the same."""
    data = canonical(CLOSED)
    assert parse(Closed, data, "x") == CLOSED
    assert canonical(parse(Closed, data, "x")) == data
    assert digest(CLOSED) == digest(CLOSED)


BROKEN = {
    "not JSON": (b"{", "not valid JSON"),
    "another format": (canonical(CLOSED).replace(b"closed/1", b"closed/9"), "expected one of"),
    "a key too many": (canonical(CLOSED).replace(b'{"at"', b'{"aa":1,"at"'), "unknown key 'aa'"),
    "a key missing": (canonical(CLOSED).replace(b'"boot":"0123",', b""), "'boot' is missing"),
    "a key twice": (canonical(CLOSED).replace(b'{"at"', b'{"boot":"9","at"'), "stands twice"),
    "a number for a text": (canonical(CLOSED).replace(b'"boot":"0123"', b'"boot":123'), "expected str"),
    "a truth value for a number": (canonical(CLOSED).replace(b"1.5", b"true"), "expected"),
    "not a number": (canonical(CLOSED).replace(b"1.5", b"NaN"), "expected a finite number"),
    "not UTF-8": (b"\xff\xfe", "not valid JSON"),
    "an empty file": (b"", "not valid JSON"),
    "deep nesting": (b"[" * 100_000, "not valid JSON"),
}


@pytest.mark.parametrize(("data", "why"), BROKEN.values(), ids=BROKEN)
def test_a_damaged_record_is_refused_with_the_reason(data: bytes, why: str) -> None:
    """Whatever is off, the error names the file and what was expected."""
    with pytest.raises(EvidenceError, match=why) as error:
        parse(Closed, data, "some/closed.json")
    assert "some/closed.json" in str(error.value)


def test_a_missing_record_is_refused(tmp_path) -> None:
    """A file that is not there is named."""
    with pytest.raises(EvidenceError, match="cannot be read"):
        read(Closed, tmp_path / "closed.json")


LINES = [
    Header("r001.base.a", "0123", "base.a/ladder/c1"),
    Metrics("before", 5, True, "a 1\n"),
    Batch("pass-1", 10, ("p0",), "kernel", 7, 1),
    Request("pass-1", "p0", "{}", 1, 2, 3, "framed", 9, "", ((4, 3), (5, 2)), "\x00ÿ\r\n<"),
]


def test_raw_files_keep_every_byte() -> None:
    """All 256 byte values, in any place, come back exactly."""
    everything = bytes(range(256)) * 3
    request = Request("b", "k", "{}", 1, 2, 3, "eof", 9, "", ((4, 768),), everything.decode("latin-1"))
    lines = raw.decode(raw.encode([*LINES, request]), "x")
    assert lines[:4] == LINES
    assert lines[4].data() == everything


def test_members_appended_one_by_one_read_as_one_file() -> None:
    """A raw file that was flushed after each batch reads like one written at once; a cut member costs no earlier one its readability."""
    parts = [raw.encode([line]) for line in LINES]
    assert raw.decode(b"".join(parts), "x") == LINES
    with pytest.raises(EvidenceError, match="damaged"):
        raw.decode(b"".join(parts)[:-5], "x")


DAMAGED = {
    "no gzip": (b"plain", "damaged"),
    "nothing": (b"", "header"),
    "no header": (raw.encode(LINES[1:]), "header"),
    "an unknown line": (gzip.compress(b'{"kind":"surprise"}\n'), "not a line"),
    "a list": (gzip.compress(b"[]\n"), "not a line"),
}


@pytest.mark.parametrize(("data", "why"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_raw_files_are_refused(data: bytes, why: str) -> None:
    """Damage is an error, never an empty measurement."""
    with pytest.raises(EvidenceError, match=why):
        raw.decode(data, "x")


def test_what_nobody_could_read_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past either limit of a raw file the member is refused with what to do, and what was written before stays a whole file."""
    members = raw.Members("base.a/ladder/c4")
    first = members.encode(LINES)
    size = len(gzip.decompress(first))
    raw.check_size(first * 2, "x")
    for name, most in (("MAX_RAW", 2 * size - 1), ("MAX_FILE", 2 * len(first) - 1)):
        with monkeypatch.context() as patch:
            patch.setattr(raw, name, most)
            with pytest.raises(EvidenceError, match=f"c4: more than {most} bytes.*fewer tokens, users or passes"):
                members.encode(LINES)
            with pytest.raises(EvidenceError, match=f"x: more than {most} bytes"):
                raw.check_size(first * 2, "x")
            raw.check_size(first, "x")
            raw.check_size(b"no gzip", "x")
    assert raw.decode(first + members.encode(LINES[1:]), "x") == [*LINES, *LINES[1:]]


def test_a_decompression_bomb_is_refused() -> None:
    """A small file that grows past the limit is refused."""
    with pytest.raises(EvidenceError, match="more than 1000 bytes"):
        raw.decode(gzip.compress(b"a" * 10_000), "x", limit=1000)


def test_writing_is_whole_or_not_at_all(tmp_path) -> None:
    """A write that cannot happen raises an error that names the file, and leaves the old one and no scraps."""
    path = tmp_path / "record.json"
    write_atomic(path, b"old")
    with pytest.raises(HostError, match="could not be written"):
        write_atomic(tmp_path / "record.json" / "below", b"new")
    write_atomic(path, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["record.json"]
    assert path.read_bytes() == b"new"


def test_reasons_read_as_sentences() -> None:
    """A reason says where, what, found and expected."""
    assert str(Reason("cache hit", "3", "0", "pass-1/p0")) == "pass-1/p0: cache hit (found 3; expected 0)"
    assert str(Reason("no server")) == "no server"
    assert Input("a", "b") == Input("a", "b")
