"""What a publisher signs: every point of a summary with its state, the withheld ones among them, and what it was made from.

docs/predicate.md tells the fields.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rungproof.records.codec import parse, sha256
from rungproof.records.formats import Closed, Server
from rungproof.records.plan import Plan
from rungproof.records.proof import BUILD_TYPE, BUILDER, exact
from rungproof.records.summary import Summary

REDUCER = "reducer/"
POINT = ("id", "state", "value", "unit", "k", "n", "low", "high", "gates", "evidence", "session")
HEADLINE = ("arm", "state", "center", "unit", "k", "n", "low", "high", "kind")
RATIO = ("arm", "base", "value", "low", "high", "kind", "claim")


def measurement(summary: Summary) -> dict[str, Any]:
    """The predicate of a measurement statement: numbers as decimal strings, counts as integers."""
    states = Counter(point.state for point in summary.points)
    made = {
        "campaign": summary.campaign,
        "host": summary.host,
        "simulated": summary.simulated,
        "plan": {"sha256": summary.lock_sha256},
        "registered": all(session.registered for session in summary.sessions) and bool(summary.sessions),
        "lossless_claim": summary.lossless_claim,
        "states": dict(sorted(states.items())),
        "claims": [{name: getattr(point, name) for name in POINT} for point in summary.points],
        "headlines": [{name: getattr(row, name) for name in HEADLINE} for row in summary.headlines],
        "ratios": [{name: getattr(row, name) for name in RATIO} for row in summary.ratios],
        "verdicts": [{name: getattr(row, name) for name in ("gate", "state", "k", "n")} for row in summary.verdicts],
    }
    held: dict[str, Any] = exact(made)
    return held


def provenance(made: Mapping[str, bytes], plan: Plan) -> dict[str, Any]:
    """SLSA provenance v1 of the evidence, without a level: whoever measured says so, nobody else watched.

    made: path -> bytes of a pack, of which plan, runs, servers, closings and the reducer are looked at. Raises EvidenceError.
    """
    began = [parse(Server, data, path).at for path, data in made.items() if path.endswith("/server.json")]
    ended = [parse(Closed, data, path).at for path, data in made.items() if path.endswith("/closed.json")]
    runs = sorted({path.split("/")[1] for path in made if path.startswith("runs/")})
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {"campaign": plan.campaign, "host": plan.host},
            "internalParameters": {"plan": {"sha256": sha256(made["plan.json"])}, "runs": runs},
            "resolvedDependencies": [
                *_needed("environment", {a.environment: a.launch["environment_sha256"] for a in plan.arms}, plan),
                *_needed("model", {a.model: a.launch["model_sha256"] for a in plan.arms}, plan),
                {"name": "reducer", "digest": {"sha256": reducer_digest(made)}},
            ],
        },
        "runDetails": {
            "builder": {"id": BUILDER},
            "metadata": {"startedOn": min(began, default=""), "finishedOn": max(ended, default="")},
        },
    }


def _needed(kind: str, digests: Mapping[str, str], plan: Plan) -> list[dict[str, Any]]:
    """Locks of environments, recipes of models, by digest; the simulated server has neither."""
    if plan.simulated:
        return []
    return [{"name": f"{kind} {name}", "digest": {"sha256": digest}} for name, digest in sorted(digests.items())]


def reducer_digest(made: Mapping[str, bytes]) -> str:
    """sha256 over the manifest's lines of everything below reducer/, with that prefix cut."""
    lines = [
        f"{sha256(data)}  {p.removeprefix(REDUCER)}\n" for p, data in sorted(made.items()) if p.startswith(REDUCER)
    ]
    return sha256("".join(lines).encode())
