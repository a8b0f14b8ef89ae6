"""What a campaign takes from the machine as it is: models and environments that are described by hashes and must lie here."""

from pathlib import Path
from shlex import quote

from rungproof.config.load import Loaded, pins_of
from rungproof.plan.builds import build_folder, environment_digest, is_made, model_digest
from rungproof.records.plan import Plan


def not_placed(loaded: Loaded, plan: Plan, build: Path) -> dict[str, str]:
    """Folder under `build` -> what to do, for each model and environment of the plan's arms that nobody has shown us yet."""
    if plan.simulated:
        return {}
    lanes = [loaded.lanes[arm.lane] for arm in plan.arms]
    found: dict[str, str] = {}
    for name in dict.fromkeys(lane.environment for lane in lanes):
        if pins_of(loaded.root, name).suffix == ".packages":
            folder = build_folder(str(build), "envs", name, environment_digest(loaded.root, name))
            found[folder] = f"environment {name}: {_remedy('env', name, loaded.root, build)}"
    for name in dict.fromkeys(source for lane in lanes for source in _sources(loaded, lane.model)):
        model = loaded.models[name]
        if model.files:
            folder = build_folder(str(build), "models", name, model_digest(loaded.root, loaded.models, name))
            had = f" Its files can be had from: {model.upstream}" if model.upstream else ""
            found[folder] = f"model {name}: {_remedy('model', name, loaded.root, build)}{had}"
    return {folder: told for folder, told in found.items() if not is_made(folder) or not Path(folder).exists()}


def _sources(loaded: Loaded, name: str) -> list[str]:
    """A model and those that it is made from."""
    source = loaded.models[name].source
    return [name, *(_sources(loaded, source) if source else [])]


def _remedy(command: str, name: str, root: Path, build: Path) -> str:
    where = "" if root.absolute() == Path.cwd() else f" --root {quote(str(root))}"
    where += "" if build.absolute() == (root / "build").absolute() else f" --build {quote(str(build))}"
    return f"is described by its hashes and was not found under {build}. Show where it lies: rungproof {command} add {name} FOLDER{where}"
