"""All scenarios, and their table in words: docs/scenarios.md is made from it.

`python -m rungproof.measure.simulated.scenarios` writes that file's text, and a test runs every scenario and holds what
is said of it against what is found.
"""

from rungproof.measure.simulated.scenarios.loads import LOADS
from rungproof.measure.simulated.scenarios.streams import STREAMS

SCENARIOS = {one.name: one for one in (*STREAMS, *LOADS)}
ELSEWHERE = {
    "S33": (
        "bursts as from an engine's steps, the server's own stamps inside",
        "served by `rungproof simulate --burst-ms 20`; `rungproof selftest client` measures against it",
    ),
    "S46": (
        "conversations that end before their last turn",
        "no workload has turns; planned = the sum of states holds for every batch",
    ),
    "S56": (
        "an old server holds the port",
        "not a stream: the supervisor's tests (listener in our own tree, a nonce in the served name)",
    ),
}
_INTRO = """\
# Scenarios of the simulated server

Every way known to us in which a server brings out a fault of a benchmark client, and what the client of rungproof reports of it.
This file is made from `src/rungproof/measure/simulated/scenarios/` by `make scenarios`; `tests/measure/test_scenarios.py` runs
each one and fails where the last column, the state or the reason is not what is found. B numbers name the public reports that
a scenario stands for.

`rungproof simulate --port 8000 --served-model-name NAME` serves all of them to any client, by path
(`http://127.0.0.1:8000/S11/v1/completions`, so `http://127.0.0.1:8000/S11` as base URL) or by the name of the model (`"model": "S11"`);
`/v1/chat/completions` answers in the chat's form.

| scenario | the server | faults | rungproof reports |
|---|---|---|---|
"""


def document() -> str:
    """The text of docs/scenarios.md."""
    rows = [(s.name, s.does, s.faults, s.ours) for s in SCENARIOS.values()]
    rows += [(name, does, "", ours) for name, (does, ours) in ELSEWHERE.items()]
    return _INTRO + "".join(f"| {' | '.join(row)} |\n" for row in sorted(rows))
