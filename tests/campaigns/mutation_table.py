"""docs/mutations.md, made from the mutations that the tests run."""

from pathlib import Path

from campaigns.mutations import MUTATIONS, ONLY

TOP = f"""# Prove red: what was falsified, and the level at which it fails

Made from `tests/campaigns/mutations.py` by `PYTHONPATH=src:tests python -m campaigns.mutation_table`; `tests/campaigns/test_mutations.py` runs
every cell. The pack is one of a short campaign on the simulated server. Each change is made in up to four strengths: the bytes alone; both
manifests made again; all statements signed again, by another key, and their claims made to fit the summary that lies there; and
everything that follows from the evidence (records, verdicts, summary, pages, twins, oracle, statements) made again, too. In the last
two, whoever gives the publisher's key (`--trust`) is told at **L1**; the cell is the level for a reader who trusts nobody's key.

*passes*: no level of these files fails, and the last column says what the cheat has gained by it, or what finds it. Where it says
nothing else, that is: {ONLY}. —: there is no such strength, since making everything again undoes the change.

| what was done | bytes alone | manifests | signed by another | all made again | remark |
|---|---|---|---|---|---|
"""
BELOW = f"""| a replay's line is deleted | passes | passes | passes | passes | lines are in no manifest, since they grow: `--log reports/log.jsonl` fails at L1 |

A cheat who makes up everything, raw bytes included, in agreement with every clock, passes every level: no check of files can say
that a run took place. What is left then is {ONLY}, and for outputs `rungproof verify --tokens`.
"""


def table() -> str:
    """The whole file."""
    rows = []
    for name, mutation in MUTATIONS.items():
        cells = ["—" if level is None else level or "passes" for level in mutation.levels]
        remark = mutation.note or (ONLY if "passes" in cells else "")
        rows.append(f"| {name} | {' | '.join(cells)} | {remark} |\n")
    return TOP + "".join(rows) + BELOW


if __name__ == "__main__":
    Path(__file__).resolve().parents[2].joinpath("docs/mutations.md").write_text(table(), encoding="utf-8")
