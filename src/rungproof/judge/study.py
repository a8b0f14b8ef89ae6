"""A whole results folder judged again: what `verify` compares with, and what the page is made from. Files come in through functions."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from rungproof.judge.points import Findings
from rungproof.judge.soundness import SessionFiles
from rungproof.judge.summary import SessionFacts
from rungproof.records.codec import parse, sha256
from rungproof.records.environment import Environment
from rungproof.records.errors import EvidenceError
from rungproof.records.formats import Canary, ClientCheck, Closed, Input, Judged, Registered, Server, Verdict
from rungproof.records.plan import Plan

Read = Callable[
    [str], bytes | None
]  # path relative to the results folder -> its bytes, None where there is no such file
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Session:
    """One session's own files: facts for the page, files for the soundness counts, and where they lie."""

    facts: SessionFacts
    files: SessionFiles
    inputs: tuple[Input, ...]


def read_sessions(read: Read, names: Iterable[str]) -> dict[str, Session]:
    """Sessions by name. One whose server record is damaged is left out; a damaged canary or closing counts as missing."""
    made = {}
    for name in sorted(names):
        home = f"sessions/{name}"
        server = _maybe(read, Server, f"{home}/server.json")
        if server is None:
            continue
        before, after = (_maybe(read, Canary, f"{home}/canary_{when}.json") for when in ("before", "after"))
        closed = _maybe(read, Closed, f"{home}/closed.json")
        env = _maybe(read, Environment, f"{home}/env.json")
        client = _maybe(read, ClientCheck, f"{home}/client.json")
        registered = _maybe(read, Registered, f"runs/{name.split('.')[0]}/registered.json")
        paths = [f"{home}/{n}.json" for n in ("server", "canary_before", "canary_after")]
        inputs = tuple(Input(path, sha256(data)) for path in paths if (data := read(path)) is not None)
        made[name] = Session(
            SessionFacts(server, before, after, closed, client, env, registered),
            SessionFiles(server, before, after),
            inputs,
        )
    return made


def findings_of(
    plan: Plan, records: Iterable[Judged], verdicts: Iterable[Verdict], left_out: Mapping[str, str]
) -> Findings:
    """What a summary is made from. records: of all items, each item's newest first."""
    by_item: dict[str, list[Judged]] = {}
    for record in records:
        by_item.setdefault(f"{record.arm}.{record.replicate}/{record.workload}/{record.item}", []).append(record)
    return Findings(plan, by_item, {v.gate: v for v in verdicts}, left_out)


def _maybe(read: Read, cls: type[R], path: str) -> R | None:
    data = read(path)
    try:
        return parse(cls, data, path) if data is not None else None
    except EvidenceError:
        return None
