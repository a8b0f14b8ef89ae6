# Sessions of this run: one fresh server each, everything measured on it in order. No rule matches a session of an
# earlier run, so nothing can rebuild or delete its records.
# Needs: environments and models. Makes: results/<study>/runs/<run>/, results/<study>/sessions/<run>.*/.

THIS_RUN = RUN + r"\.[a-z0-9][a-z0-9_-]*\.[a-z]"


def session_before(wildcards):
    """closed.json of the session before this one in the call: two servers never share the machine."""
    order = [
        (loaded(name).folder, session)
        for name in ASKED
        for session, _ in todo(name).new
    ]
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


rule lock:
    output:
        lock=RESULTS + "/{study}/runs/{run}/campaign.lock.json",
    log:
        RESULTS + "/{study}/runs/{run}/logs/lock.log",
    wildcard_constraints:
        run=RUN,
    conda:
        "../../envs/orchestrator.yaml"
    params:
        plan=lambda wildcards: resolve.as_text(plan(campaign_of(wildcards.study))),
        sessions=lambda wildcards: {
            name: [i.id for i in items]
            for name, items in todo(campaign_of(wildcards.study)).new
        },
    script:
        "../scripts/lock.py"


rule prompts:
    input:
        lock=RESULTS + "/{study}/runs/{run}/campaign.lock.json",
        lane=lambda wildcards: lane_files(
            plan(campaign_of(wildcards.study)).arm(wildcards.arm)
        ),
    output:
        prompts=RESULTS + "/{study}/runs/{run}/prompts/{arm}.{workload}.json",
    log:
        RESULTS + "/{study}/runs/{run}/logs/prompts.{arm}.{workload}.log",
    wildcard_constraints:
        run=RUN,
    conda:
        "../../envs/orchestrator.yaml"
    params:
        root=str(ROOT),
        campaign=lambda wildcards: campaign_of(wildcards.study),
        host=RUN_CONFIG.host,
    script:
        "../scripts/prompts.py"


rule base_gate:
    input:
        closed=lambda wildcards: [
            of_study(wildcards.study, "sessions", session, "closed.json")
            for session in sorted(
                {name for names in base_gate_sessions(wildcards).values() for name in names}
            )
        ],
        lock=RESULTS + "/{study}/runs/{run}/campaign.lock.json",
    output:
        verdict=RESULTS + "/{study}/runs/{run}/base-gate.{arm}.json",
    log:
        RESULTS + "/{study}/runs/{run}/logs/base-gate.{arm}.log",
    wildcard_constraints:
        run=RUN,
    conda:
        "../../envs/orchestrator.yaml"
    params:
        gate=lambda wildcards: base_gates(wildcards.study, wildcards.arm)[0].id,
        sessions=base_gate_sessions,
        judge=JUDGE,
    script:
        "../scripts/base_gate.py"


rule server_start:
    input:
        lock=RESULTS + "/{study}/runs/" + RUN + "/campaign.lock.json",
        prompts=lambda wildcards: [
            of_study(
                wildcards.study, "runs", RUN, "prompts", f"{i.arm}.{i.workload}.json"
            )
            for i in new_items(wildcards.study, wildcards.session)
        ],
        lane=lambda wildcards: lane_files(arm_of(wildcards.study, wildcards.session)),
        before=session_before,
        gate=base_gate_file,
    output:
        server=RESULTS + "/{study}/sessions/{session}/server.json",
    log:
        RESULTS + "/{study}/sessions/{session}/logs/server_start.log",
    wildcard_constraints:
        session=THIS_RUN,
    priority: 50
    conda:
        "../../envs/orchestrator.yaml"
    threads: workflow.cores
    resources:
        accelerator=1,
    params:
        build=BUILD,
    script:
        "../scripts/server_start.py"


rule canary_before:
    input:
        server=RESULTS + "/{study}/sessions/{session}/server.json",
    output:
        canary=RESULTS + "/{study}/sessions/{session}/canary_before.json",
    log:
        RESULTS + "/{study}/sessions/{session}/logs/canary_before.log",
    wildcard_constraints:
        session=THIS_RUN,
    priority: 50
    conda:
        "../../envs/orchestrator.yaml"
    threads: workflow.cores
    resources:
        accelerator=1,
    params:
        when="before",
    script:
        "../scripts/canary.py"


def step_before(wildcards):
    """The record that this attempt follows: the attempt before it, or the first canary."""
    names = [
        f"{i.workload}.{i.item}" for i in new_items(wildcards.study, wildcards.session)
    ]
    at = names.index(f"{wildcards.workload}.{wildcards.item}")
    last = f"attempts/{names[at - 1]}.json" if at else "canary_before.json"
    return of_study(wildcards.study, "sessions", wildcards.session, last)


rule attempt:
    input:
        before=step_before,
    output:
        attempt=RESULTS + "/{study}/sessions/{session}/attempts/{workload}.{item}.json",
    log:
        RESULTS + "/{study}/sessions/{session}/logs/{workload}.{item}.log",
    benchmark:
        RESULTS + "/{study}/sessions/{session}/logs/{workload}.{item}.tsv"
    wildcard_constraints:
        session=THIS_RUN,
    priority: 50
    conda:
        "../../envs/orchestrator.yaml"
    threads: workflow.cores
    resources:
        accelerator=1,
    script:
        "../scripts/attempt.py"


def last_attempt(wildcards):
    last = new_items(wildcards.study, wildcards.session)[-1]
    return of_study(
        wildcards.study,
        "sessions",
        wildcards.session,
        "attempts",
        f"{last.workload}.{last.item}.json",
    )


rule canary_after:
    input:
        attempt=last_attempt,
    output:
        canary=RESULTS + "/{study}/sessions/{session}/canary_after.json",
    log:
        RESULTS + "/{study}/sessions/{session}/logs/canary_after.log",
    wildcard_constraints:
        session=THIS_RUN,
    priority: 50
    conda:
        "../../envs/orchestrator.yaml"
    threads: workflow.cores
    resources:
        accelerator=1,
    params:
        when="after",
    script:
        "../scripts/canary.py"


rule server_stop:
    input:
        canary=RESULTS + "/{study}/sessions/{session}/canary_after.json",
    output:
        closed=RESULTS + "/{study}/sessions/{session}/closed.json",
    log:
        RESULTS + "/{study}/sessions/{session}/logs/server_stop.log",
    wildcard_constraints:
        session=THIS_RUN,
    priority: 50
    conda:
        "../../envs/orchestrator.yaml"
    threads: workflow.cores
    resources:
        accelerator=1,
    script:
        "../scripts/server_stop.py"
