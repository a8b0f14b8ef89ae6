"""The measurement itself: per concurrency an oracle pass one at a time, then passes at once, raw bytes kept."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rungproof import __version__
from rungproof.judge.counters import counter_deltas, names_of, rework
from rungproof.measure.client import Planned, run_batch
from rungproof.measure.external import figures
from rungproof.measure.external.prompts import Prompts
from rungproof.measure.external.report import Report, RungReport
from rungproof.measure.external.target import Target
from rungproof.measure.workloads.metrics import read_metrics
from rungproof.records import raw
from rungproof.records.codec import canonical, digest, sha256
from rungproof.records.errors import ConfigError, HostError
from rungproof.records.files import append_synced, write_atomic
from rungproof.records.formats import REQUEST_STATES, Input, RequestResult
from rungproof.records.plan import Item
from rungproof.records.requests import ENGINES, BatchPlan, batches, sampling

SEED = 42
WINDOW = 100  # tokens of the decode rate's window, as in a campaign
# Not in OpenAI's own interface.
VENDOR = ("return_token_ids", "ignore_eos", "top_k", "min_p", "repetition_penalty", *ENGINES["llama.cpp"])
FINAL = (400, 401, 403, 404, 405, 413, 415, 422, 501)  # the same request would be refused again
WHY = (
    "rungproof did not launch this server, so it cannot know which settings are in force, whether its caches were empty "
    "and who else it serves; only servers that a campaign launches can be qualified"
)


@dataclass(frozen=True, slots=True)
class Ask:
    """What to measure. Deadlines in seconds; `out`: a folder for raw files and the report, None: nothing is kept. engine: from
    `target.find_engine`."""

    target: Target
    model: str
    prompts: Prompts
    concurrency: tuple[int, ...]
    tokens: int
    passes: int
    plain: bool
    deadline_s: float
    idle_s: float
    out: Path | None
    engine: str = ""

    @property
    def exact_length(self) -> bool:
        """Whether answers are asked to go on past their natural end, which takes a vendor parameter."""
        return not self.plain


@dataclass(frozen=True, slots=True)
class _Stop:
    """Why nothing more is sent."""

    words: str
    status: int | None


def measure(ask: Ask, say: Callable[[str], None]) -> Report:
    """Measure every concurrency in order. Nothing is raised for what the server does; `say` gets a line of progress a batch.

    A batch with a request that did not complete ends its rung; a server that is gone, or refuses the requests, ends all.
    Raises ConfigError for an `out` that holds a measurement already, HostError when the disk refuses.
    """
    _prepare(ask)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    rungs: list[RungReport] = []
    stop: _Stop | None = None
    for concurrency in ask.concurrency:
        item = item_of(ask, concurrency)
        lines: list[raw.Line] = []
        if stop is None:
            stop = _run(ask, item, lines, say)
        rungs.append(_rung(ask, item, lines))
    report = Report(
        url=ask.target.base, model=ask.model, plain=ask.plain, exact_length=ask.exact_length, prompts=ask.prompts.source,
        prompts_sha256=digest(ask.prompts.texts), tokens=ask.tokens, passes=ask.passes, seed=SEED, window=WINDOW, at=at,
        client=f"rungproof {__version__}", complete=all(r.state == "complete" for r in rungs), qualified=False, why_not_qualified=WHY,
        refused=stop.words if stop else "", refused_status=stop.status if stop else None, rungs=tuple(rungs),
    )  # fmt: skip
    if ask.out is not None:
        write_atomic(ask.out / "report.json", canonical(report))
    return report


def item_of(ask: Ask, concurrency: int) -> Item:
    """The rung as an item of a ladder. An answer is degenerate below one distinct id in eight tokens, at most 16 in all."""
    spec = {
        "kind": "ladder", "suite": ask.prompts.source, "suite_sha256": digest(ask.prompts.texts), "sampling": sampling(SEED, ask.engine),
        "concurrency": concurrency, "passes": ask.passes, "tokens": ask.tokens,
    }  # fmt: skip
    rules = {"window": WINDOW, "exact": "every-pass", "shown": "last", "min_distinct": max(1, min(16, ask.tokens // 8))}
    return Item("external", "a", "ladder", f"c{concurrency}", spec, digest(spec), rules)


def bodies(ask: Ask, item: Item) -> tuple[BatchPlan, ...]:
    """The batches of a rung as a campaign would send them; `plain` takes the vendor parameters out."""
    planned = batches(item, ask.prompts.texts, ask.model)
    if not ask.plain:
        return planned
    return tuple(
        BatchPlan(
            one.batch,
            tuple(
                dataclasses.replace(b, body={key: value for key, value in b.body.items() if key not in VENDOR})
                for b in one.bodies
            ),
        )
        for one in planned
    )


def raw_path(out: Path, item: Item) -> Path:
    """Where the raw file of a rung lies."""
    return out / f"{item.item}.raw.jsonl.gz"


def _prepare(ask: Ask) -> None:
    if ask.out is None:
        return
    names = ["report.json", *(raw_path(ask.out, item_of(ask, c)).name for c in ask.concurrency)]
    for name in names:
        if (ask.out / name).exists():
            raise ConfigError(f"--out {ask.out}: {name} is there already; raw files are never mixed. Give a new folder")
    try:
        ask.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HostError(f"--out {ask.out}: the folder cannot be made ({error.strerror}); give another one") from error


def _run(ask: Ask, item: Item, lines: list[raw.Line], say: Callable[[str], None]) -> _Stop | None:
    """Send the batches of a rung, collecting its raw lines; returns why nothing more can be sent, if so."""

    members = raw.Members(f"{item.id}.raw.jsonl.gz")

    def keep(*new: raw.Line) -> None:
        lines.extend(new)
        if ask.out is not None:
            append_synced(raw_path(ask.out, item), members.encode(new))

    keep(raw.Header("external", "", item.id), _counters(ask.target.base, "before"))
    planned = bodies(ask, item)
    stop: _Stop | None = None
    for number, batch in enumerate(planned, start=1):
        line, requests = run_batch(
            ask.target.address, [Planned(b.key, b.body) for b in batch.bodies], batch=batch.batch, path=ask.target.path,
            deadline_s=ask.deadline_s, idle_s=ask.idle_s,
        )  # fmt: skip
        keep(line, *requests)
        results = [figures.result(r, item, ask.exact_length) for r in requests]
        done = sum(r.state == "complete" for r in results)
        say(f"{item.item}: batch {number}/{len(planned)} {batch.batch}: {done}/{len(requests)} complete")
        if done < len(requests):
            stop = _final(requests, results)
            break
    keep(_counters(ask.target.base, "after"))
    return stop


def _counters(base: str, when: str) -> raw.Metrics:
    """A server that shows no counters is not waited for: they cannot come to rest."""
    first = read_metrics(base, when, settle_s=0.0)
    return read_metrics(base, when) if names_of(first.text) else first


def _final(requests: Sequence[raw.Request], results: Sequence[RequestResult]) -> _Stop | None:
    """Why the next rung would meet the same end; None if it may not."""
    if any(r.connected_ns is None for r in requests):
        lost = next(r for r in requests if r.connected_ns is None)
        return _Stop(f"no connection: {lost.detail}", None)
    if all(r.state == "http_error" for r in results):
        status = figures.response_of(requests[0]).status
        if status in FINAL:
            return _Stop(results[0].reasons[0].found, status)
    return None


def _rung(ask: Ask, item: Item, lines: Sequence[raw.Line]) -> RungReport:
    concurrency = int(item.spec["concurrency"])
    results, made = figures.read(lines, item, ask.exact_length)
    states = {str(state): sum(r.state == state for r in results) for state in REQUEST_STATES}
    planned = concurrency * (1 + ask.passes)
    complete = states["complete"] == planned
    identity = figures.identity_of(results, ask.plain)
    passes = tuple(figures.pass_figures(b, results, identity) for b in made if b.batch.startswith(figures.PASS))
    counters = counter_deltas(lines)
    if "preemptions" not in counters:
        counters["reworked_tokens"] = rework(counters, results)
    shown = passes[-1] if len(passes) == ask.passes and all(p.aggregate is not None for p in passes) else None
    doubts = figures.doubts_of(item, results, counters, complete) if results else ()
    path = raw_path(ask.out, item) if ask.out is not None and lines else None
    return RungReport(
        concurrency=concurrency, state="complete" if complete else "incomplete" if results else "not measured", planned=planned, states=states,
        aggregate=shown.aggregate if shown else None, per_user=shown.per_user if shown else None,
        decode_rate=shown.decode_rate if shown else None, ttft_ms_median=shown.ttft_ms_median if shown else None,
        passes=passes, identity=identity, doubts=doubts, counters=counters, batches=tuple(made), requests=tuple(results),
        raw=Input(path.name, sha256(path.read_bytes())) if path else None,
    )  # fmt: skip
