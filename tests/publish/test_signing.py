"""Keys: where they lie, who may read them, what is said when they cannot be used; and openssl agrees with every signature."""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from rungproof.publish import signing
from rungproof.records.errors import ConfigError
from rungproof.records.proof import read_line, statement


def signer(place: Path, **variables: str) -> signing.Signer:
    """The signer of a key file, made on first use."""
    return signing.find_signer(str(place), place.parent / "checkout", variables)[0]


def test_a_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    """First use: mode 0600 in a folder of mode 0700, outside the repository; second use: the same key, nothing new."""
    root, home = tmp_path / "checkout", {"HOME": str(tmp_path / "home")}
    one, made = signing.find_signer("", root, home)
    path = tmp_path / "home/.config/rungproof/key.pem"
    assert made == path and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700 and [p.name for p in path.parent.iterdir()] == ["key.pem"]
    two, again = signing.find_signer("", root, home)
    assert again is None and signing.keyid(two.public) == signing.keyid(one.public)


def test_the_place_of_the_key() -> None:
    """As configured, else RUNGPROOF_KEY, else XDG_CONFIG_HOME, else ~/.config."""
    place = signing.key_place
    assert place("/a", {"RUNGPROOF_KEY": "/b"}) == Path("/a")
    assert place("", {"RUNGPROOF_KEY": "/b", "XDG_CONFIG_HOME": "/c"}) == Path("/b")
    assert place("", {"XDG_CONFIG_HOME": "/c", "HOME": "/d"}) == Path("/c/rungproof/key.pem")
    assert place("", {"HOME": "/d"}) == Path("/d/.config/rungproof/key.pem")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_openssl_agrees_with_a_line(tmp_path: Path) -> None:
    """The published key and nothing but openssl check a line; with one byte changed they refuse it."""
    mine = signer(tmp_path / "key.pem")
    envelope = read_line(signing.signed_line(statement({"M": "0" * 64}, "t", {"rate": 12.5}), mine), "x")
    (tmp_path / "pub").write_bytes(signing.pem(mine.public))
    (tmp_path / "sig").write_bytes(envelope.signature)
    for data, good in ((envelope.signed_bytes, True), (envelope.signed_bytes.replace(b"12.5", b"12.6"), False)):
        (tmp_path / "data").write_bytes(data)
        call = subprocess.run(
            ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "pub", "-rawin", "-in", "data", "-sigfile", "sig"],
            cwd=tmp_path,
            capture_output=True,
        )
        assert (call.returncode == 0) is good, call.stderr
        assert signing.holds(mine.public, envelope.signature, data) is good


def test_a_passphrase(tmp_path: Path) -> None:
    """A key made with a passphrase is encrypted; without the right one it is not read, and nobody is asked without a terminal."""
    path = tmp_path / "key.pem"
    made = signer(path, RUNGPROOF_KEY_PASSPHRASE="sesame")
    assert b"ENCRYPTED" in path.read_bytes()
    assert signing.keyid(signer(path, RUNGPROOF_KEY_PASSPHRASE="sesame").public) == signing.keyid(made.public)
    with pytest.raises(ConfigError, match="no private key can be read"):
        signer(path, RUNGPROOF_KEY_PASSPHRASE="wrong")
    with pytest.raises(ConfigError, match="no terminal to ask"):
        signer(path)


def another_kind(path: Path) -> None:
    """A key of another algorithm."""
    key = ec.generate_private_key(ec.SECP256R1())
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path.write_bytes(key.private_bytes(*form))


def cut(path: Path) -> None:
    """A key that was cut short."""
    path.write_bytes(path.read_bytes()[:60])


UNFIT: dict[str, tuple[Callable[[Path], object], str]] = {
    "others can read it": (lambda p: p.chmod(0o644), "mode 0644, so others can read"),
    "the group can read it": (lambda p: p.chmod(0o640), "mode 0640"),
    "cut short": (cut, "no private key can be read"),
    "empty": (lambda p: p.write_bytes(b""), "no private key can be read"),
    "another kind": (another_kind, "another kind"),
    "a folder": (lambda p: p.unlink() or p.mkdir(), "cannot be read"),  # type: ignore[func-returns-value]
}


@pytest.mark.parametrize(("change", "words"), UNFIT.values(), ids=UNFIT)
def test_a_key_that_is_not_fit_is_refused(tmp_path: Path, change: Callable[[Path], object], words: str) -> None:
    """The message names the file, what was found and what to do; no other key is made in its place."""
    path = tmp_path / "key.pem"
    signer(path)
    change(path)
    with pytest.raises(ConfigError, match=words):
        signer(path)


def test_no_key_in_the_repository(tmp_path: Path) -> None:
    """A place inside the checkout is refused before anything is written there."""
    with pytest.raises(ConfigError, match="inside the repository"):
        signing.find_signer(str(tmp_path / "checkout/key.pem"), tmp_path / "checkout", {})
    assert not (tmp_path / "checkout").exists()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """Told with the way out."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="sign=no"):
        signer(tmp_path / "file/key.pem")


AGENT = """
import sys
from cryptography.hazmat.primitives import serialization
key = serialization.load_pem_private_key(open(sys.argv[1], "rb").read(), None)
sys.stdout.buffer.write(key.sign(sys.stdin.buffer.read()))
"""


def test_a_command_signs(tmp_path: Path) -> None:
    """An agent: bytes in, signature out; one that signs with another key than it names, or fails, is refused."""
    mine, other = signer(tmp_path / "key.pem"), signer(tmp_path / "other.pem")
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "pub").write_bytes(signing.pem(mine.public))
    command = f"{sys.executable} {tmp_path / 'agent.py'}"
    given = {
        "RUNGPROOF_SIGN_COMMAND": f"{command} {tmp_path / 'key.pem'}",
        "RUNGPROOF_SIGN_PUBLIC": str(tmp_path / "pub"),
    }
    agent, made = signing.find_signer("", tmp_path, given)
    assert made is None and agent.sign(b"x") == mine.sign(b"x") != other.sign(b"x")
    for wrong in (f"{command} {tmp_path / 'other.pem'}", "false", str(tmp_path / "missing")):
        with pytest.raises(ConfigError, match="RUNGPROOF_SIGN_COMMAND"):
            signing.find_signer("", tmp_path, {**given, "RUNGPROOF_SIGN_COMMAND": wrong})[0].sign(b"x")
    with pytest.raises(ConfigError, match="RUNGPROOF_SIGN_PUBLIC"):
        signing.find_signer("", tmp_path, {"RUNGPROOF_SIGN_COMMAND": command})
    assert os.environ.get("RUNGPROOF_SIGN_COMMAND") is None
