"""How far a published pack is proven, and by whom: what the page says above its numbers.

Lab-measured: published by those who measured it. Recomputed: somebody with another key made every number again from the raw
bytes. Replayed: the plan was measured again and gave the same tokens. Replicated: by another key, with rates equal, too.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

State = Literal["Not published", "Lab-measured", "Recomputed", "Replayed", "Replicated"]
LineKind = Literal["provenance", "measurement", "page", "recompute", "replay", "other"]


@dataclass(frozen=True, slots=True)
class ProofLine:
    """One line of `proof.intoto.jsonl` after its signature was checked. `holds`: its signature is `keyid`'s over these bytes;
    `subject`: sha256 that it speaks of; `predicate`: what it says, untrusted."""

    kind: LineKind
    keyid: str
    holds: bool
    subject: str
    predicate: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StandingLine:
    """One line as a reader is told of it. `counts`: it moves the state, or it is the publisher's own; `says`: why, or what it found."""

    kind: LineKind
    keyid: str
    counts: bool
    says: str
    at: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """`page/standing.json`. `pack`: sha256 of the pack's manifest; `signer`: key id of the publisher, "" unsigned; `lines`: in the
    order of the file. What the log says: `log_head`, digest of its last line; `supersedes`: pack before this one; `published`: UTC;
    `ended`: that this pack stands no more, since `ended_at` (UTC), because of `reason`; `successor`: the pack in its place."""

    state: State = "Not published"
    pack: str = ""
    signer: str = ""
    signed: bool = False
    lines: tuple[StandingLine, ...] = ()
    log_head: str = ""
    supersedes: str = ""
    published: str = ""
    ended: Literal["", "superseded", "withdrawn"] = ""
    ended_at: str = ""
    reason: str = ""
    successor: str = ""
    format: Literal["rungproof.standing/1"] = "rungproof.standing/1"
