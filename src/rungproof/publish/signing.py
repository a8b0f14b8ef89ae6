"""Keys and signatures: ed25519. The key lies outside the repository, readable by its owner alone, or behind a command that signs."""

import getpass
import os
import shlex
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from rungproof.records.errors import ConfigError, EvidenceError
from rungproof.records.proof import PAYLOAD_TYPE, Envelope, keyid_of, line_of, pae, payload_of

KEY, PASSPHRASE = "RUNGPROOF_KEY", "RUNGPROOF_KEY_PASSPHRASE"
COMMAND, PUBLIC = "RUNGPROOF_SIGN_COMMAND", "RUNGPROOF_SIGN_PUBLIC"
COMMAND_S = 60.0
RAW = serialization.Encoding.Raw, serialization.PublicFormat.Raw
PEM = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo


class Signer(Protocol):
    """Whoever can sign: a key in a file, or a command."""

    @property
    def public(self) -> Ed25519PublicKey:
        """The key by which others check."""

    def sign(self, data: bytes) -> bytes:
        """Signature of 64 bytes. Raises ConfigError where it cannot be had."""


@dataclass(frozen=True, slots=True)
class FileSigner:
    """A key that was read from a file."""

    key: Ed25519PrivateKey

    @property
    def public(self) -> Ed25519PublicKey:
        """The key by which others check."""
        return self.key.public_key()

    def sign(self, data: bytes) -> bytes:
        """Signature of 64 bytes."""
        return self.key.sign(data)


@dataclass(frozen=True, slots=True)
class CommandSigner:
    """An agent: a command that reads the bytes from its standard input and writes the signature, 64 bytes, to its standard output."""

    command: str
    public: Ed25519PublicKey

    def sign(self, data: bytes) -> bytes:
        """Signature of 64 bytes. Raises ConfigError where the command fails, or signs with another key than its public one."""
        try:
            call = subprocess.run(shlex.split(self.command), input=data, capture_output=True, timeout=COMMAND_S)
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            raise ConfigError(f"{COMMAND}: {self.command!r} could not be run ({error})") from error
        if call.returncode or not holds(self.public, call.stdout, data):
            said = call.stderr.decode("utf-8", "replace").strip()[-200:]
            raise ConfigError(
                f"{COMMAND}: {self.command!r} ended with exit code {call.returncode} and {len(call.stdout)} bytes that are no signature "
                f"by the key of {PUBLIC}. It must write the 64 raw bytes of an ed25519 signature of its standard input. {said}"
            )
        return call.stdout


def find_signer(place: str, root: Path | None, variables: Mapping[str, str]) -> tuple[Signer, Path | None]:
    """The signer that was asked for, and the file of a key that was made just now, else None.

    place: key file of the configuration, "" for RUNGPROOF_KEY or the usual one (`$XDG_CONFIG_HOME/rungproof/key.pem`); root: the
    repository, in which no key may lie; None: the key must be there already. Raises ConfigError for a key that others can read,
    or that is none.
    """
    if variables.get(COMMAND):
        if not variables.get(PUBLIC):
            raise ConfigError(f"{COMMAND} is set, {PUBLIC} is not; it must name the file of the public key (PEM)")
        return CommandSigner(variables[COMMAND], read_public(Path(variables[PUBLIC]))), None
    path = key_place(place, variables)
    if root is not None and path.resolve().is_relative_to(root.resolve()):
        raise ConfigError(
            f"{path}: lies inside the repository, where it would be published; choose a place outside of {root}"
        )
    made = _make(path, variables.get(PASSPHRASE, "")) if root is not None and not path.exists() else None
    return FileSigner(_read(path, variables)), made


def key_place(place: str, variables: Mapping[str, str]) -> Path:
    """Where the key lies: as configured, else RUNGPROOF_KEY, else in the user's configuration."""
    named = place or variables.get(KEY, "")
    if named:
        return Path(named).expanduser()
    home = variables.get("XDG_CONFIG_HOME") or str(Path(variables.get("HOME") or Path.home()) / ".config")
    return Path(home) / "rungproof/key.pem"


def _make(path: Path, passphrase: str) -> Path:
    """Make a key where none is: whole or not at all, and never over one that another process made meanwhile."""
    lock: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase:
        lock = serialization.BestAvailableEncryption(passphrase.encode("utf-8"))
    data = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock
    )
    try:
        path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".key.", dir=path.parent)  # mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.link(name, path)
        except FileExistsError:
            pass
        finally:
            os.unlink(name)
    except OSError as error:
        raise ConfigError(
            f"{path}: no key could be made there ({error.strerror}). Mend it, name another place with {KEY}, or publish with --config sign=no"
        ) from error
    return path


def _read(path: Path, variables: Mapping[str, str]) -> Ed25519PrivateKey:
    try:
        with path.open("rb") as file:
            seen = os.fstat(file.fileno())
            data = file.read(1024 * 1024)
    except OSError as error:
        raise ConfigError(f"{path}: the key cannot be read ({error.strerror})") from error
    if stat.S_IMODE(seen.st_mode) & 0o077:
        raise ConfigError(
            f"{path}: mode {stat.S_IMODE(seen.st_mode):04o}, so others can read this key; expected 0600. If nobody has seen it: "
            f"chmod 600 {path}. Else make a new one."
        )
    try:
        key = serialization.load_pem_private_key(data, _passphrase(path, data, variables))
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(
            f"{path}: no private key can be read from it ({str(error)[:120]}). Expected PEM (PKCS8) of an ed25519 key; if it has a "
            f"passphrase, {PASSPHRASE} must be the right one. Bring it back from a copy; a new key is a new signer."
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{path}: found a key of another kind ({type(key).__name__}); expected ed25519")
    return key


def _passphrase(path: Path, data: bytes, variables: Mapping[str, str]) -> bytes | None:
    """The passphrase of an encrypted key: of the variable, else asked for where there is a terminal."""
    if b"ENCRYPTED" not in data:
        return None
    if PASSPHRASE in variables:
        return variables[PASSPHRASE].encode("utf-8")
    if not sys.__stdin__ or not sys.__stdin__.isatty():
        raise ConfigError(f"{path}: the key has a passphrase and there is no terminal to ask for it; set {PASSPHRASE}")
    return getpass.getpass(f"Passphrase of {path}: ").encode("utf-8")


def read_public(path: Path) -> Ed25519PublicKey:
    """A public key from a PEM file. Raises ConfigError."""
    try:
        return public_from(path.read_bytes(), str(path))
    except (OSError, EvidenceError) as error:
        raise ConfigError(f"{path}: no public key ({getattr(error, 'strerror', None) or error})") from error


def public_from(data: bytes, where: str) -> Ed25519PublicKey:
    """A public key from PEM. Raises EvidenceError for anything but an ed25519 key."""
    try:
        key = serialization.load_pem_public_key(data)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise EvidenceError(
            f"{where}: found no public key ({str(error)[:80]}); expected PEM of an ed25519 key"
        ) from error
    if not isinstance(key, Ed25519PublicKey):
        raise EvidenceError(f"{where}: found a key of another kind; expected ed25519")
    return key


def keyid(public: Ed25519PublicKey) -> str:
    """The key's name in a proof."""
    return keyid_of(public.public_bytes(*RAW))


def pem(public: Ed25519PublicKey) -> bytes:
    """The public key as `openssl` reads it."""
    return public.public_bytes(*PEM)


def holds(public: Ed25519PublicKey, signature: bytes, data: bytes) -> bool:
    """Whether the signature is this key's over these bytes."""
    try:
        public.verify(signature, data)
    except InvalidSignature:
        return False
    return True


def signed_line(made: Mapping[str, object], signer: Signer | None) -> bytes:
    """A statement as one line of a proof, signed; without a signer with no signature."""
    payload = payload_of(made)
    if signer is None:
        return line_of(Envelope(payload, "", b""))
    return line_of(Envelope(payload, keyid(signer.public), signer.sign(pae(PAYLOAD_TYPE, payload))))
