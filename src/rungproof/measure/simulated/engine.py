"""The simulated engine: requests in flight, and the steps that yield their tokens.

Each request in flight holds the smallest free slot number (0, 1, 2, ...). With `--flip-at-inflight N` the identity
failure of real engines is imitated: a request in an odd slot which has shared the server with others, so that at
least N were in flight at some moment before its token 44 (counted from 0), says wrong tokens from 44 on.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from rungproof.measure.simulated.answers import Answer, Writer
from rungproof.measure.simulated.faults import AT_END, SCRIPT, Fault, Faults, Situation
from rungproof.measure.simulated.metrics import Counters
from rungproof.measure.simulated.options import Options
from rungproof.measure.simulated.scenarios.talk import Hub

FLIP_AT = 44  # position of the first wrong token
DIED = 70  # exit code of the fault `die`
_CATCH_UP_S = 0.01  # a step that is later than this does not hurry the ones after it


class Interrupted(Exception):
    """A fault ends the body of an answer: `how` is drop, error_in_band, hang or cut_no_done."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


@dataclass(frozen=True, slots=True)
class Step:
    """What one engine step yields: ids that share an event, their text, and why the answer ends with it (or None)."""

    ids: tuple[int, ...]
    text: str
    finish: str | None


@dataclass(slots=True, eq=False)
class Run:
    """One request in flight. `peak`: the most requests that were in flight since it was admitted."""

    prompt_ids: Sequence[int]
    prompt: str
    max_tokens: int
    ignore_eos: bool
    faults: tuple[Fault, ...]
    slot: int = -1
    peak: int = 0
    cached: int = 0
    produced: int = 0
    finish: str | None = None
    wrong_from: int | None = None
    script_at: int | None = None
    extra_s: float = 0.0
    writer: Writer = field(default_factory=Writer)


class Engine:
    """All that one server process knows: its options, its counters, its faults, what is in flight, and its scenarios' memory."""

    def __init__(self, options: Options, faults: Faults, model: str) -> None:
        self.options = options
        self.faults = faults
        self.model = model
        self.counters = Counters(accepted=[0] * options.draft_depth)
        self.running: list[Run] = []
        self.hub = Hub()

    def admit(self, run: Run) -> None:
        """Give `run` a slot and count its prompt."""
        taken = {other.slot for other in self.running}
        run.slot = next(number for number in range(len(taken) + 1) if number not in taken)
        self.running.append(run)
        self.counters.prompt_tokens += len(run.prompt_ids)
        for other in self.running:
            other.peak = max(other.peak, len(self.running))

    def leave(self, run: Run) -> None:
        """Free the slot of `run`; an answer that did not end counts as aborted."""
        self.running.remove(run)
        self.counters.finished[run.finish or "abort"] += 1

    def comes(self, fault: Fault, run: Run) -> bool:
        """Whether a fault comes for `run` now."""
        return self.faults.comes(fault, Situation(len(self.running), run.prompt, self.options.served_model_name))

    def whole_answer_fault(self, run: Run, do: str) -> bool:
        """Whether a fault of the whole answer (http_500, cache_hit) comes for `run`."""
        return any(fault.do == do and self.comes(fault, run) for fault in run.faults)

    def find_in_cache(self, run: Run) -> None:
        """Pretend that half of the prompt, at least one token, was in the prefix cache."""
        run.cached = max(1, len(run.prompt_ids) // 2)
        self.counters.cache_queries += len(run.prompt_ids)
        self.counters.cache_hits += run.cached

    async def prefill(self) -> None:
        """The time before the first token."""
        await asyncio.sleep(self.options.prefill_ms / 1000)

    async def steps(self, run: Run) -> AsyncIterator[Step]:
        """The steps of an admitted and prefilled request. Raises Interrupted where a fault ends the body."""
        answer = Answer(run.prompt_ids, run.prompt)
        natural = run.max_tokens if run.ignore_eos else answer.natural_length
        length = min(natural, run.max_tokens)
        reason = "stop" if length == natural and not run.ignore_eos else "length"
        depth = self.options.draft_depth
        clock = asyncio.get_running_loop().time
        due = clock()
        while run.finish is None:
            start = run.produced
            self._faults_at(run, start)
            if run.finish is not None:  # the fault `short`
                yield Step((), "", run.finish)
                break
            size = min(answer.step_size(start, depth), length - start)
            size = min([size, *(f.position - start for f in run.faults if f.position > start)])
            if start:
                due = max(due + self.options.token_ms / 1000 + run.extra_s, clock() - _CATCH_UP_S)
                await asyncio.sleep(max(0.0, due - clock()))
            step = self._step(run, answer, size, reason if start + size == length else None)
            self.counters.step(size, depth, drafted=depth > 0 and start > 0)
            yield step
        self._faults_at(run, AT_END)

    def _step(self, run: Run, answer: Answer, size: int, finish: str | None) -> Step:
        ids: list[int] = []
        text: list[str] = []
        for k in range(run.produced, run.produced + size):
            code, spoken = self._token(run, answer, k)
            ids.append(code)
            text.append(run.writer.spoken(code) if spoken else run.writer.drawn(code))
        run.produced += size
        run.finish = finish
        return Step(tuple(ids), "".join(text), finish)

    def _token(self, run: Run, answer: Answer, k: int) -> tuple[int, bool]:
        """The id at position k, and whether it is a byte of a literal text."""
        if run.script_at is not None and 0 <= k - run.script_at < len(SCRIPT):
            return SCRIPT[k - run.script_at], True
        limit = self.options.flip_at_inflight
        if k == FLIP_AT and limit and run.slot % 2 and run.peak >= limit:
            run.wrong_from = k if run.wrong_from is None else run.wrong_from
        if run.wrong_from is not None and k >= run.wrong_from:
            return answer.flipped(k), False
        return answer.token(k), k < len(answer.spoken)

    def _faults_at(self, run: Run, position: int) -> None:
        for fault in run.faults:
            if fault.position != position or fault.do not in _IN_STREAM or not self.comes(fault, run):
                continue
            match fault.do:
                case "die":
                    print("ERROR: the simulated engine died, as its faults file asks", file=sys.stderr, flush=True)
                    os._exit(DIED)
                case "flip":
                    run.wrong_from = position
                case "short":
                    run.finish = "stop"
                case "slow":
                    run.extra_s += fault.value / 1000
                case "preempt":
                    self.counters.preemptions += 1
                case "script":
                    run.script_at = position
                case _:
                    raise Interrupted(fault.do)


_IN_STREAM = frozenset(
    {"drop", "error_in_band", "hang", "die", "flip", "cut_no_done", "short", "slow", "preempt", "script"}
)
