"""What a pack says besides its page: the oracle's tokens, what its publisher signed, how far it is proven. Each is made again and compared."""

from collections.abc import Collection, Mapping
from typing import Any

from rungproof.judge.checks.found import Found, differences, level_of
from rungproof.judge.claims import measurement, provenance
from rungproof.judge.evidence import Read
from rungproof.judge.oracle import tokens
from rungproof.judge.recompute import Again
from rungproof.judge.replay import claimed_items
from rungproof.judge.standing import standing
from rungproof.records.codec import load_json, parse, plain
from rungproof.records.standing import ProofLine, Standing

# Files that a provenance follows from.
BEHIND = ("plan.json", "runs/", "sessions/", "reducer/")


def check_statements(read: Read, names: Collection[str], again: Again, proof: Mapping[str, Any], found: Found) -> None:
    """oracle/tokens.json, the publisher's statements and page/standing.json of a pack, against what was recomputed.

    proof: what L1 learnt (verify.Proof). Raises EvidenceError for a file that is none of ours.
    """
    found.need("L2", "oracle items", "signed claims")
    made = tokens(again.plan, [one for lying in again.judged.values() for _, one in lying])
    data = read("oracle/tokens.json")
    if data is None:
        found.fail("L2", "oracle/tokens.json: there is no such file")
    else:
        found.count("oracle items", len(made["items"]))
        for path, words in differences(load_json(data, "oracle/tokens.json"), made):
            found.fail(level_of(path), f"oracle/tokens.json: {path}: {words}")
    own = [one for one in proof["lines"] if one["keyid"] == proof["publisher"]]
    made_from = {n: read(n) or b"" for n in names if n.startswith(BEHIND) and not n.endswith((".gz", ".log"))}
    for one in own:
        if one["kind"] == "measurement":
            _claims(one["predicate"], again, found)
        elif one["kind"] == "provenance":
            for path, words in differences(one["predicate"], provenance(made_from, again.plan)):
                found.fail("L2", f"proof.intoto.jsonl: provenance: {path}: {words}")
    made_standing = _standing(read, again, proof, found)
    pages = [one for one in own if one["kind"] == "page"]
    for page in pages[-1:]:  # those before it spoke of pages that are gone
        for path, words in differences(page["predicate"], _of_page(made_standing)):
            found.fail("L2", f"proof.intoto.jsonl: page: {path}: {words}")


def _of_page(made: Standing) -> dict[str, Any]:
    """What the publisher signs about a page besides its digest."""
    return {"state": made.state, "log_head": made.log_head, "pack": {"sha256": made.pack}}


def _claims(said: Mapping[str, Any], again: Again, found: Found) -> None:
    """The signed predicate is the one that the recomputed summary gives; what is said besides is not looked at."""
    claims = measurement(again.summary)
    found.count("signed claims", len(claims["claims"]))
    for key, value in claims.items():
        for path, words in differences(said.get(key), plain(value), f"/{key}"):
            found.fail(level_of(path), f"proof.intoto.jsonl: measurement: {path}: {words}")


def _standing(read: Read, again: Again, proof: Mapping[str, Any], found: Found) -> Standing:
    """The standing as it is. The state on the page is the one that the lines give; what the log says (head, dates, what it
    supersedes, how it ended) is the log's."""
    data = read("page/standing.json")
    said = parse(Standing, data, "page/standing.json") if data is not None else Standing()
    names = ("kind", "keyid", "holds", "subject", "predicate")
    lines = [ProofLine(**{name: one[name] for name in names}) for one in proof["lines"] if one["kind"] != "page"]
    claimed = claimed_items(again.plan, again.summary.points)
    made = standing(lines, proof["pack"], proof["publisher"], claimed, said)
    if data is None:
        found.note("page/standing.json: there is none, so no state is claimed")
        return made
    found.need("L2", "standing")
    found.count("standing")
    for path, words in differences(plain(said), plain(made)):
        found.fail("L2", f"page/standing.json: {path}: {words}")
    return made
