"""Packs laid by hand: manifests, DSSE lines and ed25519 keys made by openssl, so that the verifier is not tested with the publisher's own code."""

import base64
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import rungproof
from rungproof.verify import pae

SOURCE = Path(rungproof.__file__).parent
KINDS = {
    "provenance": "https://slsa.dev/provenance/v1",
    "measurement": "https://rungproof.dev/measurement/v1",
    "page": "https://rungproof.dev/page/v1",
    "replay": "https://rungproof.dev/replay/v1",
}


class Key:
    """An ed25519 key in a folder."""

    def __init__(self, home: Path, name: str) -> None:
        self.private, self.public = home / f"{name}.key.pem", home / f"{name}.pub.pem"
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", self.private], check=True)
        subprocess.run(["openssl", "pkey", "-in", self.private, "-pubout", "-out", self.public], check=True)
        der = base64.b64decode("".join(self.public.read_text().splitlines()[1:-1]))
        self.id = f"ed25519:{hashlib.sha256(der[-32:]).hexdigest()}"

    def sign(self, message: bytes) -> bytes:
        """The signature over a message."""
        place = self.private.with_suffix(".message")
        place.write_bytes(message)
        call = ["openssl", "pkeyutl", "-sign", "-inkey", str(self.private), "-rawin", "-in", str(place)]
        return subprocess.run(call, check=True, capture_output=True).stdout


def line(kind: str, subject: str, predicate: dict[str, Any], key: Key | None, name: str = "MANIFEST.sha256") -> bytes:
    """One DSSE envelope, with its line end."""
    payload = json.dumps(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": name, "digest": {"sha256": subject}}],
            "predicateType": KINDS.get(kind, kind),
            "predicate": predicate,
        },
        sort_keys=True,
    ).encode()
    kind = "application/vnd.in-toto+json"
    made = [{"keyid": key.id, "sig": base64.b64encode(key.sign(pae(kind, payload))).decode()}] if key else []
    envelope = {"payloadType": kind, "payload": base64.b64encode(payload).decode(), "signatures": made}
    return json.dumps(envelope).encode() + b"\n"


def sha256(path: Path) -> str:
    """Digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def seal(pack: Path, key: Key | None) -> None:
    """Both manifests and the publisher's three lines over whatever lies in the folder."""
    if key:
        (pack / "signer.pub.pem").write_bytes(key.public.read_bytes())
    manifests(pack)
    whole, page = sha256(pack / "MANIFEST.sha256"), sha256(pack / "page/MANIFEST.sha256")
    (pack / "proof.intoto.jsonl").write_bytes(
        line("provenance", whole, {}, key)
        + line("measurement", whole, {}, key)
        + line("page", page, {}, key, "page/MANIFEST.sha256")
    )


def manifests(pack: Path) -> None:
    """Both manifests over whatever lies in the folder."""
    files = sorted(p.relative_to(pack).as_posix() for p in pack.rglob("*") if p.is_file())
    page = [f for f in files if f.startswith("page/") and f != "page/MANIFEST.sha256"]
    rest = [f for f in files if not f.startswith("page/") and f not in ("MANIFEST.sha256", "proof.intoto.jsonl")]
    (pack / "page/MANIFEST.sha256").write_text("".join(f"{sha256(pack / f)}  {f[5:]}\n" for f in page))
    (pack / "MANIFEST.sha256").write_text("".join(f"{sha256(pack / f)}  {f}\n" for f in rest))


def lay(pack: Path, key: Key | None) -> Path:
    """A small pack: verifier, reducer, one page, and results that are none."""
    (pack / "page").mkdir(parents=True)
    (pack / "page/index.html").write_text("<!doctype html><title>x</title>")
    (pack / "README.md").write_text("A pack of the tests.\n")
    (pack / "verify.py").write_bytes((SOURCE / "verify.py").read_bytes())
    names = [SOURCE / "__init__.py", *(SOURCE / "records").rglob("*.py"), *(SOURCE / "judge").rglob("*.py")]
    for path in names:
        to = pack / "reducer/rungproof" / path.relative_to(SOURCE)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(path.read_bytes())
    seal(pack, key)
    return pack


def run(pack: Path, *words: str, isolated: bool = True, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """The pack's own script, as a stranger runs it."""
    call = [sys.executable, *(["-I"] if isolated else []), str(pack / "verify.py"), *words]
    return subprocess.run(call, capture_output=True, text=True, cwd=cwd or pack, timeout=900)
