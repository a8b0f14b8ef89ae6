"""README.md of a pack, for a reader who has never heard of rungproof."""

from collections import Counter

from rungproof.records.summary import Summary
from rungproof.records.text import clean

TEXT = """\
# {title}

Measurements of the campaign `{study}` on the host `{host}`, with every byte that they were computed from. {kind}
Of {points} points: {states}. *Qualified*: measured, and every output token equal to its oracle. *Withheld*: measured, but not
identical. *Invalid*, *failed*, *skipped*: no sound measurement, with the reason. All of them are in here.

Newest evidence: {newest}. {registered}

## Look

Open `page/index.html`. It needs no network and no server. Every number links to the raw file behind it. `page/points.csv` and
`page/points.json` hold the same numbers.

## Check, with Python 3.11 or newer and openssl alone

    sha256sum -c --quiet MANIFEST.sha256     # every byte is the one that was published
    python3 -I verify.py                     # manifest, signer, numbers, identity, sense: one line a level

`verify.py` uses the standard library alone. Read it first: it is one file. It loads `reducer/`, which recomputes all numbers from the
raw files, only after the bytes of the manifest have passed. The name of this folder is the beginning of the sha256 of
`MANIFEST.sha256`. Compare it, and the signer's key, with what the publisher says elsewhere.

No check of files shows that a run was honest. That shows a replay on another machine, from `plan/`.

## What lies where

| path | what |
|---|---|
| `plan/campaign.lock.json` | the plan: what was measured, and by which rules it was judged |
| `plan/inputs/` | the configuration and the locks that it was resolved from |
| `runs/*/` | one folder a call: the plan as it stood before the first request, its registration, the prompts |
| `sessions/*/` | one folder a fresh server: what was asked and found, every request with its bytes and stamps |
| `sessions/*/judged/`, `verdicts/`, `summary.json`, `tables/` | what was computed from them |
| `oracle/tokens.json` | the token ids that were taken as truth |
| `reducer/`, `verify.py` | the program that computes it again |
| `proof.intoto.jsonl` | signed statements, one a line; grows when others replay |
| `page/` | the page; not in the manifest, since it shows what others found |

`sessions/*/logs/server.log` is the server's own output: no number is made from it, its middle is left out where it is long, what
looked like a secret, or named whose home a folder is in, is replaced by `[left out]`, and it names folders of the machine that
measured. Nothing else in here was altered.
"""


def registration(summary: Summary) -> str:
    """A sentence on when the plan was fixed."""
    known = [session.registered for session in summary.sessions]
    if known and all(known):
        return (
            f"The plan was registered, with its sha256, before the first request of each call; first at {min(known)}."
        )
    return f"**The plan of {known.count('')} of {len(known)} servers was not registered before they were measured.**"


def readme(summary: Summary, newest: str) -> bytes:
    """The text. newest: when the newest evidence was made [UTC]."""
    states = Counter(point.state for point in summary.points)
    return TEXT.format(
        title=clean(summary.title),
        study=summary.campaign,
        host=summary.host,
        kind="**The server was simulated: nothing was measured.**" if summary.simulated else "",
        points=len(summary.points),
        states=", ".join(f"{n} {state}" for state, n in sorted(states.items())),
        newest=newest,
        registered=registration(summary),
    ).encode()
