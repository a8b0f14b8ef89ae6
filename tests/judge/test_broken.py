"""Each gate broken once: it stops exactly the points that it guards, and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from judge.plan_kit import (
    arm,
    changed,
    depth,
    ids_of,
    ladder,
    plan,
    record,
    request,
    rung_record,
    session,
    strict,
    summary_of,
    wrong,
)
from rungproof.judge.gates import judge_gate
from rungproof.judge.summary import SessionFacts
from rungproof.records.formats import Judged, Reason
from rungproof.records.plan import COUNTS, Item, Plan
from rungproof.records.summary import Summary

CLASSES = {"s0": "x", "s1": "y", "s2": "y"}
ARMS = [arm("base"), arm("draft", "base"), arm("other")]
ITEMS = [
    *(item for seat in ("base.a", "draft.a") for item in (strict(seat, CLASSES), depth(seat, 512), depth(seat, 1024), ladder(seat, 2), ladder(seat, 4))),
    *(strict(seat, CLASSES) for seat in ("base.b", "draft.b", "other.a", "other.b")),
    *(depth("base.b", tokens) for tokens in (512, 1024)),
]  # fmt: skip
PLAN: Plan = plan(ARMS, ITEMS)


@dataclass
class Campaign:
    """Records and sessions of a sound campaign, until a test breaks one thing."""

    records: dict[str, Judged]
    sessions: dict[str, SessionFacts]

    def summary(self) -> Summary:
        """What the real code makes of it."""
        return summary_of(PLAN, list(self.records.values()), list(self.sessions.values()))


def sound_record(item: Item) -> Judged:
    """A record in which every output is the true one."""
    if item.spec["kind"] == "ladder":
        return rung_record(item, [(int(item.spec["concurrency"]), 200.0)] * 2)
    keys = CLASSES if item.spec["kind"] == "strict" else [f"t{i}" for i in range(3)]
    where = "" if item.spec["kind"] == "strict" else item.item
    return record(item, [request(f"{item.workload}-{key}", key, ids_of(key + where)) for key in keys])


@pytest.fixture
def sound() -> Campaign:
    """A campaign in which everything is as it must be."""
    records = {item.id: sound_record(item) for item in ITEMS}
    return Campaign(records, {name: session(name) for name in dict.fromkeys(j.session for j in records.values())})


def test_a_sound_campaign_qualifies_whole(sound: Campaign) -> None:
    """Nothing is stopped where nothing is broken, and every gate has a verdict."""
    summary = sound.summary()
    assert {p.state for p in summary.points} == {"qualified"}
    assert {v.state for v in summary.verdicts} == {"qualified"}
    assert summary.unjudged == ()
    assert len(summary.verdicts) == len(PLAN.gates) == 13 + len(COUNTS)
    assert summary.lossless_claim is True


def token(item: str, batch: str, key: str) -> Callable[[Campaign], None]:
    """One token of one output is another one."""

    def do(of: Campaign) -> None:
        j = of.records[item]
        ids = next(r.token_ids for r in j.requests if (r.batch, r.key) == (batch, key))
        of.records[item] = changed(j, batch, key, (*ids[:40], ids[40] + 1, *ids[41:]))

    return do


def alter(item: str, **fields: object) -> Callable[[Campaign], None]:
    """Fields of one record are others."""

    def do(of: Campaign) -> None:
        of.records[item] = replace(of.records[item], **fields)  # type: ignore[arg-type]

    return do


def image(seat_prefix: str) -> Callable[[Campaign], None]:
    """The servers of an arm ran from another image."""

    def do(of: Campaign) -> None:
        for key, j in of.records.items():
            if key.startswith(seat_prefix):
                of.records[key] = replace(j, identity_parts={**j.identity_parts, "image": "new"}, identity_sha256="new")

    return do


def suite(of: Campaign) -> None:
    """The draft arm answered another suite."""
    for key in ("draft.a/strict/suite", "draft.b/strict/suite"):
        j = of.records[key]
        of.records[key] = replace(j, spec={**j.spec, "suite_sha256": "1"})


def swapped(of: Campaign) -> None:
    """Two requests of one pass got each other's output."""
    j = of.records["draft.a/ladder/c4"]
    of.records["draft.a/ladder/c4"] = changed(
        changed(j, "pass-1", "p00", ids_of("p01")), "pass-1", "p01", ids_of("p00")
    )


def cached(of: Campaign) -> None:
    """One request was answered from a cache."""
    j = of.records["base.a/ladder/c2"]
    of.records["base.a/ladder/c2"] = replace(j, requests=(replace(j.requests[0], cached_tokens=1), *j.requests[1:]))


def canary(of: Campaign) -> None:
    """The closing canary of one server is missing."""
    of.sessions["r001.other.b"] = replace(of.sessions["r001.other.b"], after=None)


def knob(of: Campaign) -> None:
    """One variable of one server was not in force."""
    files = of.sessions["r001.draft.b"]
    off = replace(files.server.knobs[0], found=None, ok=False)
    of.sessions["r001.draft.b"] = replace(files, server=replace(files.server, knobs=(*files.server.knobs, off)))


def unsound(item: str, what: str) -> Callable[[Campaign], None]:
    """The judge refused one attempt."""
    return alter(item, state="invalid", reasons=(Reason(what, where=item),))


STRICT = {"base/strict/suite", "draft/strict/suite"}
BROKEN: dict[str, tuple[Callable[[Campaign], None], set[str], set[str]]] = {
    "a token of the base's repeat": (token("base.b/strict/suite", "strict-s1", "s1"), STRICT, {"base-repeat.base.b.strict"}),
    "a token of the draft's repeat": (
        token("draft.b/strict/suite", "strict-s1", "s1"),
        {"draft/strict/suite"},
        {"draft-oracle.draft.b.strict", "draft-repeat.draft.b.strict"},
    ),
    "a token of a rung's pass": (token("draft.a/ladder/c4", "pass-2", "p03"), {"draft/ladder/c4"}, {"rung.draft.a.ladder.c4"}),
    "a token of a rung's oracle": (token("base.a/ladder/c2", "oracle-01", "p01"), {"base/ladder/c2"}, {"rung.base.a.ladder.c2"}),
    "a token at a depth": (token("draft.a/depth/512", "depth-t1", "t1"), {"draft/depth/512"}, {"depth.draft.a.depth.512"}),
    "a token of the base's repeat at a depth": (
        token("base.b/depth/1024", "depth-t0", "t0"),
        {"base/depth/1024", "draft/depth/1024"},
        {"depth.base.b.depth.1024"},
    ),
    "a dropped request": (
        unsound("draft.a/ladder/c2", "request lost"),
        {"draft/ladder/c2"},
        {"rung.draft.a.ladder.c2", "population"},
    ),
    "an empty oracle": (
        alter("base.a/strict/suite", requests=()),
        STRICT,
        {"base-repeat.base.b.strict", "draft-oracle.draft.a.strict", "draft-oracle.draft.b.strict", "population"},
    ),
    "swapped servers": (unsound("other.b/strict/suite", "changed server"), {"other/strict/suite"}, {"base-repeat.other.b.strict"}),
    "swapped requests": (swapped, {"draft/ladder/c4"}, {"rung.draft.a.ladder.c4"}),
    "a stale image": (
        image("draft."),
        {"draft/strict/suite", "draft/depth/512", "draft/depth/1024"},
        {"draft-oracle.draft.a.strict", "draft-oracle.draft.b.strict", "depth.draft.a.depth.512", "depth.draft.a.depth.1024"},
    ),
    "another suite": (suite, {"draft/strict/suite"}, {"draft-oracle.draft.a.strict", "draft-oracle.draft.b.strict"}),
    "a cache hit": (cached, {"base/ladder/c2"}, {"cache_zero"}),
    "a preemption": (alter("draft.a/ladder/c4", counters={"preemptions": 1.0}), {"draft/ladder/c4"}, {"preemption_zero"}),
    "preemptions not reported": (alter("draft.a/ladder/c4", counters={}), {"draft/ladder/c4"}, {"preemption_zero"}),
    "a canary is missing": (canary, {"other/strict/suite"}, {"canaries"}),
    "a knob not in force": (knob, {"draft/strict/suite"}, {"configuration"}),
}  # fmt: skip


@pytest.mark.parametrize(("breaks", "stopped", "failing"), BROKEN.values(), ids=BROKEN)
def test_a_broken_gate_stops_what_it_guards_and_nothing_else(
    sound: Campaign, breaks: Callable[[Campaign], None], stopped: set[str], failing: set[str]
) -> None:
    """The points that are not qualified are exactly those; so are the gates that did not pass; each stops only what it guards."""
    breaks(sound)
    summary = sound.summary()
    assert {f"{p.arm}/{p.workload}/{p.item}" for p in summary.points if p.state != "qualified"} == stopped
    bad = {v.gate: v for v in summary.verdicts if v.state != "qualified"}
    assert set(bad) == failing
    assert {point for v in bad.values() for point in v.stops} == stopped
    for v in summary.verdicts:
        assert set(v.stops) <= set(v.guards)
        assert bool(v.stops) == (v.gate in bad)
    assert all(p.reasons for p in summary.points if p.state != "qualified")


def test_a_missing_file_is_no_verdict_and_no_pass(sound: Campaign) -> None:
    """Where one side of a comparison has no record there is no verdict; the point it guards is withheld, and the gate is listed."""
    del sound.records["draft.a/depth/512"]
    summary = sound.summary()
    assert summary.unjudged == ("depth.draft.a.depth.512",)
    assert {p.id.rpartition("/")[0]: p.state for p in summary.points if p.state != "qualified"} == {
        "draft/depth/512": "missing"
    }


def test_swapped_requests_are_called_so(sound: Campaign) -> None:
    """An output that is another prompt's oracle proves that requests were mixed up, and the verdict names both."""
    swapped(sound)
    v = next(v for v in sound.summary().verdicts if v.gate == "rung.draft.a.ladder.c4")
    assert v.reasons[0].what == "requests mixed up"
    assert v.agreement is not None
    assert {(c.site, c.other_site) for c in v.agreement.collisions} == {("p00", "p01"), ("p01", "p00")}


def test_twins_that_flip_at_a_tie_are_not_called_mixed_up(sound: Campaign) -> None:
    """Prompts of one text may leave their oracle late, for each other's output: withheld and listed, but no proof of a mix-up."""
    j = sound.records["draft.a/ladder/c4"]
    twin = wrong(ids_of("p00"))
    for batch in ("oracle-01", "pass-1", "pass-2"):
        j = changed(j, batch, "p01", twin)
    sound.records["draft.a/ladder/c4"] = changed(j, "pass-2", "p00", twin)
    v = next(v for v in sound.summary().verdicts if v.gate == "rung.draft.a.ladder.c4")
    assert v.state == "withheld"
    assert v.agreement is not None
    assert len(v.agreement.collisions) == 1
    assert v.reasons[0].what == "not identical"


def test_a_stale_oracle_is_named_by_what_changed(sound: Campaign) -> None:
    """Image, kernel, parallelism, model or suite: the verdict says which."""
    gate = next(g for g in PLAN.gates if g.id == "draft-oracle.draft.a.strict")
    got, truth = sound.records["draft.a/strict/suite"], sound.records["base.a/strict/suite"]
    for name in ("image", "kernel", "parallelism", "model"):
        other = replace(got, identity_parts={**got.identity_parts, name: "x"})
        assert [r.found for r in judge_gate(gate, other, truth, ()).reasons] == [f"another {name}"]
    parts = replace(got, identity_sha256="x")
    assert judge_gate(gate, parts, truth, ()).reasons[0].found == "another identity"


def test_two_wrong_repeats_are_no_oracle(sound: Campaign) -> None:
    """Servers that agree with each other but not with the oracle are withheld all the same."""
    for key in ("draft.a/strict/suite", "draft.b/strict/suite"):
        sound.records[key] = changed(sound.records[key], "strict-s0", "s0", wrong(ids_of("s0")))
    states = {v.gate: v.state for v in sound.summary().verdicts if v.gate.startswith("draft-")}
    assert states == {
        "draft-oracle.draft.a.strict": "withheld",
        "draft-oracle.draft.b.strict": "withheld",
        "draft-repeat.draft.b.strict": "qualified",
    }
