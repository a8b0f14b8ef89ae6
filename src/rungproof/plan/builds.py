"""Digests of what servers are made from, and where it is built. A lock, recipe or source that changes gives another folder."""

from pathlib import Path

from rungproof.config.given import read_files, read_installed
from rungproof.config.load import pins_of
from rungproof.config.sections import Model
from rungproof.records.codec import digest, sha256
from rungproof.records.errors import ConfigError

SOURCES = (".py", ".j2")
RECIPES = Path(__file__).resolve().parents[1] / "measure/models/recipes"


def environment_digest(root: Path, name: str) -> str:
    """sha256 of envs/NAME.lock, or of what envs/NAME.packages lists. Raises ConfigError when neither is there."""
    path = root / pins_of(root, name)
    if path.suffix == ".packages":
        return read_installed(path).digest
    return sha256(_bytes(path, f"the environment {name!r} of a lane (or {name}.packages, see `rungproof env add`)"))


def model_digest(root: Path, models: dict[str, Model], name: str) -> str:
    """Digest of a model's recipe script and of what it starts from, a lock file or another model; or of the files it has."""
    model = models[name]
    if model.files:
        return digest(read_files(root / model.files))
    script = _bytes(RECIPES / f"{model.recipe}.py", f"the recipe of model {name!r}")
    if model.source:
        return recipe_digest(script, None, model_digest(root, models, model.source))
    return recipe_digest(script, _bytes(root / str(model.lock), f"the lock of model {name!r}"), None)


def recipe_digest(script: bytes, lock: bytes | None, source_digest: str | None) -> str:
    """sha256 that names a checkpoint before it is made: of the script, the lock and the source's own recipe digest."""
    return digest({"script": sha256(script), "lock": None if lock is None else sha256(lock), "source": source_digest})


def build_folder(build: str, kind: str, name: str, sha: str) -> str:
    """Folder of an environment (`envs`) or a model (`models`): <build>/<kind>/<name>-<12 hex of its digest>."""
    return f"{build}/{kind}/{name}-{sha[:12]}"


def is_made(folder: str | Path) -> bool:
    """Whether an environment or model is whole. One that was given is a link to where it lies, with its manifest beside it."""
    path = Path(folder)
    return (path.with_name(path.name + ".ready") if path.is_symlink() else path / "manifest.json").exists()


def source_digest(*packages: Path) -> str:
    """Digest of the Python files and templates of some rooms: an edit of a room remakes what that room makes."""
    files = {
        f"{package.name}/{path.relative_to(package)}": sha256(path.read_bytes())
        for package in packages
        for path in sorted(package.rglob("*"))
        if path.suffix in SOURCES and path.is_file()
    }
    return digest(files)


def _bytes(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); it is {what}") from error
