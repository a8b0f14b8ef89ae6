"""`rungproof watch`: a page of the campaign that is being measured, on an address of this machine alone."""

import argparse
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from rungproof.cli.running import Records, now
from rungproof.cli.words import clean
from rungproof.publish.pages.live import live_html
from rungproof.records.errors import ConfigError, HostError
from rungproof.records.plan import Plan

ADDRESS = "127.0.0.1"
EVERY_S = 5  # files are looked at no more often than this, however many browsers ask
TIMEOUT_S = 5.0  # a connection that says nothing for so long is closed
NAMES = ("localhost", ADDRESS)
FOLLOWED, STILL = "/", "/still"  # the page asks again by itself, as the header Refresh tells it; or it does not
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def add_options(to: argparse.ArgumentParser) -> None:
    """The options of watch beside those of plan and status."""
    to.add_argument(
        "--port", type=int, default=8650, metavar="N", help="port on 127.0.0.1 (default: %(default)s; 0: any)"
    )


class Snapshot:
    """The pages as bytes, made again at most every EVERY_S seconds, and only when somebody asks."""

    def __init__(self, make: Callable[[], dict[str, bytes]], clock: Callable[[], float] = time.monotonic) -> None:
        self._make, self._clock, self._lock = make, clock, threading.Lock()
        self._pages: dict[str, bytes] = {}
        self._made = float("-inf")

    def page(self, path: str) -> bytes:
        """The newest page under this path that may be shown. Raises KeyError for any other path."""
        with self._lock:
            if self._clock() - self._made >= EVERY_S:
                self._pages = self._make()
                self._made = self._clock()  # after the making: a slow disk is not asked more often for being slow
            return self._pages[path]


def watch(options: argparse.Namespace, plan: Plan, study: Path) -> int:
    """Serve the page until Ctrl-C. Raises ConfigError for a port that is none, HostError for one that is taken."""
    records = Records()

    def make() -> dict[str, bytes]:
        moment = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        seen = now(plan, study, records)
        every = {FOLLOWED: EVERY_S, STILL: 0}
        return {path: live_html(seen, moment, s).encode("utf-8", "replace") for path, s in every.items()}

    server = serve(options.port, Snapshot(make))
    yield_everything()
    print(
        clean(
            f"{plan.study}: http://{ADDRESS}:{server.server_address[1]}/  (Ctrl-C ends it; this machine alone can open it)"
        )
    )
    print(
        f"It only reads finished records, at most every {EVERY_S} s and at the lowest priority. Where a server is measured on\n"
        "every core of this machine, look from time to time rather than leave it open: a browser costs more than this command.",
        flush=True,
    )
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print()
    finally:
        server.server_close()
    return 0


def serve(port: int, snapshot: Snapshot) -> ThreadingHTTPServer:
    """A server for the snapshot on 127.0.0.1, not running yet."""
    if not 0 <= port <= 65535:
        raise ConfigError(f"--port {port}: expected 0 to 65535")
    try:
        server = ThreadingHTTPServer((ADDRESS, port), _handler(snapshot))
    except OSError as error:
        raise HostError(
            f"port {port} of {ADDRESS} cannot be had ({error.strerror}); use another --port, or 0 for any"
        ) from error
    server.daemon_threads = True
    return server


def yield_everything() -> None:
    """Run only when nothing else wants a processor: lowest niceness, and the idle class where Linux has it."""
    os.nice(19)
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def allowed(host: str | None) -> bool:
    """Whether a Host header names this machine itself: a page elsewhere that had its name point here must get nothing."""
    name, _, port = (host or "").rpartition(":") if ":" in (host or "") else (host or "", "", "")
    return name.lower() in NAMES and (not port or port.isdecimal())


def _handler(snapshot: Snapshot) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "rungproof", ""
        timeout = TIMEOUT_S

        def do_GET(self) -> None:
            self._answer(True)

        def do_HEAD(self) -> None:
            self._answer(False)

        def _answer(self, body: bool) -> None:
            if not allowed(self.headers.get("Host")):
                self._send(421, b"This address answers to localhost alone.\n", "text/plain", body)
            elif self.path not in (FOLLOWED, STILL):
                self._send(404, b"There is one page here: /\n", "text/plain", body)
            else:
                self._send(200, snapshot.page(self.path), "text/html", body)

        def _send(self, status: int, data: bytes, kind: str, body: bool) -> None:
            self.send_response(status)
            for name, value in HEADERS.items():
                self.send_header(name, value)
            if status == 200 and self.path == FOLLOWED:
                self.send_header("Refresh", str(EVERY_S))
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if body:
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Nothing is written for a request: the terminal stays as it is."""

    return Handler
