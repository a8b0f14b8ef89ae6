# The summary of a campaign, its tables and its page: pure functions of judged records, verdicts and session files.
# Needs: judged/, verdicts/. Makes: summary.json, tables/*.parquet, page/.
# `publish` makes a pack from what lies there and starts nothing else: it refuses results that are not up to date.

TABLES = ["campaigns", "sessions", "requests", "tokens", "rungs", "passes", "verdicts"]


rule summary:
    input:
        judged=lambda wildcards: [
            path
            for item in used_items(wildcards.study)
            for path in judged_files(wildcards.study, item.id)
        ],
        verdicts=lambda wildcards: verdict_files(wildcards.study),
    output:
        summary="<results>/{study}/summary.json",
        plan="<results>/{study}/plan.json",
    log:
        "<results>/{study}/logs/summary.log",
    conda:
        "../../envs/orchestrator.yaml"
    params:
        pages=PAGES,
        sessions=lambda wildcards: sorted(
            path.parent.name
            for path in Path(of_study(wildcards.study, "sessions")).glob(
                "*/closed.json"
            )
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
        summary="<results>/{study}/summary.json",
        judged=lambda wildcards: [
            path
            for item in used_items(wildcards.study)
            for path in judged_files(wildcards.study, item.id)
        ],
    output:
        [
            report(
                f"<results>/{{study}}/tables/{table}.parquet",
                caption="../report/tables.rst",
                category="{study}",
                labels={"what": f"table {table}", "file": "parquet"},
            )
            for table in TABLES
        ],
    log:
        "<results>/{study}/logs/tables.log",
    conda:
        "../../envs/orchestrator.yaml"
    params:
        pages=PAGES,
    script:
        "../scripts/tables.py"


rule page:
    input:
        summary="<results>/{study}/summary.json",
    output:
        page=report(
            "<results>/{study}/page/index.html",
            caption="../report/page.rst",
            category="{study}",
            labels={"what": "page", "file": "html"},
        ),
        csv=report(
            "<results>/{study}/page/points.csv",
            caption="../report/points.rst",
            category="{study}",
            labels={"what": "points", "file": "csv"},
        ),
        json=report(
            "<results>/{study}/page/points.json",
            caption="../report/points.rst",
            category="{study}",
            labels={"what": "points", "file": "json"},
        ),
    log:
        "<results>/{study}/logs/page.log",
    conda:
        "../../envs/orchestrator.yaml"
    params:
        pages=PAGES,
    script:
        "../scripts/page.py"


rule publish:
    log:
        f"{BUILD}/logs/publish.log",
    conda:
        "../../envs/orchestrator.yaml"
    params:
        root=str(ROOT),
        study=lambda wildcards: of_study(published_study()),
        reports=RUN_CONFIG.reports,
        sign=RUN_CONFIG.sign,
        key=RUN_CONFIG.key,
        reason=RUN_CONFIG.reason,
    script:
        "../scripts/publish.py"
