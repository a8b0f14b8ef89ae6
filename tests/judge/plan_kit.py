"""Small whole campaigns made by hand: a plan, judged records, sessions, and from them verdicts and the summary, by the real code."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rungproof.judge.soundness import SessionFiles
from rungproof.judge.study import findings_of
from rungproof.judge.summary import SessionFacts, summarise
from rungproof.judge.verdicts import gate_verdict
from rungproof.plan.gates import gates_of
from rungproof.records.codec import digest
from rungproof.records.formats import (
    BatchResult,
    Canary,
    CanaryCheck,
    Closed,
    Input,
    Judged,
    Knob,
    RequestResult,
    Server,
    Verdict,
)
from rungproof.records.plan import ArmPlan, Item, Plan
from rungproof.records.requests import prompt_key
from rungproof.records.summary import Summary

Ids = tuple[int, ...]


def arm(name: str, oracle: str = "") -> ArmPlan:
    """One arm; its own oracle unless another is named."""
    launch = {"engine": "vllm", "arm": name}
    return ArmPlan(
        name,
        f"{name} arm",
        "lane",
        "model",
        "env",
        "vllm",
        3 if oracle else 0,
        oracle or name,
        launch,
        digest(launch),
        "canary-v1",
        1.0,
        "",
    )


def ladder(seat: str, concurrency: int, passes: int = 2, **rules: Any) -> Item:
    """One rung on a seat such as base.a."""
    spec = {
        "kind": "ladder",
        "suite": "s",
        "suite_sha256": "0",
        "concurrency": concurrency,
        "passes": passes,
        "tokens": 128,
    }
    return _item(
        seat,
        "ladder",
        f"c{concurrency}",
        spec,
        {"window": 100, "exact": "every-pass", "shown": "last", "min_distinct": 8, **rules},
    )


def strict(seat: str, classes: Mapping[str, str]) -> Item:
    """A strict suite; classes: prompt -> its class."""
    return _item(
        seat,
        "strict",
        "suite",
        {"kind": "strict", "suite": "s", "suite_sha256": "0", "cap": 128},
        {"window": 100, "classes": dict(classes)},
    )


def depth(seat: str, tokens: int) -> Item:
    """One depth."""
    return _item(
        seat,
        "depth",
        str(tokens),
        {"kind": "depth", "suite": "s", "suite_sha256": "0", "depth": tokens, "tokens": 128},
        {"window": 100},
    )


def _item(seat: str, workload: str, item: str, spec: dict[str, Any], rules: dict[str, Any]) -> Item:
    name, _, replicate = seat.partition(".")
    return Item(name, replicate, workload, item, spec, digest({"spec": spec, "rules": rules}), rules)


def plan(arms: Sequence[ArmPlan], items: Sequence[Item]) -> Plan:
    """The plan of these arms and items, with the gates that the planner makes of them."""
    seats = tuple(dict.fromkeys(item.seat for item in items))
    return Plan(
        "made", "made", "Made by hand", "For tests.", "host", "A host", False, 42, {"canary-v1": {}}, tuple(arms), tuple(items), seats,
        gates_of(tuple(arms), tuple(items)), (), (), {},
    )  # fmt: skip


def ids_of(key: str, tokens: int = 128) -> Ids:
    """The true output of a prompt; those of different prompts differ."""
    start = sum(ord(char) * 31**i for i, char in enumerate(prompt_key(key))) % 40_000
    return tuple(start + 7 * i for i in range(tokens))


def request(batch: str, key: str, ids: Ids, rate: float | None = 100.0) -> RequestResult:
    """One complete request; its body is that of its prompt."""
    body = digest(prompt_key(key))
    return RequestResult(
        batch,
        key,
        "complete",
        (),
        ids,
        len(ids),
        20,
        0,
        "length",
        "x",
        1_000,
        10**7,
        10**9,
        rate,
        len(ids),
        8_000_000,
        10**7,
        0,
        10**9,
        body,
    )


def wrong(ids: Ids, at: int = 40) -> Ids:
    """An output that leaves the true one at `at` and does not come back."""
    return ids[:at] + tuple(one + 1 for one in ids[at:])


def rung_record(item: Item, passes: Sequence[tuple[int, float | None]], keys: Sequence[str] = ()) -> Judged:
    """A judged rung: for each pass how many outputs are exact, and its aggregate [tokens/s]."""
    c = int(item.spec["concurrency"])
    keys = keys or [f"p{i:02d}" for i in range(c)]
    prompts = dict.fromkeys(prompt_key(key) for key in keys)
    requests = [request(f"oracle-{i:02d}", key, ids_of(key)) for i, key in enumerate(prompts)]
    batches = [
        BatchResult(f"oracle-{i:02d}", 1, 1, {"complete": 1}, 128, 10**9, 128.0, "kernel", 1, 1, 0, 0, "ordinary")
        for i in range(len(prompts))
    ]
    for number, (exact, value) in enumerate(passes, start=1):
        outputs = [ids_of(key) if i < exact else wrong(ids_of(key)) for i, key in enumerate(keys)]
        requests += [request(f"pass-{number}", key, ids) for key, ids in zip(keys, outputs, strict=True)]
        wall = round(128 * c * 10**9 / value) if value else 0
        batches.append(
            BatchResult(f"pass-{number}", c, c, {"complete": c}, 128 * c, wall, value, "kernel", c, c, 0, 0, "ordinary")
        )
    return record(item, requests, batches)


def record(
    item: Item, requests: Sequence[RequestResult], batches: Sequence[BatchResult] = (), run: str = "r001"
) -> Judged:
    """A judged record that is accepted."""
    session = f"{run}.{item.seat}"
    raw = f"sessions/{session}/attempts/{item.workload}.{item.item}.raw.jsonl.gz"
    parts = {"image": "i", "kernel": "k", "parallelism": "p", "model": "m"}
    return Judged(
        item.arm, item.replicate, item.workload, item.item, "accepted", (), session, f"boot-{session}", "l", digest(parts), item.spec_sha256,
        item.spec, (Input(raw, "0" * 64),), tuple(requests), tuple(batches), {"preemptions": 0.0, "prefix_cache_hits": 0.0}, None, "j", parts,
    )  # fmt: skip


def session(name: str) -> SessionFacts:
    """A sound session: its knobs in force, its canaries passed, closed."""
    _, seat = name.split(".", 1)
    boot = f"boot-{name}"
    knob = Knob("--dtype", "x", "x", "/proc/1/cmdline", True)
    server = Server(
        name,
        *seat.split("."),
        "ready",
        (),
        boot,
        "u",
        f"m-{boot}",
        {"engine": "vllm"},
        "l",
        (knob,),
        {},
        {},
        1,
        "at",
        1.0,
    )
    check = CanaryCheck("c", True, "p", ((1,),), "t", ())
    before, after = (
        Canary(name, boot, when, "job", "passed", (), (check,), None, "at") for when in ("before", "after")
    )  # type: ignore[arg-type]
    return SessionFacts(server, before, after, Closed(name, boot, "job", True, (), "SIGTERM", (), "at", 1.0), None)


def verdicts_of(of: Plan, records: Iterable[Judged], sessions: Sequence[SessionFacts]) -> list[Verdict]:
    """The verdict of every gate; a comparison without a record on one side has none, as in a results folder."""
    lying = [(Input(f"sessions/{j.session}/judged/{j.workload}.{j.item}.json", digest(j)), j) for j in records]
    files = {s.server.session: (SessionFiles(s.server, s.before, s.after), ()) for s in sessions}
    there = {f"{j.arm}.{j.replicate}/{j.workload}/{j.item}" for _, j in lying}
    return [gate_verdict(g, lying, files) for g in of.gates if not g.oracle or {*g.subject, *g.oracle} <= there]


def summary_of(of: Plan, records: Sequence[Judged], sessions: Sequence[SessionFacts] = ()) -> Summary:
    """The summary of a campaign with these records; sound sessions are made for them where none are given."""
    sessions = sessions or [session(name) for name in dict.fromkeys(j.session for j in records)]
    return summarise(findings_of(of, records, verdicts_of(of, records, sessions), {}), sessions)


def changed(j: Judged, batch: str, key: str, ids: Ids) -> Judged:
    """The same record with the output of one request changed."""
    assert any((r.batch, r.key) == (batch, key) for r in j.requests)
    return replace(
        j, requests=tuple(replace(r, token_ids=ids) if (r.batch, r.key) == (batch, key) else r for r in j.requests)
    )
