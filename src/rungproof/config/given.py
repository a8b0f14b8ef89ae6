"""What lies on a machine already and is described by its hashes, not made: files of a model, packages of an environment.

A model's list is what `sha256sum` prints, a line a file. An environment's list has a line `python VERSION`, then one a package:
its name, its version, and the digest of its RECORD. Lines that begin with # say something to people.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rungproof.records.codec import digest
from rungproof.records.errors import ConfigError

LONGEST = 16 * 2**20  # bytes of a list
FILE = re.compile(r"([0-9a-f]{64}) [ *](.+)")
PACKAGE = re.compile(r"([a-z0-9](?:[a-z0-9-]*[a-z0-9])?) (\S+) (sha256:[0-9a-f]{64}|no RECORD)")
UNWRITABLE = re.compile(r"[\\\x00-\x1f\x7f\ud800-\udfff]")  # surrogates: a name that is not UTF-8
PYTHON = re.compile(r"python (\d+\.\d+\.\S+)")


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment: its interpreter's version, and of each package "VERSION sha256:..." by its normalised name."""

    python: str
    packages: dict[str, str]

    @property
    def digest(self) -> str:
        """sha256 that names the environment, in the place of a lock's."""
        return digest({"python": self.python, "packages": self.packages})


def read_files(path: Path) -> dict[str, str]:
    """Relative path -> sha256 of a model's files. Raises ConfigError for a line that is none, a path that leaves, or no file."""
    found: dict[str, str] = {}
    for number, line in _lines(path, "rungproof model add NAME FOLDER"):
        match = FILE.fullmatch(line)
        if match is None:
            raise ConfigError(f"{path}:{number}: found {line!r:.100}; expected a sha256, two spaces and a file's path")
        name = _inside(match[2], f"{path}:{number}")
        if name in found:
            raise ConfigError(f"{path}:{number}: {name!r:.100} stands twice; expected each file once")
        found[name] = match[1]
    if not found:
        raise ConfigError(f"{path}: lists no file; `rungproof model add NAME FOLDER` writes it")
    return dict(sorted(found.items()))


def files_text(files: Mapping[str, str], folder_is: str) -> str:
    """The list of a model's files. Raises ConfigError for a name that the list cannot hold, or for more than it can."""
    for name in files:
        _inside(name, "a file of the model")
    told = f"# Files of {folder_is}. Checked before each server; by hand: sha256sum -c in the folder.\n"
    text = told + "".join(f"{sha}  {name}\n" for name, sha in sorted(files.items()))
    if len(text.encode()) > LONGEST:
        raise ConfigError(
            f"{len(files)} files: their list is longer than {LONGEST} bytes; expected the folder of one model alone"
        )
    return text


def read_installed(path: Path) -> Installed:
    """An environment that lies on the machine already, as its list says. Raises ConfigError for a line that is none."""
    python, packages = "", {}
    for number, line in _lines(path, "rungproof env add NAME FOLDER"):
        if not python and (match := PYTHON.fullmatch(line)):
            python = match[1]
        elif (match := PACKAGE.fullmatch(line)) and match[1] not in packages:
            packages[match[1]] = f"{match[2]} {match[3]}"
        else:
            raise ConfigError(
                f"{path}:{number}: found {line!r:.100}; expected `python VERSION` first, then each package once: NAME VERSION "
                "sha256:... of its RECORD"
            )
    if not python or not packages:
        raise ConfigError(f"{path}: names no interpreter or no package; `rungproof env add NAME FOLDER` writes it")
    return Installed(python, dict(sorted(packages.items())))


def installed_text(found: Installed) -> str:
    """The list of an environment. Raises ConfigError for a package whose name or version the list cannot hold."""
    for name, what in found.packages.items():
        if not PACKAGE.fullmatch(f"{name} {what}"):
            raise ConfigError(
                f"package {name!r:.100}, version {what.rpartition(' ')[0]!r:.100}: no name or version of a package; a cut installation "
                "leaves such folders (~NAME-VERSION.dist-info): remove it and call again"
            )
    told = "# A server environment that lies on the machine already: each package with the digest of its RECORD.\n"
    lines = [f"python {found.python}\n", *(f"{name} {what}\n" for name, what in sorted(found.packages.items()))]
    return told + "".join(lines)


def _lines(path: Path, remedy: str) -> list[tuple[int, str]]:
    try:
        if path.stat().st_size > LONGEST:
            raise ConfigError(f"{path}: longer than {LONGEST} bytes; expected a list of hashes")
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); `{remedy}` writes it") from error
    # By line feeds alone: a file's name may hold other letters that end a line.
    numbered = enumerate((line.removesuffix("\r") for line in text.split("\n")), 1)
    return [(number, line) for number, line in numbered if line.strip() and not line.startswith("#")]


def _inside(name: str, where: str) -> str:
    """A path below the folder, as it is written everywhere. Raises ConfigError for any other."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or UNWRITABLE.search(name):
        raise ConfigError(
            f"{where}: found the path {name!r:.100}; expected one below the model's folder, in UTF-8, without \\ and control characters"
        )
    return PurePosixPath(name).as_posix()
