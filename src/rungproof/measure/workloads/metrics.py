"""Reading the server's /metrics until its counters stand still."""

import time

import requests

from rungproof.judge.counters import ENGINES, names_of
from rungproof.judge.prometheus import counters
from rungproof.records.raw import Metrics

SETTLE_S = 5.0  # longest wait for counters to stand still [s]
EVERY_S = 0.05


def read_metrics(url: str, when: str, settle_s: float = SETTLE_S, busy_s: float = 0.0) -> Metrics:
    """One reading of `url`/metrics: taken when nothing runs and two readings in a row agree, or at the deadline with settled False.

    While the server says that a request runs, the deadline is `busy_s` where that is longer: a request given up by its client
    goes on until the engine's next step, which is seconds away in a long prefill, and must not spoil what is measured next.
    A server without metrics gives an empty text, settled False; nothing is raised for what a server does.
    """
    begun = quiet_since = time.monotonic()
    last: list[float | None] | None = None
    text = ""
    with requests.Session() as session:
        session.trust_env = False
        while True:
            got = _get(session, f"{url}/metrics")
            if got is None:  # nobody listens: waiting would not help
                return Metrics(when=when, at_ns=time.monotonic_ns(), settled=False, text=text)  # type: ignore[arg-type]
            text = got
            now = counters(text)
            names = names_of(text) or ENGINES["vllm"]
            watched = [now.get(name) for name in names.watched]
            if now and watched == last and not now.get(names.running):
                return Metrics(when=when, at_ns=time.monotonic_ns(), settled=True, text=text)  # type: ignore[arg-type]
            if now.get(names.running):
                quiet_since = time.monotonic()
                late = quiet_since - begun > max(settle_s, busy_s)
            else:
                late = time.monotonic() - quiet_since > settle_s
            if late:
                return Metrics(when=when, at_ns=time.monotonic_ns(), settled=False, text=text)  # type: ignore[arg-type]
            last = watched
            time.sleep(EVERY_S)


def _get(session: requests.Session, url: str) -> str | None:
    try:
        answer = session.get(url, timeout=5)
        return answer.text if answer.status_code == 200 else ""
    except requests.ConnectionError:
        return None
    except requests.RequestException:
        return ""
