"""One attempt: every batch of one item on a session's server, raw bytes kept, a record written whatever happens."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from rungproof.judge.evidence import read_prompts
from rungproof.judge.outcome import result_of
from rungproof.measure.client import Planned, run_batch
from rungproof.measure.store import Folder
from rungproof.measure.workloads.canary import address_of
from rungproof.measure.workloads.metrics import read_metrics
from rungproof.records import raw
from rungproof.records.codec import canonical, sha256
from rungproof.records.errors import RungproofError
from rungproof.records.files import append_synced, write_atomic
from rungproof.records.formats import Attempt, Input, Reason, Server
from rungproof.records.plan import Item, Plan
from rungproof.records.requests import batches

Status = Literal["measured", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class BatchDone:
    """One batch of an attempt. rate: tokens of complete requests a second over all batches up to here; for the terminal alone."""

    name: str
    number: int
    batches: int
    complete: int
    asked: int
    rate: float

    def __str__(self) -> str:
        """For the job's log."""
        return f"batch {self.number}/{self.batches} {self.name}: {self.complete}/{self.asked} complete"


def measure_item(study: Path, session: str, item: Item, plan: Plan, tell: Callable[[BatchDone], None]) -> Attempt:
    """Measure one item on the session's server. Always writes its record; only an unwritable disk raises (HostError).

    `tell` is called after each batch.
    """
    folder = Folder(study)
    server = folder.server(session)
    began, start = datetime.now(UTC), time.monotonic()
    status, reasons = _may_measure(folder, session, server)
    path = folder.raw(session, item)
    if status == "measured":
        try:
            status, reasons = _measure(folder, server, item, plan, path, tell)
        except RungproofError as error:
            status, reasons = "failed", (Reason("could not be measured", found=str(error), where=item.id),)
    evidence = Input(folder.relative(path), sha256(path.read_bytes())) if path.exists() else None
    ended = datetime.now(UTC)
    record = Attempt(
        campaign=plan.campaign, session=session, boot=server.boot, arm=item.arm, replicate=item.replicate, workload=item.workload,
        item=item.item, spec=item.spec, spec_sha256=item.spec_sha256, status=status, reasons=reasons, raw=evidence,
        began=began.isoformat(timespec="milliseconds"), ended=ended.isoformat(timespec="milliseconds"), seconds=round(time.monotonic() - start, 3),
    )  # fmt: skip
    write_atomic(folder.attempt(session, item), canonical(record))
    return record


def _may_measure(folder: Folder, session: str, server: Server) -> tuple[Status, tuple[Reason, ...]]:
    if server.status == "skipped":
        return "skipped", server.reasons or (Reason("gate"),)
    if server.status != "ready":
        return "failed", (Reason("no server"), *server.reasons)
    if (folder.session(session) / "closed.json").exists():
        return "failed", (Reason("the session is closed", where=session),)
    return "measured", ()


def _measure(
    folder: Folder, server: Server, item: Item, plan: Plan, path: Path, tell: Callable[[BatchDone], None]
) -> tuple[Status, tuple[Reason, ...]]:
    """Run the batches in order. It stops at the first batch with a request that did not complete: the judge finds the
    rest missing, and nothing more is spent on a measurement that cannot be accepted."""
    prompts_path = folder.prompts(server.session, item.arm, item.workload)
    prompts = read_prompts(prompts_path.read_bytes(), str(prompts_path))
    planned = batches(item, prompts, server.model)
    before = read_metrics(server.url, "before", busy_s=plan.limits["idle_s"])
    members = raw.Members(path.name)
    append_synced(path, members.encode([raw.Header(server.session, server.boot, item.id), before]))
    address = address_of(server.url)
    start, generated = time.monotonic(), 0
    cell_end = time.monotonic() + plan.limits["cell_deadline_s"]
    for number, batch in enumerate(planned, start=1):
        left_s = cell_end - time.monotonic()
        if left_s <= 0:
            found = f"{number - 1} of {len(planned)} batches"
            return "failed", (
                Reason("cell deadline", found, f"all within {plan.limits['cell_deadline_s']:g} s", item.id),
            )
        line, requests = run_batch(
            address, [Planned(b.key, b.body, b.delay_ns) for b in batch.bodies], batch=batch.batch,
            deadline_s=min(left_s, plan.limits["request_deadline_s"]), idle_s=plan.limits["idle_s"],
        )  # fmt: skip
        append_synced(path, members.encode([line, *requests]))
        if not requests or all(r.end == "refused" for r in requests):
            return "failed", (Reason("no server", found="connection refused", expected=server.url, where=batch.batch),)
        tokens = int(item.spec["cap"] if item.spec["kind"] == "strict" else item.spec["tokens"])
        results = [result_of(r, window=2, tokens=tokens, exact_length=False, prompt_tokens=None) for r in requests]
        done = sum(r.state == "complete" for r in results)
        generated += sum(len(r.token_ids) for r in results if r.state == "complete")
        rate = generated / max(time.monotonic() - start, 1e-3)
        tell(BatchDone(batch.batch, number, len(planned), done, len(requests), rate))
        if done < len(requests):
            break
    append_synced(path, members.encode([read_metrics(server.url, "after")]))
    return "measured", ()
