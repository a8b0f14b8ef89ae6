"""The measured path over TLS, for servers that offer nothing else: the same bytes, stamps of our own, and the record says so."""

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from measure.client_server import TOKENS, Server
from rungproof.judge.outcome import result_of
from rungproof.measure.client import Address, Kept, Planned, run_batch
from rungproof.measure.external.target import parse_url

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of localhost, signed by itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    return cert, key


@pytest.fixture(scope="module")
def server(certificate: tuple[Path, Path]) -> Iterator[Server]:
    """The small server of the client's tests, behind TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    made = Server("127.0.0.1", context)
    yield made
    made.close()


def ask(
    server: Server, path: str, count: int, kept: Kept | None = None, host: str = "localhost", limit_s: float = 60.0
) -> tuple[str, list[str], list[str]]:
    """Stamp source, states and details of a batch. limit_s: its deadline, and the longest silence."""
    planned = [Planned(f"k{i}", {"prompt": [i], "stream": True}) for i in range(count)]
    address = Address(host, server.address.port, tls=True)
    batch, requests = run_batch(address, planned, batch="b", path=path, deadline_s=limit_s, idle_s=limit_s, kept=kept)
    found = [result_of(r, window=2, tokens=TOKENS, exact_length=True, prompt_tokens=1) for r in requests]
    return batch.stamp_source, [r.state for r in found], [r.detail for r in requests]


def test_streams_over_tls(server: Server, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Good, cut and silent streams end as they do without TLS; the stamps are this process's own."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    assert ask(server, "/normal", 8)[:2] == ("user", ["complete"] * 8)
    assert ask(server, "/early", 1)[1] == ["truncated"]
    assert ask(server, "/silent", 1, limit_s=1.5)[1] == ["timeout"]
    kept = Kept()
    assert ask(server, "/normal", 2, kept)[1] == ["complete"] * 2
    kept.close()


def test_a_server_that_is_another_gets_no_request(
    server: Server, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown authority, or a name that is not in the certificate, ends the request before it is sent."""
    hits = len(server.hits)
    _, states, details = ask(server, "/normal", 2)
    assert states == ["client_error"] * 2
    assert all("TLS" in detail for detail in details)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    assert ask(server, "/normal", 1, host="127.0.0.1")[1] == ["client_error"]
    assert len(server.hits) == hits


def test_a_server_without_tls_is_told(certificate: tuple[Path, Path]) -> None:
    """TLS asked of a server that does not speak it is an error of the request, at once or at the deadline."""
    plain = Server("127.0.0.1")
    try:
        assert ask(plain, "/normal", 1, limit_s=1.5)[1][0] in ("client_error", "timeout")
    finally:
        plain.close()


def test_https_addresses() -> None:
    """An https URL names a TLS server, on port 443 unless it says another."""
    assert parse_url("https://h.example/v1").address == Address("h.example", 443, tls=True)
    assert parse_url("https://h.example:8443").base == "https://h.example:8443"
