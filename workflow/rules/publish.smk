# The summary of a campaign, its tables and its page: pure functions of judged records, verdicts and session files.
# Needs: judged/, verdicts/. Makes: summary.json, tables/*.parquet, page/.

TABLES = ["campaigns", "sessions", "requests", "tokens", "rungs", "verdicts"]


def verdict_files(study):
    used = {item.id for item in used_items(study)}
    gates = [
        g.id
        for g in plan(campaign_of(study)).gates
        if g.subject[0] in used and g.oracle[0] in used
    ]
    return [of_study(study, "verdicts", f"{name}.json") for name in gates + SOUNDNESS]


rule summary:
    input:
        judged=lambda wildcards: [
            path
            for item in used_items(wildcards.study)
            for path in judged_files(wildcards.study, item.id)
        ],
        verdicts=lambda wildcards: verdict_files(wildcards.study),
    output:
        summary=RESULTS + "/{study}/summary.json",
        plan=RESULTS + "/{study}/plan.json",
    log:
        RESULTS + "/{study}/logs/summary.log",
    conda:
        "../../envs/orchestrator.yaml"
    params:
        pages=PAGES,
        sessions=lambda wildcards: sorted(
            path.parent.name
            for path in Path(of_study(wildcards.study, "sessions")).glob("*/closed.json")
        ),
        plan=lambda wildcards: resolve.as_text(plan(campaign_of(wildcards.study))),
        left_out=lambda wildcards: {
            a.item.id: a.left_out
            for a in todo(campaign_of(wildcards.study)).assignments
            if a.left_out and not a.sessions
        },
    script:
        "../scripts/summary.py"


rule tables:
    input:
        summary=RESULTS + "/{study}/summary.json",
        judged=lambda wildcards: [
            path
            for item in used_items(wildcards.study)
            for path in judged_files(wildcards.study, item.id)
        ],
    output:
        expand(RESULTS + "/{{study}}/tables/{table}.parquet", table=TABLES),
    log:
        RESULTS + "/{study}/logs/tables.log",
    conda:
        "../../envs/orchestrator.yaml"
    params:
        pages=PAGES,
    script:
        "../scripts/tables.py"


rule page:
    input:
        summary=RESULTS + "/{study}/summary.json",
    output:
        page=RESULTS + "/{study}/page/index.html",
        csv=RESULTS + "/{study}/page/points.csv",
        json=RESULTS + "/{study}/page/points.json",
    log:
        RESULTS + "/{study}/logs/page.log",
    conda:
        "../../envs/orchestrator.yaml"
    params:
        pages=PAGES,
    script:
        "../scripts/page.py"


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
        print(text if whole or not text else f"as of the last page made:\n{text}", file=sys.stderr)
