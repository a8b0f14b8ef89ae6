# From closed sessions to judged and accepted records, and from those to verdicts. Cheap, and remade when the judge changes.
# Needs: results/<study>/sessions/. Makes: sessions/*/judged/, accepted/, verdicts/.

SOUNDNESS = ["canaries", "configuration", "population", "cache_zero", "preemption_zero"]


def item_of(wildcards):
    _, arm, replicate = split_session(wildcards.session)
    return f"{arm}.{replicate}/{wildcards.workload}/{wildcards.item}"


rule judge:
    input:
        attempt=RESULTS + "/{study}/sessions/{session}/attempts/{workload}.{item}.json",
        closed=RESULTS + "/{study}/sessions/{session}/closed.json",
    output:
        judged=RESULTS + "/{study}/sessions/{session}/judged/{workload}.{item}.json",
    log:
        RESULTS + "/{study}/logs/judge/{session}.{workload}.{item}.log",
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
        accepted=RESULTS + "/{study}/accepted/{arm}.{replicate}/{workload}/{item}.json",
    log:
        RESULTS + "/{study}/logs/accept/{arm}.{replicate}.{workload}.{item}.log",
    conda:
        "../../envs/orchestrator.yaml"
    script:
        "../scripts/accept.py"


rule remeasured:
    input:
        judged=RESULTS
        + "/{study}/sessions/{run}.{arm}.{replicate}/judged/{workload}.{item}.json",
    output:
        mark=RESULTS
        + "/{study}/runs/{run}/remeasured/{arm}.{replicate}.{workload}.{item}.txt",
    log:
        RESULTS
        + "/{study}/logs/remeasured/{run}.{arm}.{replicate}.{workload}.{item}.log",
    wildcard_constraints:
        run=RUN,
    conda:
        "../../envs/orchestrator.yaml"
    script:
        "../scripts/remeasured.py"


def gate_of(wildcards):
    return {g.id: g for g in plan(campaign_of(wildcards.study)).gates}[wildcards.gate]


rule gate:
    input:
        subject=lambda wildcards: judged_files(
            wildcards.study, gate_of(wildcards).subject[0]
        ),
        oracle=lambda wildcards: judged_files(
            wildcards.study, gate_of(wildcards).oracle[0]
        ),
    output:
        verdict=RESULTS + "/{study}/verdicts/{gate}.json",
    log:
        RESULTS + "/{study}/logs/gates/{gate}.log",
    wildcard_constraints:
        gate=r"[a-z-]+\.[a-z0-9_.-]+",
    conda:
        "../../envs/orchestrator.yaml"
    params:
        judge=JUDGE,
        gate=lambda wildcards: resolve.as_text(gate_of(wildcards)),
    script:
        "../scripts/gate.py"


rule soundness:
    input:
        judged=lambda wildcards: [
            path
            for item in used_items(wildcards.study)
            for path in judged_files(wildcards.study, item.id)
        ],
    output:
        expand(RESULTS + "/{{study}}/verdicts/{kind}.json", kind=SOUNDNESS),
    log:
        RESULTS + "/{study}/logs/gates/soundness.log",
    conda:
        "../../envs/orchestrator.yaml"
    params:
        judge=JUDGE,
    script:
        "../scripts/soundness.py"
