# From closed sessions to judged and accepted records, and from those to verdicts. Cheap, and remade when the judge changes.
# Needs: results/<study>/sessions/. Makes: sessions/*/judged/, accepted/, verdicts/.


rule judge:
    input:
        attempt="<results>/{study}/sessions/{session}/attempts/{workload}.{item}.json",
        closed="<results>/{study}/sessions/{session}/closed.json",
    output:
        judged="<results>/{study}/sessions/{session}/judged/{workload}.{item}.json",
    log:
        "<results>/{study}/logs/judge/{session}.{workload}.{item}.log",
    conda:
        "../../envs/orchestrator.yaml"
    params:
        judge=JUDGE,
        item=lambda wildcards: resolve.as_text(
            plan(campaign_of(wildcards.study)).item(item_of(wildcards))
        ),
        launch=lambda wildcards: arm_of(
            wildcards.study, wildcards.session
        ).launch_sha256,
    script:
        "../scripts/judge.py"


rule accept:
    input:
        judged=lambda wildcards: judged_files(
            wildcards.study,
            "{0.arm}.{0.replicate}/{0.workload}/{0.item}".format(wildcards),
        ),
    output:
        accepted="<results>/{study}/accepted/{arm}.{replicate}/{workload}/{item}.json",
    log:
        "<results>/{study}/logs/accept/{arm}.{replicate}.{workload}.{item}.log",
    conda:
        "../../envs/orchestrator.yaml"
    script:
        "../scripts/accept.py"


rule remeasured:
    input:
        judged="<results>/{study}/sessions/{run}.{arm}.{replicate}/judged/{workload}.{item}.json",
    output:
        mark="<results>/{study}/runs/{run}/remeasured/{arm}.{replicate}.{workload}.{item}.txt",
    log:
        "<results>/{study}/logs/remeasured/{run}.{arm}.{replicate}.{workload}.{item}.log",
    wildcard_constraints:
        run=RUN,
    conda:
        "../../envs/orchestrator.yaml"
    script:
        "../scripts/remeasured.py"


rule gate:
    input:
        judged=lambda wildcards: [
            path
            for item_id in dict.fromkeys(
                gate_of(wildcards).subject + gate_of(wildcards).oracle
            )
            for path in judged_files(wildcards.study, item_id)
        ],
    output:
        verdict="<results>/{study}/verdicts/{gate}.json",
    log:
        "<results>/{study}/logs/gates/{gate}.log",
    wildcard_constraints:
        gate=r"[a-z-]+\.[a-z0-9_.-]+",
    conda:
        "../../envs/orchestrator.yaml"
    params:
        judge=JUDGE,
        gates=lambda wildcards: [resolve.as_text(gate_of(wildcards))],
    script:
        "../scripts/gate.py"


use rule gate as counting_gates with:
    input:
        judged=lambda wildcards: [
            path
            for item in used_items(wildcards.study)
            for path in judged_files(wildcards.study, item.id)
        ],
    output:
        expand("<results>/{{study}}/verdicts/{gate}.json", gate=COUNTS),
    log:
        "<results>/{study}/logs/gates/counting.log",
    params:
        judge=JUDGE,
        gates=lambda wildcards: [
            resolve.as_text(gate)
            for gate in plan(campaign_of(wildcards.study)).gates
            if gate.kind in COUNTS
        ],
