"""The whole of config/: every file a campaign names, read and cross-checked before anything starts."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rungproof.config.base import check_section, read_section
from rungproof.config.lanes import Lane
from rungproof.config.sections import Campaign, Host, Ladder, Model, Run, Workload
from rungproof.config.suites import AnySuite, LadderSuite, TieSuite, read_suite, suite_digest
from rungproof.config.workloads import Probe
from rungproof.records.errors import ConfigError


@dataclass(frozen=True)
class Loaded:
    """A campaign with everything it names. `workloads` hold the host's replacements already."""

    name: str
    campaign: Campaign
    host_name: str
    host: Host
    lanes: dict[str, Lane]
    models: dict[str, Model]
    workloads: dict[str, Workload]
    suites: dict[str, AnySuite]
    suite_digests: dict[str, str]
    root: Path

    @property
    def simulated(self) -> bool:
        """True when the host replaces every engine by the simulated server."""
        return self.host.engine == "simulated"

    def canary_of(self, lane: str) -> str:
        """Name of the canary suite of a lane's servers: the host's, else the lane's, else the campaign's."""
        return self.host.canary or self.lanes[lane].canary or self.campaign.canary

    @property
    def needs(self) -> frozenset[str]:
        """Processor flags that any of its lanes needs."""
        return frozenset(flag for lane in self.lanes.values() for flag in lane.needs)

    @property
    def folder(self) -> str:
        """Name of the results folder: another host than the campaign's own never mixes with it."""
        return self.name if self.host_name == self.campaign.host else f"{self.name}@{self.host_name}"


def read_run(config: dict[str, Any]) -> Run:
    """config/config.yaml merged with --config, as Snakemake gives it. Raises ConfigError."""
    return check_section(Run, config, "config/config.yaml or --config")


def campaign_names(root: Path) -> list[str]:
    """Names of all campaigns, sorted. Raises ConfigError when there is none."""
    names = sorted(path.stem for path in (root / "config/campaigns").glob("*.yaml"))
    if not names:
        raise ConfigError(f"{root / 'config/campaigns'}: holds no campaign; expected at least one NAME.yaml")
    return names


def refuse_names(names: Iterable[str], taken: Iterable[str]) -> None:
    """Raises ConfigError when a campaign has the name of a rule, since both would be targets."""
    for name in sorted(set(names) & set(taken)):
        raise ConfigError(
            f"config/campaigns/{name}.yaml: the name {name!r} is already that of a rule; "
            f"rename the file (for example {name}_campaign.yaml)"
        )


def load(root: Path, name: str, host: str = "") -> Loaded:
    """Campaign `name` under `root`, on `host` or its own. Raises ConfigError that names the file and key."""
    folder = root / "config"
    campaign = read_section(Campaign, folder / "campaigns" / f"{name}.yaml")
    host_name = host or campaign.host
    profile = read_section(Host, folder / "hosts" / f"{host_name}.yaml")
    lanes = {arm.lane: read_section(Lane, folder / "lanes" / f"{arm.lane}.yaml") for arm in campaign.arms.values()}
    for key, lane in lanes.items():
        if lane.launcher == "container" and profile.container is None and profile.engine is None:
            raise ConfigError(
                f"config/hosts/{host_name}.yaml: lane {key} runs in a container, and this host names no engine for it. "
                "Write `container: {command: [docker]}` (or podman, with the arguments that it needs here)."
            )
    models: dict[str, Model] = {}
    for lane in lanes.values():
        _read_model(folder, lane.model, models, ())
    workloads = {key: _replaced(key, work, profile, host_name) for key, work in campaign.workloads.items()}
    for unknown in sorted(set(profile.arguments) - {path.stem for path in (folder / "lanes").glob("*.yaml")}):
        raise ConfigError(
            f"config/hosts/{host_name}.yaml: arguments.{unknown}: no such lane under config/lanes/; correct or remove it"
        )
    canaries = {campaign.canary, profile.canary, *(lane.canary for lane in lanes.values())}
    suites: dict[str, AnySuite] = {c: read_suite(folder / "suites", c, "canary") for c in canaries if c is not None}
    for work in workloads.values():
        suites[work.suite] = read_suite(folder / "suites", work.suite, work.kind)
    for key, work in workloads.items():
        suite = suites[work.suite]
        if not isinstance(work, Ladder | Probe) or not isinstance(suite, LadderSuite | TieSuite):
            continue
        wanted = work.rungs[-1] // work.copies if isinstance(work, Ladder) else work.prompts
        if wanted > suite.size:
            where = "rungs" if isinstance(work, Ladder) else "prompts"
            raise ConfigError(
                f"config/campaigns/{name}.yaml: workloads.{key}.{where}: found {wanted}; suite {work.suite} makes at most "
                f"{suite.size} unique prompts. Lower it or add openers to config/suites/{work.suite}.yaml."
            )
    digests = {key: suite_digest(suite, folder / "suites") for key, suite in suites.items()}
    return Loaded(name, campaign, host_name, profile, lanes, models, workloads, suites, digests, root)


def files_of(loaded: Loaded) -> list[Path]:
    """Every file that a loaded campaign depends on, relative to its root, sorted: a copy of them loads as the same campaign."""
    config = Path("config")
    lanes = {*loaded.lanes, *loaded.host.arguments}
    named = [
        config / "config.yaml",
        config / f"campaigns/{loaded.name}.yaml",
        config / f"hosts/{loaded.host_name}.yaml",
    ]
    named += [config / f"lanes/{lane}.yaml" for lane in lanes]
    named += [config / f"models/{model}.yaml" for model in loaded.models]
    for name, suite in loaded.suites.items():
        named += [
            config / f"suites/{name}.yaml",
            *(config / "suites" / text.file for text in getattr(suite, "texts", ())),
        ]
        folder = loaded.root / config / "suites" / name  # sources and licences lie beside the texts
        named += [path.relative_to(loaded.root) for path in folder.rglob("*") if path.is_file()]
    if not loaded.simulated:
        named += [pins_of(loaded.root, lane.environment) for lane in loaded.lanes.values()]
        named += [Path(path) for model in loaded.models.values() if (path := model.lock or model.files)]
    return sorted(set(named))


def pins_of(root: Path, environment: str) -> Path:
    """File that pins an environment, relative to `root`: the lock it is made from, or the list of one that lies here already.

    Raises ConfigError where both are there, since nothing says which one is meant; the lock where neither is.
    """
    lock, given = Path(f"envs/{environment}.lock"), Path(f"envs/{environment}.packages")
    if (root / lock).exists() and (root / given).exists():
        raise ConfigError(
            f"{root / lock}: {given.name} lies beside it; an environment has one of the two: remove the other"
        )
    return given if (root / given).exists() else lock


def _read_model(folder: Path, name: str, into: dict[str, Model], above: tuple[str, ...]) -> None:
    if name in above:
        raise ConfigError(f"config/models/{name}.yaml: source: the models {' -> '.join((*above, name))} go in a circle")
    path = folder / "models" / f"{name}.yaml"
    if not path.exists():
        known = ", ".join(sorted(one.stem for one in path.parent.glob("*.yaml")))
        raise ConfigError(
            f"{path}: not there; `rungproof model add {name} FOLDER` describes a model that you have; described are {known}"
        )
    model = into.setdefault(name, read_section(Model, path))
    if model.source:
        _read_model(folder, model.source, into, (*above, name))


def _replaced(key: str, work: Workload, host: Host, host_name: str) -> Workload:
    changes = host.workloads.get(key)
    if not changes:
        return work
    where = f"config/hosts/{host_name}.yaml: workloads.{key}"
    if "kind" in changes:
        raise ConfigError(f"{where}.kind: a host cannot change the kind of a workload; remove the key")
    replaced: Workload = check_section(type(work), {**work.model_dump(), **changes}, where)
    return replaced
