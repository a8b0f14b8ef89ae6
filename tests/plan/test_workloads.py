"""Workloads of diagnosis in the plan: what is sent, which gates there are, and that what is off by default changes no digest."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from rungproof.config.load import load
from rungproof.config.workloads import Short
from rungproof.measure.prompts import short_prompts
from rungproof.plan.estimate import item_seconds
from rungproof.plan.missing import NOT_NEEDED, plan_run
from rungproof.plan.resolve import resolve
from rungproof.records.errors import ConfigError
from rungproof.records.plan import Item, Plan
from rungproof.records.requests import batches, counts, prompt_key

ROOT = Path(__file__).resolve().parents[2]
LADDER = {"kind": "ladder", "suite": "ladder-v1", "passes": 2, "tokens": 48, "window": 32}


def root_with(tmp_path: Path, **workloads: dict[str, Any]) -> Path:
    """A checkout whose campaign `made` runs these workloads on two servers of a base arm and one of a draft arm."""
    (tmp_path / "config/campaigns").mkdir(parents=True)
    (tmp_path / "envs").symlink_to(ROOT / "envs")
    for one in (ROOT / "config").iterdir():
        if one.name != "campaigns":
            (tmp_path / "config" / one.name).symlink_to(one)
    lane = {"lane": "smollm2-w4a16"}
    draft = {"method": "ngram", "depth": 3, "prompt_lookup_max": 4, "prompt_lookup_min": 2}
    names = list(workloads)
    campaign = {
        "title": "T", "purpose": "P", "host": "simulated", "canary": "canary-v1",
        "arms": {"base": {"title": "Base", **lane}, "draft": {"title": "Draft", "oracle": "base", "speculation": draft, **lane}},
        "workloads": workloads,
        "sessions": [{"arm": arm, "replicate": r, "workloads": names} for arm, r in (("base", "a"), ("base", "b"), ("draft", "a"))],
    }  # fmt: skip
    (tmp_path / "config/campaigns/made.yaml").write_text(yaml.safe_dump(campaign), encoding="utf-8")
    return tmp_path


def plan_of(tmp_path: Path, **workloads: dict[str, Any]) -> Plan:
    """The plan of such a campaign."""
    return resolve(load(root_with(tmp_path, **workloads), "made"), frozenset())


def bodies(item: Item, prompts: dict[str, Any]) -> dict[str, list[tuple[str, int]]]:
    """batch -> (key, delay [ms]) of each request."""
    return {b.batch: [(one.key, one.delay_ns // 10**6) for one in b.bodies] for b in batches(item, prompts, "m")}


def test_what_is_off_by_default_is_not_in_a_spec() -> None:
    """Stagger, copies and the limit of the spread are new keys; the packaged campaigns do not use them, so their specs have no trace of them."""
    plan = resolve(load(ROOT, "campaign_v2", "simulated"), frozenset())
    keys = {
        "strict": {"kind", "suite", "suite_sha256", "sampling", "cap"},
        "depth": {"kind", "suite", "suite_sha256", "sampling", "depth", "tokens"},
        "ladder": {"kind", "suite", "suite_sha256", "sampling", "concurrency", "passes", "tokens"},
    }
    rules = {
        "strict": {"window", "classes", "canary_sha256"},
        "depth": {"window", "canary_sha256"},
        "ladder": {"window", "exact", "shown", "min_distinct", "canary_sha256"},
    }
    for item in plan.items:
        assert set(item.spec) == keys[item.spec["kind"]]
        assert set(item.rules) == rules[item.spec["kind"]]
    assert plan.conditional == ()


def test_staggered_requests_have_their_times(tmp_path: Path) -> None:
    """Each request of a pass is sent so long after the one before it; the oracle's, which go alone, at once."""
    plan = plan_of(tmp_path, ladder={**LADDER, "rungs": [2, 4], "stagger_ms": 5})
    sent = bodies(plan.item("base.a/ladder/c4"), {f"p{i:02d}": f"text {i}" for i in range(4)})
    assert sent["pass-1"] == sent["pass-2"] == [("p00", 0), ("p01", 5), ("p02", 10), ("p03", 15)]
    assert all(delay == 0 for name, of in sent.items() if name.startswith("oracle") for _, delay in of)


def test_copies_are_byte_identical_and_have_one_oracle(tmp_path: Path) -> None:
    """c requests are c / copies prompts; copies have the body of their prompt and a key of their own; the oracle is asked once a prompt."""
    plan = plan_of(tmp_path, ladder={**LADDER, "rungs": [4, 8], "copies": 4})
    item = plan.item("base.a/ladder/c8")
    made = batches(item, {f"p{i:02d}": f"text {i}" for i in range(8)}, "m")
    assert [b.batch for b in made] == ["oracle-00", "oracle-01", "pass-1", "pass-2"]
    by_prompt: dict[str, list[Any]] = {}
    for one in made[2].bodies:
        by_prompt.setdefault(prompt_key(one.key), []).append(one.body)
    assert {key: len(of) for key, of in by_prompt.items()} == {"p00": 4, "p01": 4}
    assert all(body == of[0] for of in by_prompt.values() for body in of)
    assert len({one.key for one in made[2].bodies}) == 8
    assert counts(item.spec, 0) == (2 + 16, 48)


def test_dense_rungs_are_all_rungs_between(tmp_path: Path) -> None:
    """first, last and step stand for a list; the items are those of the list itself, with the same digests."""
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    dense = plan_of(tmp_path / "a", ladder={**LADDER, "rungs": {"first": 2, "last": 8, "step": 3}})
    listed = plan_of(tmp_path / "b", ladder={**LADDER, "rungs": [2, 5, 8]})
    assert [i.id for i in dense.items] == [i.id for i in listed.items]
    assert [i.spec_sha256 for i in dense.items] == [i.spec_sha256 for i in listed.items]


def test_short_prompts_begin_differently() -> None:
    """As many as asked for, of the longest length, cut in turn from the texts, no two with the same first token; too few are refused."""
    texts = {"a": [5] * 400, "b": list(range(400))}
    work = Short(kind="short", suite="x", lengths=[1, 4], prompts=6)
    made = short_prompts(texts, work, "x")
    assert list(made) == [f"s{i:02d}" for i in range(6)]
    assert all(len(ids) == 4 for ids in made.values())
    assert len({ids[0] for ids in made.values()}) == 6
    with pytest.raises(ConfigError, match="gives 1 short prompts"):
        short_prompts({"a": [5] * 400}, work, "x")


def test_short_prompts_are_sent_many_times_and_compared(tmp_path: Path) -> None:
    """Every repeat is a request of its own; the draft arm's gate holds them against the base's, the base's second server against its first."""
    plan = plan_of(
        tmp_path, short={"kind": "short", "suite": "long-v1", "lengths": [1, 2, 3, 4, 5], "prompts": 2, "repeats": 3}
    )
    item = plan.item("draft.a/short/n2")
    made = batches(item, {"s00": [1, 2, 3, 4, 5], "s01": [6, 7, 8, 9, 10]}, "m")
    assert [b.bodies[0].key for b in made] == ["s00", "s01", "s00~2", "s01~2", "s00~3", "s01~3"]
    assert all(len(b.bodies[0].body["prompt"]) == 2 for b in made)
    assert counts(item.spec, 0)[0] == len(made)
    gates = {g.id: (g.kind, g.oracle, g.guards) for g in plan.gates if "n2" in g.id}
    assert gates == {
        "short.base.b.short.n2": ("short_oracle", ("base.a/short/n2",), ("base/short/n2", "draft/short/n2")),
        "short.draft.a.short.n2": ("short_oracle", ("base.a/short/n2",), ("draft/short/n2",)),
    }


def test_a_probe_asks_for_two_alternatives_and_guards_nothing(tmp_path: Path) -> None:
    """Its requests ask for the two likeliest tokens; no gate reads it."""
    plan = plan_of(
        tmp_path, probe={"kind": "probe", "suite": "ladder-v1", "prompts": 3}, ladder={**LADDER, "rungs": [2]}
    )
    item = plan.item("base.a/probe/margins")
    made = batches(item, {f"p{i:02d}": "x" for i in range(3)}, "m")
    assert [b.batch for b in made] == ["probe-00", "probe-01", "probe-02"]
    assert all(b.bodies[0].body["logprobs"] == 2 for b in made)
    assert not [g for g in plan.gates if item.id in (*g.subject, *g.oracle)]


def test_a_limit_of_the_spread_plans_a_third_server_that_waits(tmp_path: Path) -> None:
    """Two servers of an arm get a gate and a third with the limited suite alone, which is not measured while no verdict asks for it."""
    strict = {"kind": "strict", "suite": "strict-v1", "cap": 48, "window": 32, "spread_limit": 0.02}
    plan = plan_of(tmp_path, strict=strict, ladder={**LADDER, "rungs": [1]})
    assert plan.conditional == ("base.c",)
    assert [i.id for i in plan.items if i.seat == "base.c"] == ["base.c/strict/suite"]
    (gate,) = [g for g in plan.gates if g.kind == "spread"]
    assert (gate.id, gate.subject, gate.guards) == (
        "spread.base.strict",
        ("base.a/strict/suite", "base.b/strict/suite", "base.c/strict/suite"),
        ("base/strict/suite",),
    )
    todo = plan_run(plan, tmp_path / "nowhere", "r001", (), "judge")
    assert [name for name, _ in todo.new] == ["r001.base.a", "r001.base.b", "r001.draft.a"]
    assert todo.of("base.c/strict/suite").left_out == NOT_NEEDED
    asked = plan_run(plan, tmp_path / "nowhere", "r001", ("base.c/strict/suite",), "judge")
    assert "r001.base.c" in [name for name, _ in asked.new]


def test_every_workload_has_an_estimate(tmp_path: Path) -> None:
    """More requests cost more; a stagger adds its own time."""
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    plan = plan_of(
        tmp_path / "a", ladder={**LADDER, "rungs": [8]}, probe={"kind": "probe", "suite": "ladder-v1", "prompts": 3},
        short={"kind": "short", "suite": "long-v1", "lengths": [1, 2, 3, 4, 5]},
    )  # fmt: skip
    costs = load(tmp_path / "a", "made").host.costs
    assert all(item_seconds(item, costs) > 0 for item in plan.items)
    apart = plan_of(tmp_path / "b", ladder={**LADDER, "rungs": [8], "stagger_ms": 1000})
    gap = item_seconds(apart.item("base.a/ladder/c8"), costs) - item_seconds(plan.item("base.a/ladder/c8"), costs)
    assert gap == pytest.approx(2 * 8.0)


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "copies that do not fit": (
        {"ladder": {**LADDER, "rungs": [1, 4], "copies": 4}},
        "rung 1 is no multiple of the 4 copies",
    ),
    "a pass that is not run": ({"ladder": {**LADDER, "rungs": [1], "exact": [3]}}, "names pass 3; there are 2"),
    "a shown pass that is not run": ({"ladder": {**LADDER, "rungs": [1], "shown": 4}}, "names pass 4; there are 2"),
    "21 passes": ({"ladder": {**LADDER, "rungs": [1], "passes": 21}}, "less than or equal to 20"),
    "dense rungs without an end": ({"ladder": {**LADDER, "rungs": {"first": 1}}}, "dense rungs have"),
    "a negative stagger": ({"ladder": {**LADDER, "rungs": [1], "stagger_ms": -1}}, "greater than or equal to 0"),
    "short prompts that leave out a length": (
        {"short": {"kind": "short", "suite": "long-v1", "lengths": [1, 2, 3]}},
        "lacks length 4; arm 'draft' drafts 3, so it needs 1 to 5",
    ),
    "more probes than prompts": (
        {"probe": {"kind": "probe", "suite": "ladder-v1", "prompts": 500}},
        "workloads.probe.prompts: found 500",
    ),
    "a short window": (
        {"short": {"kind": "short", "suite": "long-v1", "lengths": [1, 2, 3, 4, 5], "tokens": 8}},
        "window is longer",
    ),
}


@pytest.mark.parametrize(("workloads", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_a_workload_is_told(tmp_path: Path, workloads: dict[str, Any], says: str) -> None:
    """Before anything starts, with the campaign's file."""
    with pytest.raises(ConfigError) as error:
        plan_of(tmp_path, **workloads)
    assert says in str(error.value)
    assert "made.yaml" in str(error.value)


def test_a_host_may_allow_the_cap_of_the_design(tmp_path: Path) -> None:
    """A host profile raises the strict cap to 512 where there is time for it; the campaign's file stays as it is."""
    root = root_with(tmp_path, strict={"kind": "strict", "suite": "strict-v1", "cap": 48, "window": 32})
    host = yaml.safe_load((ROOT / "config/hosts/simulated.yaml").read_text(encoding="utf-8"))
    (root / "config/hosts").unlink()
    (root / "config/hosts").mkdir()
    (root / "config/hosts/roomy.yaml").write_text(
        yaml.safe_dump({**host, "workloads": {"strict": {"cap": 512, "window": 100}}}), encoding="utf-8"
    )
    (root / "config/hosts/simulated.yaml").write_text(yaml.safe_dump(host), encoding="utf-8")
    plan = resolve(load(root, "made", "roomy"), frozenset())
    assert plan.item("base.a/strict/suite").spec["cap"] == 512
