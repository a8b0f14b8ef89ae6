"""From configuration to the resolved plan: launches, items, gates, all hashed without a path of any machine."""

from typing import Any

from rungproof.config.load import Loaded
from rungproof.config.sections import Arm, Depth, Ladder, Session, Strict
from rungproof.config.suites import CanarySuite, LadderSuite, LongSuite, StrictSuite, TieSuite
from rungproof.config.workloads import Probe, Short
from rungproof.plan.builds import environment_digest, model_digest
from rungproof.plan.drafts import refuse_hidden_drafts
from rungproof.plan.gates import gates_of
from rungproof.records.codec import canonical, digest
from rungproof.records.errors import ConfigError
from rungproof.records.plan import ArmPlan, Gate, Item, Plan, Unavailable
from rungproof.records.requests import sampling

# Fixed before anything is measured, and in the plan so that a change of it is a change of the plan.
STOPPING = {
    "item": "An item is measured until it has one sound record. A withheld one is a result and is not measured again by itself.",
    "record in use": "The newest sound record of an item counts, else its newest; all others stay and are shown.",
    "again on purpose": "An item that is measured again on purpose keeps its point withheld once a sound record of it was withheld.",
    "passes": "As many passes a rung as its `passes` says, every one of them kept; `shown` and `exact` of its rules say which counts.",
    "servers": "As many fresh servers an arm as it has seats; a conditional seat only where the spread gate of its arm asks for it.",
    "base repeat": "Arms that depend on a base are left out where the base does not repeat itself.",
}


def resolve(loaded: Loaded, flags: frozenset[str]) -> Plan:
    """The plan of a loaded campaign on a processor with these flags (/proc/cpuinfo; the simulated server needs none).

    Raises ConfigError, also for two arms that would launch the same server and where no arm can be served.
    """
    campaign, host = loaded.campaign, loaded.host
    refuse_hidden_drafts(loaded)
    unavailable = _unavailable(loaded, flags)
    out = {u.arm for u in unavailable} | {
        n for n, a in campaign.arms.items() if a.instead_of and a.instead_of not in {u.arm for u in unavailable}
    }
    arms = tuple(_arm(loaded, name, arm) for name, arm in campaign.arms.items() if name not in out)
    if not arms:
        lacks = ", ".join(sorted({flag for u in unavailable for flag in u.lacks}))
        raise ConfigError(
            f"config/campaigns/{loaded.name}.yaml: this processor can serve none of its arms; it lacks {lacks}. Use another host or add an arm."
        )
    _refuse_equal_arms(loaded, arms)
    sessions, thirds = _with_thirds(loaded, [s for s in campaign.sessions if s.arm not in out])
    items = tuple(
        item for session in sessions for item in _items(loaded, session.arm, session.replicate, session.workloads)
    )
    canaries = {arm.canary: _canary(loaded, arm.canary) for arm in arms}
    return Plan(
        campaign=loaded.name,
        study=loaded.folder,
        title=campaign.title,
        purpose=" ".join(campaign.purpose.split()),
        host=loaded.host_name,
        host_title=host.title,
        simulated=loaded.simulated,
        seed=campaign.seed,
        canaries=canaries,
        arms=arms,
        items=items,
        seats=tuple(f"{s.arm}.{s.replicate}" for s in sessions),
        gates=gates_of(arms, items, _spread_limits(loaded)),
        suites=tuple(
            _suite_row(loaded, name)
            for name, suite in sorted(loaded.suites.items())
            if suite.kind != "canary" or name in canaries
        ),
        unavailable=unavailable,
        conditional=thirds,
        stopping=STOPPING,
        limits={
            "ready_deadline_s": host.ready_deadline_s,
            "stop_grace_s": host.stop_grace_s,
            "request_deadline_s": host.request_deadline_s,
            "cell_deadline_s": host.cell_deadline_s,
            "idle_s": host.idle_s,
            "fault_lines": list(host.fault_lines),
            "lock": host.lock,
            "devices": list(host.devices),
            "holders": list(host.holders),
            "expect": dict(host.expect),
            "kernel_fault_lines": list(host.kernel_fault_lines),
            **({"peak": host.peak.model_dump()} if host.peak else {}),
            "container": host.container.model_dump() if host.container else {"command": [], "arguments": []},
        },
    )


def as_text(record: Plan | Item | Gate) -> str:
    """A plan, item or gate as one line of canonical JSON, the form in which a workflow hands it to a job."""
    return canonical(record).decode().rstrip("\n")


def prompts_of(loaded: Loaded, workload: str) -> dict[str, str]:
    """Key -> text of a workload's prompts, in order (for a depth: the whole texts). Raises ConfigError."""
    work = loaded.workloads[workload]
    suite = loaded.suites[work.suite]
    if isinstance(suite, StrictSuite):
        return {prompt.id: prompt.text for prompt in suite.prompts}
    if isinstance(suite, LongSuite):
        folder = loaded.root / "config/suites"
        return {text.id: (folder / text.file).read_text(encoding="utf-8") for text in suite.texts}
    if isinstance(suite, LadderSuite | TieSuite) and isinstance(work, Ladder | Probe):
        count = work.rungs[-1] // work.copies if isinstance(work, Ladder) else work.prompts
        return {f"p{i:02d}": text for i, text in enumerate(suite.unique(count))}
    raise ConfigError(
        f"config/suites/{work.suite}.yaml: kind {suite.kind!r} does not fit workload {workload!r} of kind {work.kind!r}"
    )


def classes_of(loaded: Loaded, workload: str) -> dict[str, str]:
    """Key -> class of a strict or depth suite's prompts; empty for a ladder."""
    suite = loaded.suites[loaded.workloads[workload].suite]
    if isinstance(suite, StrictSuite):
        return {prompt.id: prompt.class_ for prompt in suite.prompts}
    return {text.id: text.class_ for text in suite.texts} if isinstance(suite, LongSuite) else {}


def _spread_limits(loaded: Loaded) -> dict[str, float]:
    """Strict workloads that limit the spread of two fresh servers."""
    limits = {name: work.spread_limit for name, work in loaded.workloads.items() if isinstance(work, Strict)}
    return {name: limit for name, limit in limits.items() if limit is not None}


def _with_thirds(loaded: Loaded, sessions: list[Session]) -> tuple[list[Session], tuple[str, ...]]:
    """The sessions, and after the second of an arm whose strict suite limits the spread a third with that suite alone; with the
    seats that are measured only where the spread of the two passes the limit."""
    limited, made, seats = _spread_limits(loaded), list(sessions), []
    for arm in dict.fromkeys(s.arm for s in sessions):
        mine = [s for s in sessions if s.arm == arm]
        works = [w for w in mine[0].workloads if w in limited and all(w in s.workloads for s in mine)]
        if len(mine) == 2 and works:
            third = Session(
                arm=arm, replicate=next(c for c in "abcd" if c not in {s.replicate for s in mine}), workloads=works
            )
            made.insert(made.index(mine[1]) + 1, third)
            seats.append(f"{arm}.{third.replicate}")
    return made, tuple(seats)


def _unavailable(loaded: Loaded, flags: frozenset[str]) -> tuple[Unavailable, ...]:
    if loaded.simulated:
        return ()
    lacking = {
        name: tuple(f for f in loaded.lanes[arm.lane].needs if f not in flags)
        for name, arm in loaded.campaign.arms.items()
    }
    stand_ins = {
        arm.instead_of: name for name, arm in loaded.campaign.arms.items() if arm.instead_of and not lacking[name]
    }
    return tuple(
        Unavailable(
            name, loaded.campaign.arms[name].title, loaded.campaign.arms[name].lane, lacks, stand_ins.get(name, "")
        )
        for name, lacks in lacking.items()
        if lacks
    )


def _arm(loaded: Loaded, name: str, arm: Arm) -> ArmPlan:
    lane = loaded.lanes[arm.lane]
    arguments: dict[str, Any] = {**lane.arguments, **loaded.host.arguments.get(arm.lane, {}), **arm.arguments}
    depth = arm.speculation.depth if arm.speculation else 0
    if arm.speculation:
        if _engine(loaded, arm.lane) not in ("vllm", "simulated"):
            raise ConfigError(
                f"config/campaigns/{loaded.name}.yaml: arms.{name}.speculation is written in vLLM's words; lane {arm.lane!r} has "
                f"engine {lane.engine!r}. Write the arguments of that engine under arms.{name}.arguments."
            )
        arguments["speculative-config"] = arm.speculation.engine_config
        if loaded.simulated:
            arguments["draft-depth"] = depth
    launch = {
        "engine": _engine(loaded, arm.lane),
        "launcher": "process" if loaded.simulated else lane.launcher,
        "host": loaded.host_name,
        "environment": "simulated" if loaded.simulated else lane.environment,
        "environment_sha256": "simulated" if loaded.simulated else environment_digest(loaded.root, lane.environment),
        "model": lane.model,
        "model_sha256": "simulated" if loaded.simulated else model_digest(loaded.root, loaded.models, lane.model),
        "arguments": arguments,
        "variables": {**lane.variables, **arm.variables},
    }
    if not loaded.simulated:  # keys that a lane does not have leave its digest as it is
        own = {
            "command": lane.command,
            "program": lane.program,
            "container": lane.container and lane.container.model_dump(exclude_none=True),
        }
        launch |= {key: value for key, value in own.items() if value}
    census = {} if loaded.simulated else {**lane.census, **arm.census}  # the simulated server prints no engine's lines
    if census:  # a lane without demands keeps the digest that it had before there were any
        launch["census"] = {key: demand.model_dump(exclude_none=True) for key, demand in census.items()}
    return ArmPlan(
        name,
        arm.title,
        arm.lane,
        lane.model,
        str(launch["environment"]),
        str(launch["engine"]),
        depth,
        arm.oracle or name,
        launch,
        digest(launch),
        loaded.canary_of(arm.lane),
        lane.relative_cost,
        " ".join(lane.note.split()),
    )


def _engine(loaded: Loaded, lane: str) -> str:
    return "simulated" if loaded.simulated else str(loaded.lanes[lane].engine)


def _canary(loaded: Loaded, name: str) -> dict[str, Any]:
    """A canary suite as a session's order holds it."""
    checks = loaded.suites[name].model_dump(by_alias=True)["checks"]
    return {"suite": name, "sampling": sampling(loaded.campaign.seed), "checks": checks}


def _refuse_equal_arms(loaded: Loaded, arms: tuple[ArmPlan, ...]) -> None:
    seen: dict[str, str] = {}
    for arm in arms:
        other = seen.setdefault(arm.launch_sha256, arm.name)
        if other != arm.name:
            raise ConfigError(
                f"config/campaigns/{loaded.name}.yaml: arms {other!r} and {arm.name!r} launch exactly the same server, so comparing "
                "them would measure nothing. Change one of them or remove it."
            )


def _items(loaded: Loaded, arm: str, replicate: str, workloads: list[str]) -> list[Item]:
    made = []
    engine = _engine(loaded, loaded.campaign.arms[arm].lane)
    for name in workloads:
        work = loaded.workloads[name]
        common = {
            "kind": work.kind,
            "suite": work.suite,
            "suite_sha256": loaded.suite_digests[work.suite],
            "sampling": sampling(loaded.campaign.seed, engine),
        }
        rules: dict[str, Any] = {"window": work.window}
        specs: dict[str, dict[str, Any]] = {}
        if isinstance(work, Strict):
            specs["suite"] = {**common, "cap": work.cap}
            rules["classes"] = classes_of(loaded, name)
        elif isinstance(work, Depth):
            specs = {str(depth): {**common, "depth": depth, "tokens": work.tokens} for depth in work.depths}
        elif isinstance(work, Short):
            sent = {"prompts": work.prompts, "repeats": work.repeats, "tokens": work.tokens}
            specs = {f"n{length}": {**common, "length": length, **sent} for length in work.lengths}
        elif isinstance(work, Probe):
            specs["margins"] = {**common, "prompts": work.prompts, "tokens": work.tokens}
        else:
            # What is off by default is not in the spec, so that a key which is new to the configuration changes no old digest.
            more: dict[str, Any] = {"stagger_ms": work.stagger_ms} if work.stagger_ms else {}
            more |= {"copies": work.copies} if work.copies > 1 else {}
            specs = {
                f"c{c}": {**common, "concurrency": c, "passes": work.passes, "tokens": work.tokens, **more}
                for c in work.rungs
            }
            rules |= {"exact": work.exact, "shown": work.shown, "min_distinct": work.min_distinct}
        rules["canary_sha256"] = loaded.suite_digests[loaded.canary_of(loaded.campaign.arms[arm].lane)]
        made += [
            Item(arm, replicate, name, item, spec, item_digest(spec, rules), rules) for item, spec in specs.items()
        ]
    return made


def item_digest(spec: dict[str, Any], rules: dict[str, Any]) -> str:
    """What a record must have been measured under: what is sent, and the rules it is judged by, so that no rule is chosen afterwards."""
    return digest({"spec": spec, "rules": rules})


def _suite_row(loaded: Loaded, name: str) -> dict[str, Any]:
    suite = loaded.suites[name]
    row: dict[str, Any] = {"id": name, "kind": suite.kind, "sha256": loaded.suite_digests[name], "source": suite.source}
    if isinstance(suite, LongSuite):
        row["texts"] = [{"id": t.id, "class": t.class_, "source": t.source, "licence": t.licence} for t in suite.texts]
    if isinstance(suite, CanarySuite) and suite.weak:
        row["weak"] = " ".join(suite.weak.split())
    return row
