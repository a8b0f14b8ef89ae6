"""Signed statements: in-toto Statement v1 in a DSSE envelope, one a line of `proof.intoto.jsonl`. docs/predicate.md tells the fields.

Nothing signed holds a float: numbers are decimal strings (`repr` of the float, which gives the same float again), counts
are integers. Sources: the DSSE protocol v1 of secure-systems-lab, the in-toto attestation framework v1, SLSA provenance v1.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rungproof.records.codec import canonical, load_json
from rungproof.records.errors import EvidenceError

STATEMENT = "https://in-toto.io/Statement/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
PROVENANCE = "https://slsa.dev/provenance/v1"
MEASUREMENT = "https://rungproof.dev/measurement/v1"
PAGE = "https://rungproof.dev/page/v1"
REPLAY = "https://rungproof.dev/replay/v1"
BUILD_TYPE = "https://rungproof.dev/campaign/v1"
BUILDER = "https://rungproof.dev/builder/local"
SAFE_INTEGER = 2**53 - 1  # what every JSON reader holds exactly
LINE_BYTES = 32 * 1024 * 1024  # a longer line is nobody's proof


@dataclass(frozen=True, slots=True)
class Envelope:
    """One line. `payload`: the bytes of the statement; `keyid`, `signature`: "" and b"" where it is unsigned."""

    payload: bytes
    keyid: str
    signature: bytes

    @property
    def signed_bytes(self) -> bytes:
        """What the signature is over."""
        return pae(PAYLOAD_TYPE, self.payload)


def pae(payload_type: str, payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: "DSSEv1", then type and payload, each after its length, with single spaces between."""
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def keyid_of(public: bytes) -> str:
    """Name of an ed25519 key: of the sha256 of its 32 raw bytes. Raises ValueError for any other length."""
    if len(public) != 32:
        raise ValueError(f"found {len(public)} bytes; an ed25519 public key has 32")
    return f"ed25519:{hashlib.sha256(public).hexdigest()}"


def key_file(keyid: str) -> str:
    """Name of a key's file under reports/keys/. Raises EvidenceError for what is no key id: it may be a stranger's."""
    if not re.fullmatch("ed25519:[0-9a-f]{64}", keyid):
        raise EvidenceError(f"found {keyid!r:.90}; expected ed25519: and 64 hex digits")
    return f"{keyid.removeprefix('ed25519:')[:16]}.pem"


def exact(value: Any) -> Any:
    """Plain values with every float as its decimal string. Raises ValueError for NaN, infinities and integers past 2^53 - 1."""
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError(f"found {value!r}; a signed number must be finite")
        return repr(value)
    if isinstance(value, int) and abs(value) > SAFE_INTEGER:
        raise ValueError(f"found {value}; a signed integer must be at most {SAFE_INTEGER}")
    if isinstance(value, Mapping):
        return {str(key): exact(one) for key, one in value.items()}
    return [exact(one) for one in value] if isinstance(value, (list, tuple)) else value


def statement(subjects: Mapping[str, str], predicate_type: str, predicate: Mapping[str, Any]) -> dict[str, Any]:
    """An in-toto Statement v1. subjects: file name -> sha256 in hex. Floats of the predicate become decimal strings."""
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in subjects.items()],
        "predicateType": predicate_type,
        "predicate": exact(predicate),
    }


def payload_of(made: Mapping[str, Any]) -> bytes:
    """The bytes of a statement that are signed: canonical JSON without the line's end."""
    return canonical(made).rstrip(b"\n")


def line_of(envelope: Envelope) -> bytes:
    """The envelope as one line, its end included."""
    signatures = [{"keyid": envelope.keyid, "sig": _base64(envelope.signature)}] if envelope.signature else []
    return canonical({"payloadType": PAYLOAD_TYPE, "payload": _base64(envelope.payload), "signatures": signatures})


def read_line(line: bytes, where: str) -> Envelope:
    """One line of a proof, which may be anybody's. Raises EvidenceError for what is no envelope of ours with at most one signature."""
    if len(line) > LINE_BYTES:
        raise EvidenceError(f"{where}: found a line of {len(line)} bytes; expected at most {LINE_BYTES}")
    value = load_json(line, where)
    if not isinstance(value, dict) or set(value) != {"payloadType", "payload", "signatures"}:
        raise EvidenceError(f"{where}: no DSSE envelope; expected payloadType, payload and signatures")
    if value["payloadType"] != PAYLOAD_TYPE:
        raise EvidenceError(f"{where}: payloadType: found {str(value['payloadType'])!r:.80}; expected {PAYLOAD_TYPE}")
    held = value["signatures"]
    if (
        not isinstance(held, list)
        or len(held) > 1
        or not all(isinstance(s, dict) and set(s) == {"keyid", "sig"} for s in held)
    ):
        raise EvidenceError(f"{where}: signatures: expected none, or one with keyid and sig")
    keyid = held[0]["keyid"] if held else ""
    if not isinstance(keyid, str):
        raise EvidenceError(f"{where}: keyid: expected text")
    return Envelope(_bytes(value["payload"], where), keyid, _bytes(held[0]["sig"], where) if held else b"")


def statement_of(envelope: Envelope, where: str) -> dict[str, Any]:
    """The statement that an envelope carries: predicateType, predicate and one subject are there, the rest is whoever wrote it.

    Raises EvidenceError.
    """
    made = load_json(envelope.payload, where)
    if not isinstance(made, dict) or made.get("_type") != STATEMENT:
        raise EvidenceError(f"{where}: the payload is no in-toto Statement v1")
    subject, predicate = made.get("subject"), made.get("predicate")
    if not isinstance(made.get("predicateType"), str) or not isinstance(predicate, dict):
        raise EvidenceError(f"{where}: expected a predicateType and a predicate")
    if not isinstance(subject, list) or len(subject) != 1 or not _names_digest(subject[0]):
        raise EvidenceError(f"{where}: expected one subject with a name and a sha256")
    return made


def _names_digest(subject: Any) -> bool:
    digest = subject.get("digest") if isinstance(subject, dict) else None
    return isinstance(digest, dict) and isinstance(digest.get("sha256"), str) and isinstance(subject.get("name"), str)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _bytes(text: Any, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise EvidenceError(f"{where}: found something that is no base64 ({error})") from error
