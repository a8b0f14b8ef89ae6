"""`rungproof doctor`: what this machine lacks for a campaign, before anything is started."""

import argparse
import json
import sys
from pathlib import Path

from rungproof.cli import need
from rungproof.cli.words import add, clean, console, table
from rungproof.config.base import read_yaml
from rungproof.config.load import load, read_run
from rungproof.measure.hosts import nvidia, xpu_smi
from rungproof.measure.hosts.devices import devices
from rungproof.measure.hosts.doctor import Check, Machine, Room, Wanted, examine, together
from rungproof.measure.models.probing import find_interpreter
from rungproof.measure.serving import lock_path
from rungproof.plan import missing
from rungproof.plan.estimate import to_build
from rungproof.plan.given import not_placed
from rungproof.plan.machine import flags_of_study, flags_without, processor_flags
from rungproof.plan.resolve import resolve
from rungproof.records.codec import plain
from rungproof.records.errors import SetupError
from rungproof.records.plan import Plan

WORDS = {"ok": "ok", "warn": "WARNING", "fail": "LACKING"}
PROBED = "packaging"  # a small package that every index of Python packages has


def add_options(to: argparse.ArgumentParser) -> None:
    """The options of doctor."""
    to.add_argument(
        "campaign",
        nargs="?",
        default="campaign_v2",
        metavar="CAMPAIGN",
        help="file under config/campaigns/, without .yaml (default: %(default)s)",
    )
    to.add_argument("--host", default="", metavar="HOST", help="host profile instead of the campaign's own")
    to.add_argument("--root", type=Path, default=Path(), metavar="DIR", help="the checkout (default: this folder)")
    to.add_argument("--json", action="store_true", help="the checks as JSON on standard output")


def run(options: argparse.Namespace) -> int:
    """Examine this machine; exit code 1 where something is lacking, 0 with warnings alone."""
    checks, name = examined(options.root, options.campaign, options.host)
    good = not any(check.state == "fail" for check in checks)
    if options.json:
        print(
            json.dumps(
                {"campaign": options.campaign, "host": name, "ok": good, "checks": plain(checks)},
                indent=2,
                sort_keys=True,
            )
        )
        return 0 if good else 1
    rows = table(
        f"campaign {options.campaign} on host profile {name}",
        {"check": False, "": False, "found": False, "needed": False},
    )
    for check in checks:
        add(rows, check.name, WORDS[check.state], check.found, check.needed or "-")
    console().print(rows)
    for check in checks:
        if check.fix:
            print(clean(f"{check.name}: {check.fix}"))
    print("Nothing is lacking." if good else "Something is lacking: see above. Nothing was started or changed.")
    return 0 if good else 1


def examined(root: Path, campaign: str, host: str) -> tuple[list[Check], str]:
    """The checks for a campaign of the checkout `root`, and the host profile's name; host "": that of the configuration."""
    machine = Machine(devices=tuple(devices(nvml=nvidia.library(), xpu=xpu_smi.asker())), python=sys.executable)
    settings = read_run(read_yaml(root / "config/config.yaml"))
    loaded = load(root, campaign, host or settings.host)
    results, build = root / settings.results, root / settings.build
    plan = resolve(
        loaded, flags_of_study(results / loaded.folder, flags_without(processor_flags(), settings.lacks), loaded.needs)
    )
    todo = missing.plan_run(plan, results / plan.study, missing.next_run(results.glob("*")), (), "")
    costs, profile = loaded.host.costs, loaded.host
    absent = not_placed(loaded, plan, build)
    lacking = [folder for folder in to_build(plan, build) if folder not in absent]
    rooms = [Room(results, need.results_bytes(todo), "records")]
    if lacking:
        rooms.append(Room(build, int(costs.setup_gb * 1e9), "environments and models"))
    wanted = Wanted(
        lock=lock_path(profile.lock), rooms=together(rooms), memory_bytes=int(costs.memory_gb * 1e9) if costs.memory_gb else None,
        index=PROBED if lacking else "", devices=tuple(profile.devices), holders=tuple(profile.holders), expect=dict(profile.expect),
        kernel_log=bool(profile.kernel_fault_lines), engines=_engines(plan), programs=_programs(plan), real=not plan.simulated,
    )  # fmt: skip
    return [*_processor(plan), *_given(absent), *_setup(lacking), *examine(wanted, machine)], loaded.host_name


def _engines(plan: Plan) -> dict[tuple[str, ...], tuple[str, ...]]:
    """The host's container engine with the images of all arms that run in one; {} where none does."""
    images = [str(arm.launch["container"]["image"]) for arm in plan.arms if arm.launch["launcher"] == "container"]
    return {tuple(plan.limits["container"]["command"]): tuple(dict.fromkeys(images))} if images else {}


def _programs(plan: Plan) -> tuple[str, ...]:
    """Programs that lanes start as a process and that no environment of ours holds."""
    mine = (arm.launch for arm in plan.arms if arm.engine == "llama.cpp" and arm.launch["launcher"] == "process")
    return tuple(dict.fromkeys(str(launch.get("program") or "llama-server") for launch in mine))


def _processor(plan: Plan) -> list[Check]:
    """Arms that this processor cannot serve."""
    return [
        Check(
            f"processor for {one.arm}", "warn", f"lacks {', '.join(one.lacks)}", f"lane {one.lane}",
            f"This arm is left out{f'; {one.instead} is measured instead' if one.instead else ''}. Another machine can serve it.",
        )
        for one in plan.unavailable
    ]  # fmt: skip


def _given(absent: dict[str, str]) -> list[Check]:
    """Models and environments of the user's own that were not shown yet."""
    return [
        Check(told.partition(":")[0], "fail", "not found", Path(folder).name, told.partition(": ")[2])
        for folder, told in absent.items()
    ]


def _setup(lacking: list[str]) -> list[Check]:
    """What is still to be made, and the interpreter that this needs."""
    if not lacking:
        return [Check("environments and models", "ok", "made")]
    made = [
        Check(
            "environments and models",
            "ok",
            f"to be made by the next call: {', '.join(Path(one).name for one in lacking)}",
        )
    ]
    if any("/envs/" in one for one in lacking):
        try:
            made.append(Check("interpreter for servers", "ok", find_interpreter(None)))
        except SetupError as error:
            first, *_, last = str(error).splitlines()
            made.append(Check("interpreter for servers", "fail", first, "Python 3.11 with venv", last))
    return made
