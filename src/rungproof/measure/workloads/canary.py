"""Canaries: fixed small checks on a server, before and after everything that is measured on it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from rungproof.judge.canary import LOST, check
from rungproof.judge.outcome import result_of
from rungproof.measure.client import Address, Planned, run_batch
from rungproof.measure.serving.order import Order
from rungproof.records import raw
from rungproof.records.codec import canonical, read, sha256
from rungproof.records.files import write_atomic
from rungproof.records.formats import Canary, CanaryCheck, Input, Reason, RequestResult, Server
from rungproof.records.requests import completion


@dataclass(frozen=True, slots=True)
class Limits:
    """Longest time of one request, and longest silence in it [s]."""

    deadline_s: float
    idle_s: float


HURRY = Limits(20.0, 10.0)


def address_of(url: str) -> Address:
    """The address behind a server's url. Raises ValueError when it has no host or port."""
    parts = urlsplit(url)
    if not parts.hostname or not parts.port:
        raise ValueError(f"{url!r} has no host or port")
    return Address(parts.hostname, parts.port)


def run_canary(folder: Path, when: Literal["before", "after"], by: Literal["job", "supervisor"]) -> Canary:
    """Run every check on the session's server; write `canary_<when>.json` and its raw file. Never raises for what a server does."""
    server = read(Server, folder / "server.json")
    order = read(Order, folder / "control/order.json")
    if server.status != "ready" or (when == "before" and (folder / "closed.json").exists()):
        status: Literal["skipped", "no_server"] = "skipped" if server.status == "skipped" else "no_server"
        reasons = server.reasons or (Reason("session closed before its canary"),)
        return _write(folder, _record(server, when, by, status, reasons, (), None))
    lines: list[raw.Line] = [raw.Header(server.session, server.boot, f"canary {when}")]
    limits = Limits(order.canary["deadline_s"], order.canary["idle_s"])
    if by == "supervisor":  # nobody waits for it and the machine is held: a server that hangs is given up soon
        limits = Limits(min(limits.deadline_s, HURRY.deadline_s), min(limits.idle_s, HURRY.idle_s))
    checks: tuple[CanaryCheck, ...] = ()
    for spec in order.canary["checks"]:
        checks += (_run_check(server, order.canary["sampling"], spec, limits, lines),)
        if any(r.what == LOST for r in checks[-1].reasons):
            break
    data = raw.encode(lines)
    raw_path = folder / f"canary_{when}.raw.jsonl.gz"
    write_atomic(raw_path, data)
    passed = bool(checks) and all(c.passed for c in checks)
    reasons = tuple(r for c in checks for r in c.reasons) or (
        () if checks else (Reason("nothing checked", "0 checks", "at least 1"),)
    )
    evidence = Input(f"sessions/{server.session}/{raw_path.name}", sha256(data))
    return _write(folder, _record(server, when, by, "passed" if passed else "failed", reasons, checks, evidence))


def _run_check(
    server: Server, sampling: dict[str, Any], spec: dict[str, Any], limits: Limits, lines: list[raw.Line]
) -> CanaryCheck:
    """One check; it ends at the first request that does not complete."""
    body = completion(server.model, spec["prompt"], spec["max_tokens"], False, sampling)
    results: list[RequestResult] = []
    for i in range(8 if spec["kind"] == "repeat8" else 1):
        batch, requests = run_batch(
            address_of(server.url),
            [Planned(spec["id"], body)],
            batch=f"{spec['id']}-{i}",
            deadline_s=limits.deadline_s,
            idle_s=limits.idle_s,
        )
        lines += [batch, *requests]
        results += [
            result_of(r, window=2, tokens=spec["max_tokens"], exact_length=False, prompt_tokens=None) for r in requests
        ]
        if not results or results[-1].state != "complete":
            break
    reasons = check(spec["kind"], spec["expect"], results, spec["id"])
    text = results[0].text if results else ""
    return CanaryCheck(spec["id"], not reasons, spec["prompt"], tuple(r.token_ids for r in results), text, reasons)


def _record(
    server: Server, when: Literal["before", "after"], by: Literal["job", "supervisor"],
    status: Literal["passed", "failed", "no_server", "skipped"], reasons: tuple[Reason, ...],
    checks: tuple[CanaryCheck, ...], evidence: Input | None,
) -> Canary:  # fmt: skip
    return Canary(
        server.session,
        server.boot,
        when,
        by,
        status,
        reasons,
        checks,
        evidence,
        datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _write(folder: Path, canary: Canary) -> Canary:
    write_atomic(folder / f"canary_{canary.when}.json", canonical(canary))
    return canary
