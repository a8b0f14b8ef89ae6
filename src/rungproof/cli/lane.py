"""`rungproof lane show`: the command of a lane's server, its environment, and where each of them is looked up again."""

import argparse
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rungproof.cli.words import add, clean, console, table
from rungproof.config.base import read_section, read_yaml
from rungproof.config.lanes import ContainerEngine, Lane
from rungproof.config.load import load, read_run
from rungproof.config.sections import Host, Model
from rungproof.measure.serving import census, engines
from rungproof.measure.serving.engines.engine import Engine
from rungproof.measure.serving.engines.vllm import IN_CONFIG
from rungproof.measure.serving.identity import portable_command
from rungproof.measure.serving.knobs import Shown, verify
from rungproof.measure.serving.launch import container
from rungproof.measure.serving.launch.process import PASSED, PASSED_PREFIXES, environment
from rungproof.measure.serving.order import Order
from rungproof.plan.builds import build_folder, environment_digest, is_made, model_digest
from rungproof.plan.machine import processor_flags
from rungproof.plan.resolve import resolve
from rungproof.records.errors import ConfigError

BARE = re.compile(r"<[a-z]+>")
COLUMNS = {"asked": False, "value": False, "its /proc": False, "its log, if stated there": False}
NAME, BOOT, CACHE = "<name>", "<boot>", Path("<cache>")


@dataclass(frozen=True, slots=True)
class Launch:
    """How a server is launched: its engine, what is asked of it, and where its environment and model are made."""

    engine: Engine
    arguments: dict[str, Any]
    variables: dict[str, str]
    census: dict[str, dict[str, str]]
    places: dict[str, str]
    whole: dict[str, Any]
    container: ContainerEngine | None

    @property
    def contained(self) -> bool:
        """Whether it runs in a container."""
        return self.whole.get("launcher") == "container"


def add_options(to: argparse.ArgumentParser) -> None:
    """The options of `lane show`."""
    to.add_argument("lane", metavar="LANE", help="file under config/lanes/, without .yaml")
    to.add_argument(
        "--campaign", default="", metavar="CAMPAIGN", help="with --arm: the launch of one arm of this campaign"
    )
    to.add_argument("--arm", default="", metavar="ARM", help="an arm of the campaign that uses this lane")
    to.add_argument(
        "--host", default="", metavar="HOST", help="host profile (default: the campaign's; none without one)"
    )
    to.add_argument("--root", type=Path, default=Path(), metavar="DIR", help="the checkout (default: this folder)")


def show(options: argparse.Namespace) -> int:
    """Print the launch. Nothing is started and nothing is made."""
    if bool(options.campaign) != bool(options.arm):
        raise ConfigError(
            "lane show: --campaign and --arm go together, as an arm is looked up in a campaign; give both or neither"
        )
    lane = read_section(Lane, options.root / "config/lanes" / f"{options.lane}.yaml")
    launch = _of_arm(options) if options.arm else _of_lane(options, lane)
    argv = launch.engine.argv(_order(launch), NAME, 0)
    variables = environment({}, launch.variables, BOOT, CACHE, launch.engine.passed)
    if launch.contained:
        argv, variables = container.moved(argv, "<model>"), container.inside(launch.variables, BOOT)
    print(
        f"# {clean(lane.title)}" + (f"; arm {clean(options.arm)} of {clean(options.campaign)}" if options.arm else "")
    )
    for name, place in launch.places.items():
        print(f"# {name}: {clean(place)}")
    print(f"# {NAME}: the model's name with the nonce {BOOT}, new for each server")
    print(f"# {CACHE}: new and empty for each server; it runs in {CACHE / 'work'}")
    print("\n# Command")
    print(_command(_whole_command(launch, argv, variables)))
    print("\n# Environment")
    for key, value in sorted(variables.items()):
        print(f"{clean(key)}={_quoted(value)}")
    passed = ", ".join(sorted({*PASSED, *launch.engine.passed}))
    told = f"{passed}, and names that begin with {', '.join(PASSED_PREFIXES)}; nothing else"
    print(
        "# and those of the image; nothing of the caller's" if launch.contained else f"# and, of the caller's: {told}"
    )
    rows = table("Looked up again in the running server; what is not in force there makes the session invalid", COLUMNS)
    for cells in looked_up(launch, argv, variables):
        add(rows, *cells)
    print()
    console().print(rows)
    return 0


def _whole_command(launch: Launch, argv: list[str], variables: dict[str, str]) -> list[str]:
    """The command of the server, or of the container that it runs in: image, mounts, devices, limits."""
    if not launch.contained:
        return portable_command(argv, _order(launch), NAME)
    host = launch.container or ContainerEngine(command=["<engine>"])
    words = [word if word != "0" or argv[at - 1] != "--port" else "<port>" for at, word in enumerate(argv)]
    return container.command(
        host.command,
        host.arguments,
        f"rungproof-{BOOT}",
        "<session>",
        BOOT,
        launch.whole["container"],
        "<model>",
        CACHE,
        variables,
        words,
    )


def _order(launch: Launch) -> Order:
    """The order of a server that is never started: placeholders where the machine's own would be."""
    return Order(
        session="", campaign="", arm="", replicate="", launch={**launch.whole, "arguments": launch.arguments, "variables": launch.variables},
        launch_sha256="", python=str((launch.whole.get("container") or {}).get("python", "<python>")), model_path="<model>",
        model_identity={}, port=0, ready_deadline_s=0.0, stop_grace_s=0.0, lock="", owner_pid=0, owner_start=0, canary={}, fault_lines=(),
    )  # fmt: skip


def looked_up(launch: Launch, argv: list[str], variables: dict[str, str]) -> Iterator[tuple[str, str, str, str]]:
    """(name, value asked, where the process shows it, where its log may state it) of each knob."""
    source = (container.SOURCE, container.SOURCE) if launch.contained else ("command line", "environment")
    for knob in verify(launch.engine, launch.arguments, launch.variables, Shown(tuple(argv), variables, *source), ""):
        if knob.found is None and knob.asked == "stated in the log":
            continue
        stated = []
        if launch.engine.name == "vllm" and knob.name.startswith("--"):
            key = knob.name.removeprefix("--")
            stated.append("non-default args")
            name = "speculative_config" if key == "speculative-config" else IN_CONFIG.get(key)
            if name and launch.arguments[key] != "auto":
                stated.append(f"engine config: {name}")
        yield knob.name, knob.asked, knob.source, ", ".join(stated) or "-"
    for knob in census.verify(launch.census, ""):
        yield knob.name, knob.asked, "-", "its own line"


def _of_arm(options: argparse.Namespace) -> Launch:
    """The launch of an arm, also of one that this processor could not serve."""
    loaded = load(options.root, options.campaign, options.host)
    arm = loaded.campaign.arms.get(options.arm)
    where = f"config/campaigns/{options.campaign}.yaml"
    if arm is None:
        raise ConfigError(f"{where}: no arm {options.arm!r}; expected one of {', '.join(loaded.campaign.arms)}")
    if arm.lane != options.lane:
        raise ConfigError(
            f"{where}: arm {options.arm!r} is of lane {arm.lane!r}; expected {options.lane!r}. Show that lane"
        )
    every = frozenset(flag for lane in loaded.lanes.values() for flag in lane.needs)
    for flags in (processor_flags(), every, frozenset[str]()):  # an arm may stand in where a flag is lacking
        try:
            plan = resolve(loaded, flags)
        except ConfigError:
            if not flags:
                raise
            continue
        if options.arm in {one.name for one in plan.arms}:
            return _launch(options, plan.arm(options.arm).launch, loaded.host.container)
    raise ConfigError(
        f"{where}: on host {loaded.host_name} arm {options.arm!r} is never planned: it stands in for {arm.instead_of!r}, which that "
        "host can serve. Show that arm, or give another --host"
    )


def _of_lane(options: argparse.Namespace, lane: Lane) -> Launch:
    """The launch of a lane by itself, with the host's arguments where a host is named."""
    host = read_section(Host, options.root / "config/hosts" / f"{options.host}.yaml") if options.host else None
    arguments = {**lane.arguments, **(host.arguments.get(options.lane, {}) if host else {})}
    engine = host.engine if host and host.engine else lane.engine
    shas = {"environment_sha256": "", "model_sha256": ""}
    if engine != "simulated":
        models = _models(options.root / "config/models", lane.model)
        shas["environment_sha256"] = environment_digest(options.root, lane.environment)
        shas["model_sha256"] = model_digest(options.root, models, lane.model)
    return _launch(options, {
        "engine": engine, "environment": lane.environment, "model": lane.model, "arguments": arguments, "variables": lane.variables,
        "launcher": lane.launcher if engine != "simulated" else "process", "command": lane.command, "program": lane.program,
        "container": lane.container.model_dump(exclude_none=True) if lane.container else None,
        "census": {key: demand.model_dump(exclude_none=True) for key, demand in lane.census.items()} if engine != "simulated" else {}, **shas,
    }, host.container if host else None)  # fmt: skip


def _models(folder: Path, name: str) -> dict[str, Model]:
    """A model and those that it is made from."""
    made: dict[str, Model] = {}
    source: str | None = name
    while source and source not in made:
        made[source] = read_section(Model, folder / f"{source}.yaml")
        source = made[source].source
    return made


def _launch(options: argparse.Namespace, launch: dict[str, Any], host: ContainerEngine | None) -> Launch:
    engine = engines.find(str(launch["engine"]))
    places = {"<python>": "the interpreter of rungproof itself"}
    if engine.name != "simulated":
        build = read_run(read_yaml(options.root / "config/config.yaml")).build
        environment_folder = build_folder(build, "envs", launch["environment"], launch["environment_sha256"])
        model_folder = build_folder(build, "models", launch["model"], launch["model_sha256"])
        places = {"<python>": f"{environment_folder}/bin/python", "<model>": model_folder}
        for key, folder in (("<python>", environment_folder), ("<model>", model_folder)):
            made = is_made(options.root / folder)
            places[key] += " (made)" if made else " (not made yet; a campaign makes it)"
        if launch.get("launcher") == "container":
            del places["<python>"]
            places["image"] = str(launch["container"]["image"])
    variables = {key: str(value) for key, value in launch["variables"].items()}
    return Launch(engine, dict(launch["arguments"]), variables, dict(launch.get("census", {})), places, launch, host)


def _command(words: list[str]) -> str:
    """A command for a shell, an option a line."""
    lines: list[list[str]] = [[]]
    for word in words:
        if word.startswith("--") and lines[-1]:
            lines.append([])
        lines[-1].append(_quoted(word))
    return " \\\n  ".join(" ".join(line) for line in lines)


def _quoted(word: str) -> str:
    """For a shell; placeholders stay bare, to be replaced."""
    return clean(word) if BARE.search(word) and not re.search(r"\s", word) else clean(shlex.quote(word))
