"""The simulated server's life: starting with its faults, routing requests, ending on SIGTERM."""

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rungproof.measure.simulated import burst, completions, scenarios, wire
from rungproof.measure.simulated.child import fork_child
from rungproof.measure.simulated.engine import Engine
from rungproof.measure.simulated.faults import VARIABLE, BrokenFaults, Faults
from rungproof.measure.simulated.metrics import render
from rungproof.measure.simulated.options import Options, parse

OTHER_MODEL = "another-model"  # what the fault wrong_model serves
VERSION = "simulated"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the simulated server until it is told to end. The exit code: 0 after SIGTERM or SIGINT, 1 if it cannot
    listen, 2 for a bad command line, or the code that its faults file asks for."""
    try:
        options = parse(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    end_child: Callable[[], None] | None = None
    if options.fork_child:
        end_child = fork_child(options.ignore_sigterm)
    try:
        if options.burst_ms:
            return _burst(options)
        return asyncio.run(_serve(options))
    except KeyboardInterrupt:
        return 0
    finally:
        if end_child is not None:
            end_child()


def _burst(options: Options) -> int:
    """Be the burst server S33 until told to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        bound = _bind(options)
    except OSError as error:
        log(f"ERROR:    cannot listen on {options.host} port {options.port}: {error.strerror}; choose another port")
        return 1
    with bound:
        try:
            return burst.serve(bound, _shown(bound), options)
        except SystemExit:
            return 0


def log(line: str) -> None:
    """One line on stderr; a log that nobody reads any more does not stop the server."""
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        return


@dataclass(frozen=True, slots=True)
class _Start:
    """What the faults file says about the start."""

    exit_code: int | None = None
    extra_s: float = 0.0
    never_ready: bool = False
    model: str | None = None
    lines: tuple[str, ...] = ()


def _start_faults(faults: Faults, model: str) -> _Start:
    try:
        come = faults.at_start(model)
    except BrokenFaults as error:
        log(f"ERROR: faults file: {error}")
        return _Start()
    names = {fault.do for fault in come}
    return _Start(
        exit_code=next((fault.value for fault in come if fault.do == "exit_at_start"), None),
        extra_s=sum(fault.value for fault in come if fault.do == "slow_start"),
        never_ready="never_ready" in names,
        model=OTHER_MODEL if "wrong_model" in names else None,
        lines=tuple(fault.value for fault in come if fault.do == "fault_line"),
    )


async def _serve(options: Options) -> int:
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    if options.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        loop.add_signal_handler(signal.SIGTERM, ending.set)
    loop.add_signal_handler(signal.SIGINT, ending.set)
    faults = Faults(os.environ.get(VARIABLE))
    start = _start_faults(faults, options.served_model_name)
    log(f"INFO:     Started simulated server process [{os.getpid()}]; nothing measured on it is a measurement")
    log(f"INFO:     served model {options.served_model_name!r}, draft depth {options.draft_depth}")
    log(f"INFO:     arguments it does not know: {json.dumps(options.extra, sort_keys=True)}")
    log("INFO:     Waiting for application startup.")
    for line in start.lines:
        log(line)
    try:
        bound = _bind(options)
    except OSError as error:
        log(f"ERROR:    cannot listen on {options.host} port {options.port}: {error.strerror}; choose another port")
        return 1
    with bound:
        if await _within(ending, options.start_s + start.extra_s):
            return 0
        if start.exit_code is not None:
            log("ERROR:    Application startup failed. Exiting.")
            return start.exit_code
        if start.never_ready:
            await ending.wait()
            return 0
        await _listen(Engine(options, faults, start.model or options.served_model_name), bound, ending)
    log(f"INFO:     Finished server process [{os.getpid()}]")
    return 0


async def _within(event: asyncio.Event, seconds: float) -> bool:
    """Whether `event` comes within `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def _bind(options: Options) -> socket.socket:
    """The port, taken before the start like a real engine does, so that a port in use is found at once."""
    family, kind, proto, _, address = socket.getaddrinfo(
        options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = socket.socket(family, kind, proto)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


async def _listen(engine: Engine, bound: socket.socket, ending: asyncio.Event) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _connection(engine, reader, writer)
        except OSError:
            pass  # the peer went away
        except asyncio.CancelledError:
            if not ending.is_set():  # while ending, Python 3.11 would log each cancelled connection as an error
                raise
        finally:
            writer.close()

    server = await asyncio.start_server(connected, sock=bound, limit=wire.MAX_HEAD, backlog=2048)
    log("INFO:     Application startup complete.")
    log(f"INFO:     Simulated server running on http://{_shown(bound)} (SIGTERM to quit)")
    await ending.wait()
    log("INFO:     Shutting down")
    server.close()


def _shown(bound: socket.socket) -> str:
    """host:port of a bound socket."""
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _connection(engine: Engine, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    keep = True
    while keep:
        try:
            request = await wire.read_request(reader, writer)
            if request is None:
                return
            try:
                keep = await _route(engine, request, reader, writer)
            except wire.Refused as refused:
                refused.close = refused.close or not request.keep_alive
                raise
        except wire.Refused as refused:
            keep = not refused.close
            body = wire.error_body(refused.status, refused.message, refused.param)
            await wire.send_json(writer, refused.status, body, keep)
            if not keep:
                await wire.linger(reader, writer)


async def _route(
    engine: Engine, request: wire.Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    what = scenarios.chosen(request)
    if what is not None:
        return await scenarios.answer(engine.hub, what, request, reader, writer)
    path = request.path
    wanted = "POST" if path == "/v1/completions" else "GET"
    if path not in ("/v1/completions", "/v1/models", "/health", "/version", "/metrics"):
        raise wire.Refused(404, "Not Found")
    if request.method != wanted:
        raise wire.Refused(405, f"this path takes {wanted}")
    if path == "/v1/completions":
        return await completions.answer(engine, request, reader, writer)
    keep = request.keep_alive
    if path == "/v1/models":
        await wire.send_json(writer, 200, _models(engine), keep)
    elif path == "/version":
        await wire.send_json(writer, 200, {"version": VERSION}, keep)
    elif path == "/metrics":
        text = render(engine.counters, engine.model, len(engine.running), engine.options.draft_depth)
        await wire.send(writer, 200, "text/plain; version=0.0.4; charset=utf-8", text.encode(), keep)
    else:
        await wire.send(writer, 200, "text/plain", b"", keep)
    return keep


def _models(engine: Engine) -> dict[str, object]:
    model = {
        "id": engine.model,
        "object": "model",
        "created": int(time.time()),
        "owned_by": "rungproof-simulated",
        "root": engine.model,
        "parent": None,
        "max_model_len": engine.options.max_model_len,
    }
    return {"object": "list", "data": [model]}
