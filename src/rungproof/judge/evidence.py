"""From the files of a session to what the judge sees of one attempt. Files come in through a function, so nothing here does I/O."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any, TypeVar

from rungproof.judge.attempt import Evidence, ExpectedBatch, judge_attempt
from rungproof.records import raw
from rungproof.records.codec import load_json, parse, sha256
from rungproof.records.errors import ConfigError, EvidenceError
from rungproof.records.formats import Attempt, Canary, ClientCheck, Closed, Input, Judged, Reason, Server
from rungproof.records.plan import Item, split_session
from rungproof.records.requests import batches

Read = Callable[
    [str], bytes | None
]  # path relative to the results folder -> its bytes, None where there is no such file

R = TypeVar("R")


def judge_from(read: Read, session: str, item: Item, launch_sha256: str, judge_sha256: str) -> Judged:
    """Judge one attempt of a closed session from its files. Damaged raw evidence is judged too: state invalid.

    Raises EvidenceError when the server, closing or attempt record is missing or damaged.
    """
    home = f"sessions/{session}"
    name = f"{home}/attempts/{item.workload}.{item.item}"
    run = split_session(session)[0]
    prompts_path = f"runs/{run}/prompts/{item.arm}.{item.workload}.json"
    server = parse(Server, _need(read, f"{home}/server.json"), f"{home}/server.json")
    closed = parse(Closed, _need(read, f"{home}/closed.json"), f"{home}/closed.json")
    attempt = parse(Attempt, _need(read, f"{name}.json"), f"{name}.json")
    paths = [f"{home}/{n}.json" for n in ("server", "client", "canary_before", "canary_after", "closed")] + [
        f"{name}.json",
        f"{name}.raw.jsonl.gz",
        prompts_path,
    ]
    inputs = tuple(Input(path, sha256(data)) for path in paths if (data := read(path)) is not None)
    trouble: list[Reason] = []
    lines: tuple[raw.Line, ...] | None = None
    expected: tuple[ExpectedBatch, ...] = ()
    if attempt.status == "measured":
        try:
            lines = _raw_lines(read, f"{name}.raw.jsonl.gz", session, item, attempt)
            expected = expected_batches(item, read_prompts(_need(read, prompts_path), prompts_path), server.model)
        except (EvidenceError, ConfigError) as error:
            trouble.append(Reason("damaged evidence", found=str(error), where=item.id))
    evidence = Evidence(
        server,
        _maybe(read, Canary, f"{home}/canary_before.json"),
        _maybe(read, Canary, f"{home}/canary_after.json"),
        closed,
        attempt,
        lines,
        inputs,
        _maybe(read, ClientCheck, f"{home}/client.json"),
    )
    judged = judge_attempt(item, launch_sha256, expected, evidence, judge_sha256)
    if trouble:
        return dataclasses.replace(judged, state="invalid", reasons=(*trouble, *judged.reasons))
    return judged


def expected_batches(item: Item, prompts: dict[str, Any], model: str) -> tuple[ExpectedBatch, ...]:
    """The batches that an item must have sent, bodies as latin-1 text of the bytes, as raw files hold them."""
    return tuple(
        ExpectedBatch(
            b.batch,
            tuple((body.key, body_text(body.body)) for body in b.bodies),
            {body.key: body.delay_ns for body in b.bodies},
        )
        for b in batches(item, prompts, model)
    )


def body_text(body: object) -> str:
    """The exact bytes of a request body as latin-1 text, as the client sends and the raw file records them."""
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode().decode("latin-1")


def read_prompts(data: bytes, where: str) -> dict[str, Any]:
    """Key -> text or token ids of a prompts file. Raises EvidenceError."""
    value = load_json(data, where)
    if (
        not isinstance(value, dict)
        or value.get("format") != "rungproof.prompts/1"
        or not isinstance(value.get("prompts"), dict)
    ):
        raise EvidenceError(f"{where}: not a prompts file (format rungproof.prompts/1)")
    prompts: dict[str, Any] = value["prompts"]
    return prompts


def _need(read: Read, path: str) -> bytes:
    data = read(path)
    if data is None:
        raise EvidenceError(f"{path}: there is no such file; the session's evidence is not whole")
    return data


def _raw_lines(read: Read, path: str, session: str, item: Item, attempt: Attempt) -> tuple[raw.Line, ...]:
    data = _need(read, path)
    if attempt.raw is None or sha256(data) != attempt.raw.sha256:
        said = attempt.raw.sha256[:12] if attempt.raw else "none"
        raise EvidenceError(f"{path}: its sha256 begins {sha256(data)[:12]}; the record of the attempt says {said}")
    lines = raw.decode(data, path)
    header = lines[0]
    if not isinstance(header, raw.Header) or (header.session, header.boot, header.what) != (
        session,
        attempt.boot,
        item.id,
    ):
        raise EvidenceError(f"{path}: its header names another measurement; expected {session} {item.id}")
    return tuple(lines)


def _maybe(read: Read, cls: type[R], path: str) -> R | None:
    data = read(path)
    try:
        return parse(cls, data, path) if data is not None else None
    except EvidenceError:
        return None  # the judge then says that it is missing
