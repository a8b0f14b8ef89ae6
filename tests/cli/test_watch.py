"""`rungproof watch` and what status says of a running campaign: true states, one machine alone, and as good as no load."""

import http.client
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cli.kit import HOSTILE, ROOT
from judge.plan_kit import arm, ids_of, ladder, plan, record, request, rung_record, session, strict, verdicts_of
from publish.parsed import Page
from rungproof.cli import running, watch
from rungproof.publish.pages.live import ItemNow, Now, live_html, status_lines
from rungproof.records.codec import canonical
from rungproof.records.formats import Judged, Reason

CLASSES = {"s0": "x", "s1": "y"}
SEATS = ("base.a", "base.b")
ITEMS = [
    strict("base.a", CLASSES),
    *(ladder("base.a", c) for c in (1, 2, 4, 8)),
    strict("base.b", CLASSES),
    ladder("base.b", 1),
]
PLAN = plan([arm("base")], ITEMS)
NOW = Now("made", "Made by hand", False, (), (), "", "", 0, 0, 0.0, 0.0)


def keep(study: Path, j: Judged, accepted: bool = True) -> None:
    """Write a judged record, and its accepted copy."""
    paths = [study / f"sessions/{j.session}/judged/{j.workload}.{j.item}.json"]
    paths += [study / f"accepted/{j.arm}.{j.replicate}/{j.workload}/{j.item}.json"] if accepted else []
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(canonical(j))


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A campaign in the middle: one server closed and judged, the second open with its suite measured and its rung under way."""
    done = [
        record(ITEMS[0], [request(f"strict-{k}", k, ids_of(k)) for k in CLASSES]),
        rung_record(ITEMS[1], [(1, 100.0), (1, 100.0)]),
        rung_record(ITEMS[2], [(2, 150.0), (1, 150.0)]),
    ]
    for j in done:
        keep(tmp_path, j)
    bad = replace(
        rung_record(ITEMS[3], [(4, 9.0), (4, 9.0)]), state="invalid", reasons=(Reason(f"cache hit {HOSTILE}"),)
    )
    keep(tmp_path, bad, accepted=False)
    (tmp_path / "verdicts").mkdir()
    for verdict in verdicts_of(PLAN, done, [session("r001.base.a")]):
        (tmp_path / f"verdicts/{verdict.gate}.json").write_bytes(canonical(verdict))
    home = tmp_path / "sessions/r001.base.b"
    for name in ("control/order.json", "server.json", "canary_before.json", "attempts/strict.suite.json"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("{}")
    (tmp_path / "runs/r001").mkdir(parents=True)
    (tmp_path / "runs/r001/run.json").write_bytes(
        canonical(
            {
                "sessions": {"r001.base.b": [ITEMS[5].id, ITEMS[6].id]},
                "expected_s": {"r001.base.b": {"server": 60.0, ITEMS[5].id: 60.0, ITEMS[6].id: 120.0}},
            }
        )
    )
    monkeypatch.setattr(running, "supervised", lambda folder: folder.name == "r001.base.b")
    return tmp_path


def test_each_item_is_told_as_its_records_have_it(study: Path) -> None:
    """Identical, withheld, accepted, invalid, measured, being measured, to do: each from the files, with its value only where accepted."""
    found = running.now(PLAN, study, running.Records())
    assert {item.id: (item.state, item.value, item.counted) for item in found.items} == {
        "base.a/strict/suite": ("accepted", 100.0, ""),
        "base.a/ladder/c1": ("identical", 100.0, "2 of 2"),
        "base.a/ladder/c2": ("withheld", 150.0, "3 of 4"),
        "base.a/ladder/c4": ("invalid", None, ""),
        "base.a/ladder/c8": ("to do", None, ""),
        "base.b/strict/suite": ("measured", None, ""),
        "base.b/ladder/c1": ("being measured", None, ""),
    }
    assert (found.session, found.doing, found.done, found.of) == ("r001.base.b", "base.b/ladder/c1", 1, 2)
    assert re.fullmatch(r"about \d+ min left", found.left)
    text = "\n".join(status_lines(found))
    assert "7 items: 1 identical, 1 withheld, 1 accepted, 1 measured, 1 being measured, 1 invalid, 1 to do" in text
    assert "r001.base.b, base.b/ladder/c1 [1/2, about" in text


def test_a_run_that_has_ended_is_not_called_running(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that is still open but has no supervisor is measured by nobody."""
    monkeypatch.setattr(running, "supervised", lambda folder: False)
    found = running.now(PLAN, study, running.Records())
    assert found.session == "" and "being measured" not in {item.state for item in found.items}
    assert "Nothing is being measured" in live_html(found, "now", 5)


def test_a_record_made_under_other_rules_is_no_result(study: Path) -> None:
    """An accepted copy of another spec counts as to do; a half written one does not break the page."""
    keep(study, replace(rung_record(ITEMS[1], [(1, 100.0), (1, 100.0)]), spec_sha256="0" * 64))
    (study / "accepted/base.a/ladder/c2.json").write_text('{"format": "rungproof.judg')
    states = {item.id: item.state for item in running.now(PLAN, study, running.Records()).items}
    assert (states["base.a/ladder/c1"], states["base.a/ladder/c2"]) == ("to do", "to do")


def test_files_are_read_once(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second look reads no record again; one that changed is read, and it alone."""
    asked: list[Path] = []
    real = running.read
    monkeypatch.setattr(running, "read", lambda cls, path: (asked.append(path), real(cls, path))[1])
    records = running.Records()
    running.now(PLAN, study, records)
    first, asked[:] = len(asked), []
    assert first > 5
    running.now(PLAN, study, records)
    assert asked == []
    keep(study, rung_record(ITEMS[1], [(1, 1234.5), (1, 1234.5)]))
    assert any(item.value == 1234.5 for item in running.now(PLAN, study, records).items)
    assert {path.name for path in asked} == {"c1.json"}


def test_however_many_ask_the_files_are_looked_at_once_in_five_seconds() -> None:
    """The page is made again only when it is old, and never when nobody asks."""
    made, clock = [], [0.0]
    snapshot = watch.Snapshot(lambda: (made.append(1), {"/": b"page"})[1], lambda: clock[0])
    assert made == []
    for _ in range(50):
        assert snapshot.page("/") == b"page"
    assert len(made) == 1
    clock[0] = watch.EVERY_S - 0.1
    snapshot.page("/")
    assert len(made) == 1
    clock[0] = watch.EVERY_S + 0.0
    snapshot.page("/")
    assert len(made) == 2


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    """A running server with a page of one word."""
    server = watch.serve(0, watch.Snapshot(lambda: {"/": b"<p>word</p>", "/still": b"<p>still</p>"}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server.server_address[:2]
    server.shutdown()
    server.server_close()
    thread.join(60)


def asked(
    address: tuple[str, int], host: str | None, path: str = "/", method: str = "GET"
) -> tuple[int, str, dict[str, str]]:
    """One request with this Host header, or none."""
    connection = http.client.HTTPConnection(*address, timeout=60)
    connection.putrequest(method, path, skip_host=True)
    if host is not None:
        connection.putheader("Host", host)
    connection.endheaders()
    response = connection.getresponse()
    found = response.status, response.read().decode(), {k.lower(): v for k, v in response.getheaders()}
    connection.close()
    return found


@pytest.mark.parametrize("host", ["localhost", "localhost:8650", "127.0.0.1:1", "LOCALHOST:80"])
def test_this_machine_gets_the_page(address: tuple[str, int], host: str) -> None:
    """With headers that forbid every load, frame and script."""
    status, text, headers = asked(address, host)
    assert (status, text) == (200, "<p>word</p>")
    assert (
        "default-src 'none'" in headers["content-security-policy"]
        and "frame-ancestors 'none'" in headers["content-security-policy"]
    )
    assert headers["refresh"] == "5" and "refresh" not in asked(address, host, "/still")[2]
    assert headers["cache-control"] == "no-store" and headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example",
        "evil.example:8650",
        "localhost.evil.example",
        "localhost:x",
        "127.0.0.1.evil.example",
        "0.0.0.0",
    ],
)
def test_another_name_gets_nothing(address: tuple[str, int], host: str | None) -> None:
    """A page elsewhere whose name was made to point at this machine cannot read the results."""
    status, text, _ = asked(address, host)
    assert status == 421 and "word" not in text


def test_there_is_one_page_and_nothing_can_be_sent(address: tuple[str, int]) -> None:
    """No file of the machine is served, and no method but GET and HEAD is known."""
    assert [
        asked(address, "localhost", path)[0] for path in ("/../../etc/passwd", "/results/", "/?x", "http://localhost/")
    ] == [404] * 4
    assert asked(address, "localhost", method="POST")[0] == 501
    assert asked(address, "localhost", method="HEAD")[:2] == (200, "")


def test_hostile_text_is_shown_and_not_obeyed(study: Path) -> None:
    """Names and reasons are escaped, invisible characters shown as codes; there is no script, and the page asks for itself again."""
    found = running.now(PLAN, study, running.Records())
    evil = '"><script>alert(1)</script><b onmouseover=x>'
    page = live_html(
        replace(
            found,
            title=evil,
            doing=evil,
            items=(*found.items, ItemNow(evil, "to do", 1.5, evil, evil, evil, evil + HOSTILE)),
        ),
        evil,
        5,
    )
    parsed = Page(page)
    assert not parsed.faults and not parsed.all("script") and not parsed.all("b", onmouseover="x")
    assert not set("\x1b\x07\x9b\u202e") & set(page) and "[U+001B]" in page
    assert "asks again every 5 s" in page and not parsed.all("meta", **{"http-equiv": "refresh"})
    assert "held still" in live_html(found, "now", 0)
    assert parsed.all("h1")[0].text == evil


def test_the_command_ends_with_ctrl_c_and_yields_to_everything(tmp_path: Path) -> None:
    """It listens on 127.0.0.1 alone, runs at the lowest priority, says so, serves the page, and ends with 0."""
    command = [
        sys.executable,
        "-m",
        "rungproof.cli",
        "watch",
        "smoke",
        "--host",
        "simulated",
        "--port",
        "0",
        "--root",
        str(ROOT),
    ]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", first)[1])  # type: ignore[index]
        assert "at most every 5 s and at the lowest priority" in process.stdout.readline()
        process.stdout.readline()
        status, text, _ = asked(("127.0.0.1", port), f"localhost:{port}")
        assert status == 200 and "Simulated" in text and "to do" in text
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == 19
        listening = [
            line.split()[1]
            for line in Path(f"/proc/{process.pid}/net/tcp").read_text().splitlines()
            if line.split()[1].endswith(f":{port:04X}")
        ]
        assert listening[:1] == [f"0100007F:{port:04X}"] and not any(one.startswith("00000000:") for one in listening)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait(60)
