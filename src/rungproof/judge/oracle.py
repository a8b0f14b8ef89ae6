"""`oracle/tokens.json`: the token ids that were taken as truth, in one file, so that a replay can be held against them."""

from collections.abc import Iterable
from typing import Any

from rungproof.judge.gates import ORACLE
from rungproof.judge.use import in_use
from rungproof.judge.verdicts import item_id
from rungproof.records.formats import Judged
from rungproof.records.plan import Plan


def tokens(plan: Plan, records: Iterable[Judged]) -> dict[str, Any]:
    """Of every item that is the oracle of a comparison and has an accepted record under this plan: its prompts' complete
    token ids. A rung's truth is its own one-at-a-time pass; that of any other item all its requests. records: each item's newest first.
    """
    wanted = {gate.oracle[0]: gate.kind == "ladder_rung" for gate in plan.comparisons}
    asked = {item.id: (item.spec_sha256, plan.arm(item.arm).launch_sha256) for item in plan.items}
    mine = [(None, one) for one in records if (one.spec_sha256, one.launch_sha256) == asked.get(item_id(one))]
    used = {item_id(judged): judged for _, judged in in_use(mine)}
    items = {}
    for key, rung in sorted(wanted.items()):
        judged = used.get(key)
        if judged is None or judged.state != "accepted":
            continue
        items[key] = {
            "session": judged.session,
            "identity_sha256": judged.identity_sha256,
            "prompts": {
                r.key: {"token_ids": list(r.token_ids), "prompt_tokens": r.prompt_tokens}
                for r in judged.requests
                if not rung or r.batch.startswith(ORACLE)
            },
        }
    return {"format": "rungproof.oracle/1", "items": items}
