# Functions behind inputs and parameters of the rules: which files a job waits for, and what of the plan it is given.
# Needs: common.smk. Makes: nothing.


def campaign_of(study):
    """The campaign behind a results folder's name on this call's host."""
    name = study.partition("@")[
        0
    ]  # no other file is read: a campaign that is not filled in yet must not stop this one
    if name in CAMPAIGNS and loaded(name).folder == study:
        return name
    fail(
        f"{RESULTS}/{study}: no campaign writes there on this host; expected NAME, or NAME@HOST where the host is not the campaign's "
        f"own, with a NAME of {', '.join(CAMPAIGNS)}"
    )


def published_study():
    """Results folder of the campaign that `publish` was asked for."""
    if RUN_CONFIG.campaign not in CAMPAIGNS:
        fail(
            f"--config campaign={RUN_CONFIG.campaign}: no such campaign; config/campaigns/ holds {', '.join(CAMPAIGNS)}"
        )
    return loaded(RUN_CONFIG.campaign).folder


def assignment(study, item_id):
    """Where the evidence of an item lies; an item that the campaign does not have ends the call."""
    found = {a.item.id: a for a in todo(campaign_of(study)).assignments}
    if item_id not in found:
        fail(
            f"{RESULTS}/{study}: the campaign has no item {item_id}; it has {', '.join(found)}"
        )
    return found[item_id]


def new_items(study, session):
    """Items that a new session of this run measures, in order; none for a session of an earlier run."""
    return dict(todo(campaign_of(study)).new).get(session, ())


def arm_of(study, session):
    return plan(campaign_of(study)).arm(split_session(session)[1])


def of_study(study, *parts):
    return "/".join((RESULTS, study, *parts))


def judged_files(study, item_id):
    """Judged records of one item, newest first."""
    return [of_study(study, path) for path in assignment(study, item_id).judged()]


def used_items(study):
    """Items that have, or will have, a record."""
    return [a.item for a in todo(campaign_of(study)).assignments if a.sessions]


@cache
def sessions_in_order():
    """(study, session) of every new session that this call needs; files may be asked for instead of campaigns."""
    order = []
    for name in ASKED:
        folder = of_study(loaded(name).folder, "")
        files = [
            arg.removeprefix(folder) for arg in sys.argv[1:] if arg.startswith(folder)
        ]
        whole = name in sys.argv[1:] or not files
        needed = sessions_needed(plan(name), todo(name), ["page"] if whole else files)
        order += [(loaded(name).folder, session) for session in needed]
    return order


def session_before(wildcards):
    """closed.json of the session before this one in the call: two servers never share the machine."""
    order = sessions_in_order()
    at = order.index((wildcards.study, wildcards.session))
    return (
        [of_study(order[at - 1][0], "sessions", order[at - 1][1], "closed.json")]
        if at
        else []
    )


def base_gate_file(wildcards):
    """The base-repeat verdict that an arm with an oracle waits for, where the campaign plans one."""
    arm = arm_of(wildcards.study, wildcards.session)
    if arm.oracle == arm.name or not base_gates(wildcards.study, arm.oracle):
        return []
    return [of_study(wildcards.study, "runs", RUN, f"base-gate.{arm.oracle}.json")]


def base_gates(study, base):
    the_plan = plan(campaign_of(study))
    return [
        g
        for g in the_plan.gates
        if g.kind == "base_repeat" and the_plan.item(g.subject[0]).arm == base
    ]


def base_gate_sessions(wildcards):
    """Sessions of each side of the gate, newest first."""
    gate = base_gates(wildcards.study, wildcards.arm)[0]
    work = todo(campaign_of(wildcards.study))
    return {
        key: list(work.of(key).sessions) for key in (gate.subject[0], gate.oracle[0])
    }


def expected_times(campaign):
    costs = loaded(campaign).host.costs
    return expected_seconds(plan(campaign), todo(campaign), costs, FLAGS)


def step_before(wildcards):
    """The record that this attempt follows: the attempt before it, or the first canary."""
    names = [
        f"{i.workload}.{i.item}" for i in new_items(wildcards.study, wildcards.session)
    ]
    at = names.index(f"{wildcards.workload}.{wildcards.item}")
    last = f"attempts/{names[at - 1]}.json" if at else "canary_before.json"
    return of_study(wildcards.study, "sessions", wildcards.session, last)


def last_attempt(wildcards):
    last = new_items(wildcards.study, wildcards.session)[-1]
    return of_study(
        wildcards.study,
        "sessions",
        wildcards.session,
        "attempts",
        f"{last.workload}.{last.item}.json",
    )


def item_of(wildcards):
    _, arm, replicate = split_session(wildcards.session)
    return f"{arm}.{replicate}/{wildcards.workload}/{wildcards.item}"


def gate_of(wildcards):
    return {g.id: g for g in plan(campaign_of(wildcards.study)).gates}[wildcards.gate]


def verdict_files(study):
    """Verdicts of all gates, in the order of the plan; a comparison without a record on one side has none, and so no verdict."""
    used = {item.id for item in used_items(study)}
    return [
        of_study(study, "verdicts", f"{gate.id}.json")
        for gate in plan(campaign_of(study)).gates
        if gate.judgeable(used)
    ]


def campaign_files(name):
    """Everything that a campaign's target asks for."""
    study, work = loaded(name).folder, todo(name)
    accepted = [
        of_study(study, "accepted", a.item.seat, a.item.workload, f"{a.item.item}.json")
        for a in work.assignments
        if a.sessions
    ]
    again = [
        of_study(
            study,
            "runs",
            RUN,
            "remeasured",
            f"{a.item.seat}.{a.item.workload}.{a.item.item}.txt",
        )
        for a in work.assignments
        if a.item.id in work.remeasured
    ]
    tables = [of_study(study, "tables", f"{table}.parquet") for table in TABLES]
    return accepted + again + tables + [of_study(study, "page", "index.html")]


def print_closing(whole):
    """Counts and the page of each campaign asked for; after a failed call they may be those of the last page made."""
    for name in ASKED:
        text = closing(Path(of_study(loaded(name).folder)))
        print(
            text if whole or not text else f"as of the last page made:\n{text}",
            file=sys.stderr,
        )


def model_parts(wildcards):
    """The environment that makes the model, and the model it starts from, if any; nothing for one that was given."""
    for name in dict.fromkeys((*ASKED, *CAMPAIGNS)):
        the_loaded = loaded(name)
        if wildcards.name in the_loaded.models and not the_loaded.simulated:
            model = the_loaded.models[wildcards.name]
            if model.files:
                return {}
            lanes = [
                lane
                for lane in the_loaded.lanes.values()
                if wildcards.name == lane.model
                or model_is_source(the_loaded, wildcards.name, lane.model)
            ]
            environment = builds.build_folder(
                BUILD,
                "envs",
                lanes[0].environment,
                builds.environment_digest(ROOT, lanes[0].environment),
            )
            source = (
                [
                    builds.build_folder(
                        BUILD,
                        "models",
                        model.source,
                        builds.model_digest(ROOT, the_loaded.models, model.source),
                    )
                    + ".ready"
                ]
                if model.source
                else []
            )
            return {"environment": environment + ".ready", "source": source}
    raise WorkflowError(f"{wildcards.name}: no lane of any campaign uses this model")


def model_section(wildcards):
    return next(
        loaded(c).models[wildcards.name]
        for c in dict.fromkeys((*ASKED, *CAMPAIGNS))
        if wildcards.name in loaded(c).models
    )


def model_is_source(the_loaded, name, of):
    source = the_loaded.models[of].source
    return source == name or (
        source is not None and model_is_source(the_loaded, name, source)
    )


def lane_files(arm):
    """Ready marks of an arm's environment and model; none on the simulated server."""
    if arm.engine == "simulated":
        return []
    launch = arm.launch
    return [
        builds.build_folder(
            BUILD, "envs", arm.environment, launch["environment_sha256"]
        )
        + ".ready",
        builds.build_folder(BUILD, "models", arm.model, launch["model_sha256"])
        + ".ready",
    ]
