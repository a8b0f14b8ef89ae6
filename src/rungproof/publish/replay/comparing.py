"""A replay's results beside the pack: reads the records in use on both sides and lets the judge compare."""

from pathlib import Path

from rungproof.judge.equivalence import LIMIT
from rungproof.judge.replay import (
    claimed_items,
    host_facts,
    hosts_again,
    rates_again,
    rates_state,
    tokens_again,
    tokens_state,
)
from rungproof.judge.use import pick
from rungproof.publish.replay.folder import Place
from rungproof.records.codec import digest, parse, read, sha256
from rungproof.records.environment import Environment, Fact
from rungproof.records.errors import EvidenceError
from rungproof.records.formats import Judged, Server
from rungproof.records.plan import SESSION, Item, Plan
from rungproof.records.replay import HostRow, ItemTokens, Replay
from rungproof.records.summary import Summary

EVIDENCE = ("plan.json", "summary.json", "runs/*/campaign.lock.json", "runs/*/registered.json", "runs/*/prompts/*.json", "sessions/*/*.json",
            "sessions/*/*.raw.jsonl.gz", "sessions/*/attempts/*", "sessions/*/judged/*.json", "verdicts/*.json")  # fmt: skip


def compare(pack: Path, place: Place, levels: dict[str, str], at: str, limit: float = LIMIT) -> Replay:
    """The replay of `pack` as it stands in `place`. levels: of the pack, as verified; at: now [UTC].

    Raises EvidenceError where the replay has no plan of its own there or a record on either side is damaged.
    """
    plan = place.plan
    summary = read(Summary, pack / "summary.json")
    published, again = used_records(pack, plan), used_records(place.study, plan)
    items = tokens_again(plan, claimed_items(plan, summary.points), published, again)
    comparable, words, host = _hosts(pack, place.study, items)
    rates = rates_again(plan, summary.points, published, again, limit)
    files = {
        path.relative_to(place.study).as_posix(): sha256(path.read_bytes())
        for pattern in EVIDENCE
        for path in place.study.glob(pattern)
        if path.is_file() and not path.name.startswith(".")
    }
    return Replay(
        kind="replay", pack=place.pack, study=plan.study, title=plan.title, simulated=plan.simulated, plan_sha256=digest(plan),
        levels=levels, tokens=tokens_state(items), items=items, comparable=comparable, host_words=words, host=host,
        rates=rates_state(rates, comparable), limit=limit, points=rates, results_sha256=digest(files), results_files=len(files), at=at,
    )  # fmt: skip


def used_records(study: Path, plan: Plan) -> dict[str, Judged]:
    """Item id -> the record in use under this plan, of those that have one."""
    found = {item.id: pick(_records(study, plan, item)) for item in plan.items}
    return {key: record for key, record in found.items() if record is not None}


def _records(study: Path, plan: Plan, item: Item) -> list[Judged]:
    """Records of an item under this plan, newest run first."""
    launch = plan.arm(item.arm).launch_sha256
    paths = list(study.glob(f"sessions/*.{item.seat}/judged/{item.workload}.{item.item}.json"))
    named = [(found, path) for path in paths if (found := SESSION.match(path.parents[1].name))]
    named.sort(key=lambda pair: int(pair[0][1][1:]), reverse=True)
    records = [read(Judged, path) for _, path in named]
    return [one for one in records if one.spec_sha256 == item.spec_sha256 and one.launch_sha256 == launch]


def _hosts(pack: Path, study: Path, items: tuple[ItemTokens, ...]) -> tuple[bool, str, tuple[HostRow, ...]]:
    """Hosts by the first item that both sides measured; one host serves all of a campaign."""
    pair = next(((row.session, row.again) for row in items if row.session and row.again), None)
    if pair is None:
        return hosts_again({}, {})
    return hosts_again(_facts(pack, pair[0]), _facts(study, pair[1]))


def _facts(study: Path, session: str) -> dict[str, Fact]:
    home = study / "sessions" / session
    try:
        server = read(Server, home / "server.json")
        return host_facts(server, parse(Environment, (home / "env.json").read_bytes(), f"{session}/env.json").before)
    except (EvidenceError, OSError):
        return {}  # a host that is not known is not comparable
