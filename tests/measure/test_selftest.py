"""The client held against the burst server: the server is true, the record says what was found, and faults of the client show."""

import json
import time
from typing import Any

import pytest
import requests

from rungproof.cli import main
from rungproof.measure import selftest
from rungproof.measure.client.stream import Stream
from rungproof.measure.selftest import Round, burst_server, check_client, one_round, session_interval_ms
from rungproof.records import codec, raw
from rungproof.records.formats import ClientCheck


def test_the_burst_server_says_when_it_sent() -> None:
    """Every event carries a stamp that lies between its tick and its arrival, every request all of its tokens."""
    with burst_server(5.0) as address:
        found = one_round(address, 8, 5.0, 40)
    assert (found.lost, len(found.lags_ns), len(found.first_ns)) == (0, 320, 8)
    batch = found.lines[0]
    assert isinstance(batch, raw.Batch)
    assert min(found.lags_ns) >= -batch.error_ns
    assert found.stats["ticks"] >= 40
    assert found.stats["events"] == 320
    assert found.stats["late_p50_ms"] >= 0


def test_ticks_are_lockstep_and_keep_their_schedule() -> None:
    """Streams of one batch get their events in the same tick, ticks an interval apart, whoever asks; where the machine is too busy
    for that, the server says so."""
    with burst_server(50.0) as address:
        for _ in range(30):
            found = one_round(address, 4, 20.0, 11)
            if found.stats["skipped"] == 0 and found.stats["late_max_ms"] < 20:
                break
        page = requests.get(f"http://127.0.0.1:{address.port}/v1/models", timeout=60).json()
    assert page["data"][0]["id"] == "burst"
    assert (found.lost, found.stats["ticks"], found.stats["events"], found.stats["skipped"]) == (0, 11, 44, 0)
    assert 0.2 < found.wall_ns / 1e9 < 2.0


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"max_tokens": -1}', b'{"max_tokens": "x"}', b'{"interval_ms": 1e-9}', b"\xff"]
)
def test_the_burst_server_refuses_what_it_cannot_serve(body: bytes) -> None:
    """A body that is no request is answered so, and the server goes on."""
    with burst_server(5.0) as address:
        answer = requests.post(f"http://127.0.0.1:{address.port}/v1/completions", data=body, timeout=60)
        assert answer.status_code == 400
        assert one_round(address, 2, 5.0, 3).lost == 0


def test_the_record_holds_every_figure() -> None:
    """Lag, cost and rate are there, in order of size, and the record can be read back."""
    found = check_client(4, 5.0, session="s", boot="b", round_s=0.1)
    assert (found.streams, found.events, found.reasons, found.session, found.boot) == (4, 3 * 4 * 20, (), "s", "b")
    assert found.lag_p50_ms is not None
    assert found.lag_p99_ms is not None
    assert found.lag_max_ms is not None
    assert found.lag_p50_ms <= found.lag_p99_ms <= found.lag_max_ms
    assert found.cpu_us_event is not None
    assert found.cpu_us_event > 0
    assert (found.rate_events_s is None) == (found.lag_p99_ms > found.rate_lag_ms)
    assert codec.build(ClientCheck, json.loads(codec.canonical(found)), "x") == found


def test_a_client_with_late_stamps_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without kernel stamps and with 30 ms before each read, the lag says so, and there is no rate."""
    prompt_receive = Stream.receive

    def late_receive(stream: Stream) -> None:
        time.sleep(0.03)
        prompt_receive(stream)

    monkeypatch.setattr("rungproof.measure.client.stream.SO_TIMESTAMPNS", 32_000)
    monkeypatch.setattr(Stream, "receive", late_receive)
    monkeypatch.setattr(selftest, "DOUBLINGS", 3)
    found = check_client(1, 50.0, round_s=0.2)
    assert found.stamp_source == ("user",)
    assert found.lag_p50_ms is not None
    assert found.lag_p50_ms > 25
    assert found.rate_events_s is None
    assert found.rate_ended_by in (
        "lag",
        "server",
    )  # the search goes past a low rate that fails, as far as the server can


def test_lost_requests_are_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check in which requests were lost is no check."""
    whole = one_round

    def losing(*how: Any, **more: Any) -> Round:
        found = whole(*how, **more)
        return Round(found.lags_ns, found.first_ns, found.cpu_ns, found.wall_ns, 1, "kernel", found.stats, found.lines)

    monkeypatch.setattr(selftest, "one_round", losing)
    found = check_client(1, 5.0, round_s=0.05, search=False)
    assert [r.what for r in found.reasons] == ["requests lost"]
    assert found.rate_ended_by == "not searched"


def test_an_interval_for_every_concurrency() -> None:
    """10,000 events a second at most, and never more than a tick a millisecond."""
    assert [session_interval_ms(n) for n in (1, 10, 128)] == [1.0, 1.0, 12.8]


def test_the_command_prints_the_record(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """--json gives the record alone; without it a person reads the same figures."""
    monkeypatch.setattr(
        "rungproof.cli.selftest.check_client", lambda n, ms, round_s: check_client(n, ms, round_s=0.05, search=False)
    )
    assert main(["selftest", "client", "--streams", "2", "--interval-ms", "5", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["streams"], said["format"]) == (2, "rungproof.client/1")
    assert main(["selftest", "client", "--streams", "2", "--interval-ms", "5"]) == 0
    assert "p99" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["selftest", "client", "--streams", "0"])
