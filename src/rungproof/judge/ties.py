"""Tie margins: how far the two likeliest tokens lay apart where an output left its oracle, and at ordinary positions.

The probe that measures them (judge/margins.py) is a run of its own: asking for log probabilities may change what a server does.
"""

from collections.abc import Iterator, Mapping

from rungproof.judge.points import Findings
from rungproof.judge.stats import median
from rungproof.records.formats import Divergence, Judged
from rungproof.records.plan import Item
from rungproof.records.requests import prompt_key
from rungproof.records.summary import MarginRow


def margin_rows(findings: Findings) -> tuple[MarginRow, ...]:
    """One row for each probed prompt and place at which a rung of the same arm and suite first left its oracle there."""
    made: dict[tuple[str, str, str, int], MarginRow] = {}
    for item in findings.items:
        probe = findings.used(item.id) if item.spec["kind"] == "probe" else None
        if probe is not None and probe.state == "accepted":
            for row in _rows(findings, item, probe):
                made.setdefault((row.arm, row.gate, row.site, row.index), row)
    return tuple(made.values())


def _rows(findings: Findings, item: Item, probe: Judged) -> Iterator[MarginRow]:
    """Rows of one probe. Ordinary positions are all of the probe's but those at which anything broke."""
    probed = {r.key: r for r in probe.requests}
    broken: list[tuple[str, Divergence, Mapping[str, tuple[int, ...]]]] = []
    for gate in findings.gates:
        verdict = findings.verdicts.get(gate.id) if gate.kind == "ladder_rung" else None
        judged = findings.used(gate.subject[0]) if verdict else None
        if verdict and judged and judged.arm == item.arm and judged.spec["suite_sha256"] == item.spec["suite_sha256"]:
            oracle = {r.key: r.token_ids for r in judged.requests if r.batch.startswith("oracle-")}
            broken += [(gate.id, d, oracle) for d in verdict.divergences if prompt_key(d.site) in probed]
    places = {(prompt_key(d.site), d.index) for _, d, _ in broken}
    ordinary = [
        m for r in probed.values() for i, m in enumerate(r.margins) if m is not None and (r.key, i) not in places
    ]
    usual = median(ordinary) if ordinary else None
    for gate_id, d, truth in broken:
        site = prompt_key(d.site)
        r = probed[site]
        same = r.token_ids[: d.index] == truth.get(site, ())[: d.index]
        margin = r.margins[d.index] if same and d.index < len(r.margins) else None
        closer = sum(m <= margin for m in ordinary) / len(ordinary) if margin is not None and ordinary else None
        note = "" if same else "the probe's own answer had left the oracle before"
        yield MarginRow(item.arm, gate_id, site, d.batch, d.index, margin, usual, len(ordinary), closer, note)
