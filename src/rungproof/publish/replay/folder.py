"""The folder in which a pack's plan is measured again: this checkout's workflow, the pack's configuration, results of its own."""

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rungproof.config.base import NAME, yaml_text
from rungproof.config.load import Loaded, files_of, load
from rungproof.plan.given import not_placed
from rungproof.plan.resolve import resolve
from rungproof.records.codec import canonical, plain, read, sha256
from rungproof.records.errors import ConfigError, EvidenceError, HostError
from rungproof.records.files import write_atomic
from rungproof.records.plan import Plan

INPUTS = Path("plan/inputs")
WORKFLOW = ("Snakefile", "workflow", "profiles")
CARRIED = ("config", "envs")
MANIFEST = "MANIFEST.sha256"
PINS = {".lock": ".packages", ".packages": ".lock"}


@dataclass(frozen=True)
class Place:
    """Where a replay is done. `results`: folder of all results; `study`: that of this campaign below it; `pack`: sha256 of the manifest."""

    folder: Path
    results: Path
    build: Path
    pack: str
    plan: Plan
    loaded: Loaded

    @property
    def study(self) -> Path:
        """Results of the replay."""
        return self.results / self.plan.study

    @property
    def made(self) -> Path:
        """Where report, page and line of the replay lie."""
        return self.folder / "replay"


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One replay of a pack at a time. Raises HostError where another one is under way."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / ".replaying", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise HostError(
            f"{folder}: could not be made ({error.strerror}); mend its permissions or free some space"
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise HostError(f"{folder}: this pack is being replayed by another process; wait for it") from error
    finally:
        os.close(handle)


def folder_of(pack: Path, root: Path) -> Path:
    """Where a pack is replayed: build/replays/<first digits of its manifest's sha256> of the checkout."""
    return (root / "build/replays" / sha256(_bytes(pack / MANIFEST))[:12]).absolute()


def prepare(pack: Path, root: Path, results: Path | None, build: Path, flags: frozenset[str]) -> Place:
    """Make, or find again, the folder for a replay of `pack` (`folder_of`) and resolve its plan there.

    root: the checkout whose workflow is used; results: another folder for results; flags: of this processor.
    Raises EvidenceError for a pack that carries no inputs, ConfigError where they give another plan than the published one,
    HostError where this processor cannot serve an arm of it. Nothing is started.
    """
    plan = read(Plan, pack / "plan.json")
    for name in (plan.campaign, plan.host):
        if not re.fullmatch(NAME, name):
            raise EvidenceError(
                f"{pack}/plan.json: found the name {name!r:.80}; expected one of this program's, {NAME}"
            )
    digest = sha256(_bytes(pack / MANIFEST))
    folder = folder_of(pack, root)
    place = (results or folder / "results").absolute()
    _copy(pack, root, folder)
    lacks = sorted({flag for one in plan.unavailable for flag in one.lacks})
    told = {"results": str(place), "build": str(build.absolute()), "host": plan.host, "lacks": ",".join(lacks)}
    write_atomic(folder / "config/config.yaml", yaml_text(told).encode())
    loaded = load(folder, plan.campaign, plan.host)
    for path in files_of(loaded):
        if not (folder / path).resolve().is_relative_to(folder.resolve()):
            raise EvidenceError(
                f"{pack}: its configuration names {str(path)!r:.80}, which lies outside of the pack; nothing was started"
            )
    _serves(plan, loaded, flags)
    again = resolve(loaded, (flags | loaded.needs) - frozenset(lacks))
    if canonical(again) != canonical(plan):
        raise ConfigError(refusal(plan, again))
    if absent := not_placed(loaded, again, build.absolute()):
        raise HostError(
            "Nothing was started: the plan uses what lies on its publisher's machine.\n  "
            + "\n  ".join(absent.values())
        )
    return Place(folder, place, build.absolute(), digest, plan, loaded)


def _copy(pack: Path, root: Path, folder: Path) -> None:
    """Workflow of the checkout and configuration of the pack, each as it is now; the pack's locks lie over the checkout's own envs/,
    of which Snakemake and pip use more than locks."""
    if not (root / "Snakefile").is_file():
        raise ConfigError(
            f"{root.absolute()}: holds no Snakefile. Run this in a checkout of rungproof, or name one with --root."
        )
    if not (pack / INPUTS / "config").is_dir():
        raise EvidenceError(
            f"{pack / INPUTS / 'config'}: not there; a pack carries the configuration that its plan was resolved from"
        )
    try:
        for name in (*WORKFLOW, "config"):
            if (folder / name).is_dir():
                shutil.rmtree(folder / name)
        for name in WORKFLOW:
            _over(root / name, folder / name)
        _over(root / "envs", folder / "envs")
        for name in CARRIED:
            _over(pack / INPUTS / name, folder / name)
        for path in sorted((pack / INPUTS / "envs").glob("*")):
            if path.suffix in PINS:  # this checkout may pin an environment of that name in the other way
                (folder / "envs" / path.name).with_suffix(PINS[path.suffix]).unlink(missing_ok=True)
    except OSError as error:
        raise HostError(
            f"{folder}: could not be made ({error.strerror or error}); free some space or mend the folder's permissions"
        ) from error


def _over(source: Path, to: Path) -> None:
    """A copy of a file or folder over what is there. Links are not followed: a pack holds plain files alone."""
    for path in sorted(source.rglob("*")) if source.is_dir() else [source]:
        if path.is_symlink():
            raise EvidenceError(f"{path}: a link; expected plain files alone")
        if path.is_file() and "__pycache__" not in path.parts:
            target = to / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)


def _serves(plan: Plan, loaded: Loaded, flags: frozenset[str]) -> None:
    """Every arm of the plan can run here, so nothing is found out after an hour."""
    lacking = {} if plan.simulated else {
        arm.name: sorted(set(loaded.lanes[arm.lane].needs) - flags) for arm in plan.arms if arm.lane in loaded.lanes
    }  # fmt: skip
    if said := [f"arm {name} needs {', '.join(lacks)}" for name, lacks in lacking.items() if lacks]:
        raise HostError(
            f"This processor cannot serve the published plan: {'; '.join(said)}. Replay it on a processor that has them. What can be "
            "checked here: rungproof verify PACK, and rungproof verify --tokens PACK."
        )


def refusal(said: Plan, again: Plan) -> str:
    """Why a plan is not the published one: its first pin that differs, both values, and what to do."""
    where, one, two = next(differences(plain(said), plain(again)))
    return (
        f"The plan that these files give is not the published one, so nothing was started. First difference: {where}: published "
        f"{_short(one)}; here {_short(two)}. {_remedy(where)}"
    )


def differences(one: Any, two: Any, where: str = "plan") -> Iterator[tuple[str, Any, Any]]:
    """Each leaf in which two plain values differ, with its path: names of arms and ids in the place of their positions."""
    if isinstance(one, dict) and isinstance(two, dict):
        for key in [*one, *(k for k in two if k not in one)]:
            yield from differences(one.get(key), two.get(key), f"{where}.{key}")
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for i, (a, b) in enumerate(zip(one, two, strict=True)):
            yield from differences(a, b, f"{where}[{_name(a, i)}]")
    elif one != two:
        yield where, one, two


def _name(value: Any, place: int) -> str:
    named = value if isinstance(value, dict) else {}
    if "workload" in named:
        return f"{named.get('arm')}.{named.get('replicate')}/{named['workload']}/{named.get('item')}"
    return str(named.get("name") or named.get("id") or place)


def _short(value: Any) -> str:
    return repr(value) if len(repr(value)) <= 160 else f"{repr(value)[:160]}..."


def _remedy(where: str) -> str:
    """What to do about the kind of pin that differs."""
    if "environment_sha256" in where:
        return "The lock or list under plan/inputs/envs is not that of what was installed: ask for the pack as it was published."
    if "model_sha256" in where:
        return (
            "The recipe of this checkout, the lock of the model, or the list of its files is another one: use the version of rungproof "
            "that published the pack (plan/inputs/recipes holds its recipes)."
        )
    return (
        "Its configuration was changed, or this checkout resolves it differently: use the pack as it was published, and the version "
        "of rungproof that published it."
    )


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise EvidenceError(
            f"{path}: cannot be read ({error.strerror}); expected the folder of a proof pack"
        ) from error
