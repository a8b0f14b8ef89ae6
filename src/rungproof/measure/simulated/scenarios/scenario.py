"""What a scenario is: what the server does, which faults of clients that brings out, and what ours reports of it."""

from dataclasses import dataclass, field

from rungproof.measure.simulated.scenarios.plays import Play
from rungproof.records.formats import RequestState


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario. The client's answer to it: `states` of `streams` requests sent at once; `reason` and `words`, of the
    requests that have any; `ours`, in words. `tokens`: max_tokens that brings it out; `chat`: asked at chat/completions."""

    name: str
    does: str
    faults: str
    play: Play
    ours: str
    states: dict[RequestState, int] = field(default_factory=lambda: {"complete": 1})
    reason: str = ""
    words: str = ""
    tokens: int = 12
    chat: bool = False

    @property
    def streams(self) -> int:
        """How many requests at once."""
        return sum(self.states.values())


_WHAT: dict[RequestState, str] = {
    "error_in_band": "error in the answer", "truncated": "truncated", "timeout": "timeout", "http_error": "HTTP error",
}  # fmt: skip


def lost(name: str, does: str, faults: str, play: Play, ours: str, state: RequestState, words: str) -> Scenario:
    """A scenario whose one request ends in `state`, with a reason that says `words`."""
    return Scenario(name, does, faults, play, ours, {state: 1}, _WHAT[state], words)
