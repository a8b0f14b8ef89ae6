"""Reading /metrics: counters that stand still, a server that is still busy with what its client gave up, one without counters."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rungproof.measure.workloads.metrics import read_metrics

QUIET = 'vllm:num_requests_running{e="0"} 0.0\nvllm:generation_tokens_total{e="0"} 9.0\nvllm:prompt_tokens_total{e="0"} 5.0\n'
BUSY = QUIET.replace("} 0.0", "} 1.0", 1)


@contextmanager
def server(first: str, then: str, after: int) -> Iterator[str]:
    """A server whose /metrics is `first` for `after` readings and `then` from there on; gives its URL."""
    asked = iter(range(10**6))

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = (first if next(asked) < after else then).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    made = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=made.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{made.server_address[1]}"
    finally:
        made.shutdown()
        thread.join()
        made.server_close()


def test_counters_are_read_when_they_stand_still() -> None:
    """Two readings in a row that agree, with nothing running, are settled."""
    with server(QUIET.replace("9.0", "8.0"), QUIET, 1) as url:
        read = read_metrics(url, "before")
    assert (read.settled, read.when, read.text) == (True, "before", QUIET)


def test_a_request_that_its_client_gave_up_does_not_spoil_the_next_measurement() -> None:
    """While the server says that it is busy the reading waits up to `busy_s`; without that it ends unsettled, and says so."""
    with server(BUSY, QUIET, 12) as url:
        assert read_metrics(url, "before", settle_s=0.1, busy_s=300.0).settled
    with server(BUSY, QUIET, 10**5) as url:
        begun = time.monotonic()
        read = read_metrics(url, "after", settle_s=0.1)
    assert (read.settled, read.text) == (False, BUSY)
    assert time.monotonic() - begun < 60


def test_a_server_without_counters_is_not_waited_for() -> None:
    """Only a server that says it is busy is given longer; one that tells nothing ends at the usual deadline."""
    with server("", "", 0) as url:
        begun = time.monotonic()
        read = read_metrics(url, "before", settle_s=0.1, busy_s=300.0)
    assert (read.settled, read.text) == (False, "")
    assert time.monotonic() - begun < 100
