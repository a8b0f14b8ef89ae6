"""Signed statements: the bytes that are signed, numbers without floats, and lines of strangers."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungproof.records.errors import EvidenceError
from rungproof.records.proof import (
    PAYLOAD_TYPE,
    Envelope,
    exact,
    keyid_of,
    line_of,
    pae,
    payload_of,
    read_line,
    statement,
    statement_of,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=20,
)  # fmt: skip


def floats(value: Any) -> list[float]:
    """Every float in plain values."""
    if isinstance(value, dict):
        return [f for one in value.values() for f in floats(one)]
    if isinstance(value, list):
        return [f for one in value for f in floats(one)]
    return [value] if isinstance(value, float) else []


def test_the_encoding_is_that_of_the_dsse_protocol() -> None:
    """The example of the protocol's own text, byte for byte; lengths are of bytes, not of characters."""
    assert (
        pae("http://example.com/HelloWorld", b"hello world")
        == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    assert pae("ä", b"\xff\x00") == b"DSSEv1 2 \xc3\xa4 2 \xff\x00"


@given(VALUES)
def test_no_float_survives_and_each_comes_back(value: Any) -> None:
    """A float becomes the decimal string that gives the same float; every other value stays as it is."""
    made = json.loads(payload_of(statement({"x": "0" * 64}, "t", {"v": value})))["predicate"]["v"]
    assert floats(made) == []
    if isinstance(value, float):
        assert isinstance(made, str) and float(made) == value
    if value is None or isinstance(value, (bool, int, str)):
        assert made == value and type(made) is type(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 2**53, -(2**60), [{"x": float("nan")}]])
def test_what_no_reader_holds_exactly_is_refused(value: Any) -> None:
    """NaN, infinities and integers past 2^53 - 1 are never signed."""
    with pytest.raises(ValueError, match="found"):
        exact(value)


def test_a_line_comes_back_as_it_was() -> None:
    """Envelope to line to envelope, signed and unsigned; one line each."""
    payload = payload_of(statement({"MANIFEST.sha256": "ab" * 32}, "t", {"text": "ä\n"}))
    for made in (Envelope(payload, "ed25519:ab", b"\0" * 64), Envelope(payload, "", b"")):
        line = line_of(made)
        assert line.count(b"\n") == 1 and line.endswith(b"\n")
        assert read_line(line, "x") == made
        assert statement_of(made, "x")["predicate"] == {"text": "ä\n"}
    with pytest.raises(ValueError, match="32"):
        keyid_of(b"short")


GOOD = {"payloadType": PAYLOAD_TYPE, "payload": base64.b64encode(b"{}").decode(), "signatures": []}
BROKEN: dict[str, Any] = {
    "no JSON": b"{",
    "a key twice": b'{"payload":"","payload":"","payloadType":"","signatures":[]}',
    "another payload type": json.dumps({**GOOD, "payloadType": "text/plain"}).encode(),
    "a key more": json.dumps({**GOOD, "more": 1}).encode(),
    "two signatures": json.dumps({**GOOD, "signatures": [{"keyid": "a", "sig": ""}] * 2}).encode(),
    "a signature that is no object": json.dumps({**GOOD, "signatures": ["x"]}).encode(),
    "no base64": json.dumps({**GOOD, "payload": "***"}).encode(),
    "a payload that is a number": json.dumps({**GOOD, "payload": 7}).encode(),
    "deep nesting": b"[" * 200_000,
}


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN)
def test_lines_of_strangers_are_refused(line: bytes) -> None:
    """Whatever is no envelope of ours ends in EvidenceError, never in anything else."""
    with pytest.raises(EvidenceError):
        read_line(line, "proof:1")


@pytest.mark.parametrize(
    "made",
    [
        [],
        {"_type": "x"},
        {**statement({"a": "b"}, "t", {}), "subject": []},
        {**statement({"a": "b"}, "t", {}), "subject": [{"name": "a", "digest": {"sha1": "b"}}]},
        {**statement({"a": "b"}, "t", {}), "predicate": 7},
        {**statement({"a": "b"}, "t", {}), "predicateType": None},
    ],
)
def test_payloads_that_are_no_statement_are_refused(made: Any) -> None:
    """A predicate, its type, and one subject by sha256 must be there."""
    with pytest.raises(EvidenceError):
        statement_of(Envelope(json.dumps(made).encode(), "", b""), "proof:1")
