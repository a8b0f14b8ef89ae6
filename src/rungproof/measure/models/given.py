"""Models and environments that lie on the machine already: described once by their hashes, checked, and never written to.

Under the build folder each is a link to where it lies, with its manifest beside the link (NAME-DIGEST.ready). No path of this
machine goes into a digest or a record, so another machine that has the same files can replay what was measured with them.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from rungproof.config.given import Installed, read_files, read_installed
from rungproof.measure.hosts.software import record_hashes
from rungproof.measure.models import checkpoints, environments
from rungproof.measure.serving.identity import interpreter
from rungproof.records.codec import canonical, digest, load_json
from rungproof.records.errors import EvidenceError, HostError, SetupError
from rungproof.records.files import write_atomic

EDITABLE = re.compile(rb'"editable"\s*:\s*true')  # tools write it with a space and without


def model_files(folder: Path) -> dict[str, str]:
    """Relative path -> sha256 of the files of a checkpoint or of a GGUF file's folder, hidden ones left out.

    Raises SetupError for a folder that is none, or that no engine could load.
    """
    if not os.path.isdir(folder):
        raise SetupError(f"{folder}: no such folder; expected one that holds a model's files")
    found = checkpoints.digests(folder, given=True)
    if not any(name == "config.json" or name.endswith(".gguf") for name in found):
        raise SetupError(
            f"{folder}: holds neither config.json nor a .gguf file; expected the folder of one checkpoint, which holds its weights, "
            "config.json and tokenizer, or of one GGUF model"
        )
    return found


def outside(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Files that are links to somewhere else: a container that is handed the folder alone does not see them."""
    home = folder.resolve()
    return [name for name in files if not (folder / name).resolve().is_relative_to(home)]


def place_model(name: str, listed: Mapping[str, str], folder: Path, to: Path) -> None:
    """Check the files of `folder` against their list and link `to`, a name under the build folder, to it.

    Raises EvidenceError that names the first file that is missing, changed or not listed.
    """
    _same(dict(listed), model_files(folder), folder, "a file of this model")
    sha = digest(dict(sorted(listed.items())))
    manifest = {
        "format": checkpoints.FORMAT, "name": name, "recipe": "files", "recipe_sha256": sha, "files": dict(listed),
    }  # fmt: skip
    _link(to, folder, manifest)


def recheck_model(name: str, listed: Path, to: Path, say: Callable[[str], None]) -> None:
    """Place again what `to` leads to, against the list in the file `listed`."""
    say(f"{name}: checking the files in {to.resolve()}")
    place_model(name, read_files(listed), to.resolve(), to)


def installed(folder: Path) -> Installed:
    """What is installed in an environment: the folder above bin/python. Packages by the digest of their RECORD, none imported.

    Raises SetupError for a folder that is no environment, or where a package may change without its RECORD changing.
    """
    python = environments.environment_python(folder)
    if not os.path.exists(python):
        raise SetupError(f"{python}: not there; expected the folder of an environment, the one above bin/python")
    version, folders = interpreter(str(python))
    found = record_hashes(folders)
    if not version or not found:
        raise SetupError(f"{python}: does not run, or no package is installed for it; expected a Python that serves")
    if loose := [info.name for place in folders for info in sorted(place.iterdir()) if _untold(info)]:
        raise SetupError(
            f"{folder}: {', '.join(loose)} is installed editable or as an egg, so its code can change and nothing tells. Install it: "
            "pip install --no-build-isolation --no-deps PATH, without -e."
        )
    return Installed(version, found)


def place_environment(name: str, listed: Installed, folder: Path, to: Path) -> None:
    """Check the packages of `folder` against their list and link `to`, a name under the build folder, to it.

    Raises EvidenceError that names the first package that is missing, changed or not listed.
    """
    _same_environment(listed, installed(folder), folder)
    versions = {package: what.partition(" ")[0] for package, what in listed.packages.items()}
    manifest = {
        "format": environments.FORMAT, "name": name, "lock_sha256": listed.digest, "python": listed.python, "packages": versions,
        "records": listed.packages,
    }  # fmt: skip
    _link(to, folder, manifest)


def recheck_environment(name: str, listed: Path, to: Path) -> None:
    """Place again what `to` leads to, against the list in the file `listed`."""
    place_environment(name, read_installed(listed), to.resolve(), to)


def check_environment(to: Path, sha: str) -> None:
    """That an environment which was given still is what was described, of digest `sha`; one made from a lock is not looked at.

    Raises EvidenceError where it is not, SetupError where it is gone.
    """
    if to.is_symlink():
        path = _mark(to)
        manifest = load_json(path.read_bytes(), str(path))
        told = manifest if isinstance(manifest, dict) else {}
        _planned(digest({"python": told.get("python"), "packages": told.get("records")}), sha, path)
        _same_environment(Installed(told["python"], told["records"]), installed(to.resolve()), to.resolve())


def check_model(to: Path, sha: str) -> None:
    """That a model's files are those of its manifest; of one that was given, also that these are the ones of digest `sha`.

    Raises EvidenceError where they are not.
    """
    found = checkpoints.verify_files(to)
    if to.is_symlink():
        _planned(found, sha, _mark(to))


def _planned(found: str, sha: str, mark: Path) -> None:
    if found != sha:
        raise EvidenceError(
            f"{mark}: lists what has the digest {found[:12]}; expected {sha[:12]}, as in the plan. It was changed or damaged: remove it, "
            "and show again where the folder lies (rungproof model add or env add)."
        )


def _same_environment(listed: Installed, found: Installed, folder: Path) -> None:
    if listed.python != found.python:
        raise EvidenceError(f"{folder}: its Python is {found.python}; expected {listed.python}, as it was described")
    _same(listed.packages, found.packages, folder, "a package of this environment")


def _same(listed: Mapping[str, str], found: Mapping[str, str], folder: Path, what: str) -> None:
    differ = [name for name in sorted(listed.keys() | found.keys()) if listed.get(name) != found.get(name)]
    if differ:
        first = differ[0]
        more = f", and {len(differ) - 1} more differ" if len(differ) > 1 else ""
        raise EvidenceError(
            f"{folder}: {first}: found {found.get(first, 'nothing')}; expected {listed.get(first, f'not {what}')}{more}. "
            "Bring it back to what was described, or describe it under another name."
        )


def _untold(info: Path) -> bool:
    """Whether it says of a package that it is installed, and no RECORD holds its code: by `pip install -e` or `setup.py`."""
    if info.suffix in (".egg-link", ".egg"):
        return True
    try:
        return info.suffix == ".dist-info" and EDITABLE.search((info / "direct_url.json").read_bytes()) is not None
    except OSError:
        return False


def _mark(to: Path) -> Path:
    return to.with_name(f"{to.name}.ready")


def _link(to: Path, folder: Path, manifest: Mapping[str, object]) -> None:
    """The link first, then its manifest, so that a cut call leaves nothing that passes for placed. To the folder itself: `folder` may
    be `to`, or another link that leads through it."""
    if os.path.exists(to) and not to.is_symlink():
        raise SetupError(f"{to}: exists and is no link of ours; move it away")
    new = to.with_name(f".{to.name}.{os.getpid()}")
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        _mark(to).unlink(missing_ok=True)
        new.unlink(missing_ok=True)
        new.symlink_to(folder.resolve(), target_is_directory=True)
        new.replace(to)
    except OSError as error:
        raise HostError(
            f"{to}: cannot be linked to {folder} ({error.strerror}); mend the permissions of the build folder, or name another"
        ) from error
    write_atomic(_mark(to), canonical(dict(manifest)))
