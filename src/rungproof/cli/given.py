"""`rungproof model add`, `rungproof env add`: a model or environment that lies on this machine already, described by its hashes."""

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from rungproof.cli.words import clean
from rungproof.config.base import NAME, check_section, read_section, read_yaml, yaml_text
from rungproof.config.given import files_text, installed_text, read_files, read_installed
from rungproof.config.load import pins_of, read_run
from rungproof.config.sections import Model
from rungproof.measure.models import given
from rungproof.plan.builds import build_folder
from rungproof.records.codec import digest
from rungproof.records.errors import ConfigError
from rungproof.records.files import write_atomic


def add_options(to: argparse.ArgumentParser) -> None:
    """The options of `env add`."""
    to.add_argument("name", metavar="NAME", help="its name in lanes: letters, digits, _ and -")
    to.add_argument("folder", type=Path, metavar="FOLDER", help="where it lies; nothing is written there")
    to.add_argument("--root", type=Path, default=Path(), metavar="DIR", help="the checkout (default: this folder)")
    to.add_argument(
        "--build", type=Path, metavar="DIR", help="where the link to it is put (default: `build` of config/config.yaml)"
    )


def add_model_options(to: argparse.ArgumentParser) -> None:
    """The options of `model add`."""
    add_options(to)
    told = to.add_argument_group("what the page says of it, needed when it is described for the first time")
    told.add_argument("--title", default="", metavar="TEXT", help="name for people (default: the folder's own)")
    told.add_argument("--licence", default="", metavar="SPDX", help="licence of the weights, such as Apache-2.0")
    told.add_argument("--quantisation", default="", metavar="TEXT", help="format of the weights, in words")
    told.add_argument("--upstream", default="", metavar="TEXT", help="where others get the same files")


def add_model(options: argparse.Namespace) -> int:
    """Describe and place a model, or check and place one that is described already."""
    name, folder, build = _asked(options)
    path = options.root / f"config/models/{name}.yaml"
    new: dict[Path, str] = {}
    if path.exists():
        files = read_section(Model, path).files
        if files is None:
            raise ConfigError(f"{path}: this model is made by a recipe, not given; choose another name")
        listed = read_files(options.root / files)
    else:
        section = _section(name, folder, options)
        print(f"Reading {clean(folder)} ...", file=sys.stderr, flush=True)
        listed = given.model_files(folder)
        new = {options.root / section["files"]: files_text(listed, section["title"]), path: yaml_text(section)}
    _free(new)
    place = Path(build_folder(str(build), "models", name, digest(listed)))
    given.place_model(name, listed, folder, place)
    _write(new)  # after it was placed: what could not be is not described either, and the next call begins anew
    if new:
        print(f"{path}: written, {len(listed)} files, listed beside it. Both belong into version control.")
    if away := given.outside(folder, listed):
        print(
            f"{clean(away[0])} is a link to somewhere else: a server in a container would not see it. For containers name a folder that "
            "holds the files themselves.",
            file=sys.stderr,
        )
    if "tokenizer.json" not in listed:
        print("No tokenizer.json: suites of long texts cannot be cut for this model, so no depths.", file=sys.stderr)
    print(f"{place}: linked to {clean(folder)}. A lane says `model: {name}`.")
    return 0


def add_environment(options: argparse.Namespace) -> int:
    """Describe and place an environment, or check and place one that is described already."""
    name, folder, build = _asked(options)
    pins = options.root / pins_of(options.root, name)
    if pins.suffix == ".lock" and pins.exists():
        raise ConfigError(f"{pins}: this environment is made from a lock, not given; choose another name")
    path = options.root / f"envs/{name}.packages"
    new: dict[Path, str] = {}
    if path.exists():
        listed = read_installed(path)
    else:
        listed = given.installed(folder)
        new = {path: installed_text(listed)}
    place = Path(build_folder(str(build), "envs", name, listed.digest))
    given.place_environment(name, listed, folder, place)
    _write(new)
    if new:
        print(
            f"{path}: written, Python {listed.python} and {len(listed.packages)} packages. It belongs into version control."
        )
    if bare := [package for package, what in listed.packages.items() if what.endswith(" no RECORD")]:
        print(f"No RECORD, so only their versions are checked: {', '.join(bare)}.", file=sys.stderr)
    print(f"{place}: linked to {clean(folder)}. A lane says `environment: {name}`.")
    return 0


def _asked(options: argparse.Namespace) -> tuple[str, Path, Path]:
    if not re.fullmatch(NAME, options.name):
        raise ConfigError(f"{options.name!r:.80}: no name for a file of the configuration; expected {NAME}")
    if not (options.root / "config/config.yaml").is_file():
        raise ConfigError(f"{options.root.absolute()}: no checkout of rungproof; name one with --root")
    try:
        folder = options.folder.expanduser().absolute()
    except RuntimeError as error:
        raise ConfigError(f"{options.folder}: no such user here; write the whole path") from error
    build = options.build or options.root / read_run(read_yaml(options.root / "config/config.yaml")).build
    return options.name, folder, build


def _section(name: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    if lacking := [f"--{key}" for key in ("licence", "quantisation") if not getattr(options, key)]:
        raise ConfigError(
            f"model add: {name} is not described yet; say also {' and '.join(lacking)}, for example --licence Apache-2.0 "
            "--quantisation 'int4 weights in groups of 128 (GPTQ), float16 activations'"
        )
    made = {
        "title": clean(options.title or (folder.resolve() if folder.name == ".." else folder).name),
        "files": f"config/models/{name}.sha256",
        "upstream": options.upstream,
        "licence": options.licence,
        "quantisation": options.quantisation,
    }
    return check_section(Model, made, f"model {name}").model_dump(exclude_defaults=True)


def _free(files: dict[Path, str]) -> None:
    """Raises ConfigError where a file lies already that says something else: another model's list."""
    for path, text in files.items():
        if path.exists() and path.read_bytes() != text.encode():
            raise ConfigError(
                f"{path}: exists, and this model is not described yet; move it away or choose another name"
            )


def _write(files: dict[Path, str]) -> None:
    for path, text in files.items():
        write_atomic(path, text.encode())
