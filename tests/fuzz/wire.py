"""A coverage-guided fuzzer on everything that reads what a server sent. `make fuzz` runs it for FUZZ_S seconds.

Each input is an answer and a way to cut it into reads. What must hold: no exception and no hang; the same events however it was
cut, each stamped by the read that completes it; one state, and a reason unless it is complete; no more tokens than the bytes hold.
A failing input is written where libFuzzer says; put it into tests/judge/wire_scenarios.py with what must come of it.
"""

import sys
from itertools import pairwise
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["rungproof.judge", "rungproof.records"]):
    from rungproof.judge import prometheus
    from rungproof.judge.outcome import result_of
    from rungproof.judge.wire import Response, parse_response
    from rungproof.records import codec, raw
    from rungproof.records.formats import REQUEST_STATES

ENDS = ("framed", "eof", "reset", "timeout", "refused", "cancelled", "oversize", "client_error")
HEADS = (
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\n",
    b"",
)
EVENT = b'data: {"choices":[{"index":0,"text":"a","token_ids":[1],"finish_reason":null}]}\n\n'
MOST_CUTS = 16


def one(data: bytes) -> None:
    """Judge one input."""
    provider = atheris.FuzzedDataProvider(data)
    head = HEADS[provider.ConsumeIntInRange(0, len(HEADS) - 1)]
    good = EVENT * provider.ConsumeIntInRange(0, 3)
    end = ENDS[provider.ConsumeIntInRange(0, len(ENDS) - 1)]
    marks = [provider.ConsumeIntInRange(0, 4096) for _ in range(provider.ConsumeIntInRange(0, MOST_CUTS))]
    noise = provider.ConsumeBytes(provider.remaining_bytes())
    if head == HEADS[0]:
        good = b"".join(b"%x\r\n%b\r\n" % (len(EVENT), EVENT) for _ in range(len(good) // len(EVENT)))
    sent = head + good + noise
    whole = parse_response([(i, sent[i : i + 1]) for i in range(len(sent))])
    bounds = [0, *sorted(min(mark, len(sent)) for mark in marks), len(sent)]
    cut = parse_response([(stop, sent[start:stop]) for start, stop in pairwise(bounds)])
    assert said(whole) == said(cut), (said(whole), said(cut))
    for ours, byte in zip(cut.events, whole.events, strict=True):
        assert ours.at_ns == min(stop for stop in bounds if stop > byte.at_ns)
    ids = sum(len(event.token_ids) for event in whole.events)
    assert ids <= len(sent)
    request = raw.Request(
        "b", "k", '{"stream":true}', 1, 1, 2, end, 10**6, "", ((10**6, len(sent)),), sent.decode("latin-1")
    )  # type: ignore[arg-type]
    found = result_of(request, window=2, tokens=4, exact_length=True, prompt_tokens=1)
    assert found.state in REQUEST_STATES
    assert found.state == "complete" or found.reasons
    codec.canonical(found)
    text = noise.decode("utf-8", "replace")
    for value in prometheus.delta_by(text, text, "p", "position").values():
        assert value == 0.0


def said(response: Response) -> tuple[object, ...]:
    """Everything but the stamps."""
    return (
        response.status, response.headers, [(e.token_ids, e.text, e.reasoning) for e in response.events], response.usage,
        response.finish_reason, response.done, response.error, response.complete_framing, response.notes, response.text,
        response.streamed, response.until_close, response.problem,
    )  # fmt: skip


def seed(folder: Path) -> None:
    """Write every small scenario of the parser's tests as an input. The numbers are read from the end of one: first the head
    (the last, which is none), then no event before it, then how it ended, then no cut."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from judge.wire_scenarios import SCENARIOS

    folder.mkdir(parents=True, exist_ok=True)
    for number, scenario in enumerate(SCENARIOS.values()):
        if len(scenario.data) < 4000:
            numbers = bytes([0, ENDS.index(scenario.end), 0, len(HEADS) - 1])
            (folder / f"scenario-{number:03d}").write_bytes(scenario.data + numbers)


if __name__ == "__main__":
    seed(Path(sys.argv[1]))
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
