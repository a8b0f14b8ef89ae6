"""A simulated completions server: the bytes of vLLM's HTTP interface, without a model.

It exists to test the orchestrator: its clients, supervisors, gates and whole small campaigns run against it in
seconds, and every fault a real server shows now and then can be asked of it at will. Its tokens are a hash of the
prompt and its speed is a timer set on the command line, so **nothing measured on it is a measurement**, and no
figure obtained from it may stand on a page as one.

`python -m rungproof.measure.simulated --port 8000 --served-model-name NAME` starts it; `--help` lists the knobs.

What holds, so that tests can count on it:

* the tokens of a prompt never depend on load, on the draft depth or on sampling parameters (module `answers`);
* `--flip-at-inflight N` breaks exactly that, for odd slots, from token 44 on (counted from 0): see `completions`;
* faults come from the JSON file named in the environment variable RUNGPROOF_SIM_FAULTS: see `faults`;
* a request whose path begins with the name of a scenario, or whose model has it, gets that scenario: see `scenarios`
  and docs/scenarios.md;
* `--burst-ms` makes it the burst server S33 instead: see `burst`;
* hostile requests get a 4xx answer and harm no other request (module `wire`).
"""

from rungproof.measure.simulated.server import main

__all__ = ["main"]
