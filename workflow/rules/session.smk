# Sessions of this run: one fresh server each, everything measured on it in order. No rule matches a session of an
# earlier run, so nothing can rebuild or delete its records.
# Needs: environments and models. Makes: results/<study>/runs/<run>/, results/<study>/sessions/<run>.*/.

THIS_RUN = RUN + r"\.[a-z0-9][a-z0-9_-]*\.[a-z]"


rule lock:
    output:
        lock="<results>/{study}/runs/{run}/campaign.lock.json",
    log:
        "<results>/{study}/runs/{run}/logs/lock.log",
    wildcard_constraints:
        run=RUN,
    conda:
        "../../envs/orchestrator.yaml"
    params:
        plan=lambda wildcards: resolve.as_text(plan(campaign_of(wildcards.study))),
        expected_s=lambda wildcards: expected_times(campaign_of(wildcards.study)),
    script:
        "../scripts/lock.py"


rule prompts:
    input:
        lock="<results>/{study}/runs/{run}/campaign.lock.json",
        lane=lambda wildcards: lane_files(
            plan(campaign_of(wildcards.study)).arm(wildcards.arm)
        ),
    output:
        prompts="<results>/{study}/runs/{run}/prompts/{arm}.{workload}.json",
    log:
        "<results>/{study}/runs/{run}/logs/prompts.{arm}.{workload}.log",
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
                {
                    name
                    for names in base_gate_sessions(wildcards).values()
                    for name in names
                }
            )
        ],
        lock="<results>/{study}/runs/{run}/campaign.lock.json",
    output:
        verdict="<results>/{study}/runs/{run}/base-gate.{arm}.json",
    log:
        "<results>/{study}/runs/{run}/logs/base-gate.{arm}.log",
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
        lock=f"<results>/{{study}}/runs/{RUN}/campaign.lock.json",
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
        server="<results>/{study}/sessions/{session}/server.json",
    log:
        "<results>/{study}/sessions/{session}/logs/server_start.log",
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
        server="<results>/{study}/sessions/{session}/server.json",
    output:
        canary="<results>/{study}/sessions/{session}/canary_before.json",
    log:
        "<results>/{study}/sessions/{session}/logs/canary_before.log",
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


rule attempt:
    input:
        before=step_before,
    output:
        attempt="<results>/{study}/sessions/{session}/attempts/{workload}.{item}.json",
    log:
        "<results>/{study}/sessions/{session}/logs/{workload}.{item}.log",
    benchmark:
        "<results>/{study}/sessions/{session}/logs/{workload}.{item}.tsv"
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


rule canary_after:
    input:
        attempt=last_attempt,
    output:
        canary="<results>/{study}/sessions/{session}/canary_after.json",
    log:
        "<results>/{study}/sessions/{session}/logs/canary_after.log",
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
        canary="<results>/{study}/sessions/{session}/canary_after.json",
    output:
        closed="<results>/{study}/sessions/{session}/closed.json",
    log:
        "<results>/{study}/sessions/{session}/logs/server_stop.log",
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
