"""The plan comes before the first request, by two clocks that agree: each way in which it may not is told, and nothing else."""

from dataclasses import replace
from typing import Any

import pytest

from judge.plan_kit import arm, plan, strict
from rungproof.judge.checks.found import Found
from rungproof.judge.checks.registered import check_registered
from rungproof.judge.checks.stamps import Span
from rungproof.records.codec import canonical, sha256
from rungproof.records.formats import Registered, Server

S = 10**9
UTC0 = 1_700_000_000  # 2023-11-14T22:13:20Z
OFFSET = (UTC0 - 1000) * S  # UTC minus the host's clock, which stood at 1000 s then
PLAN = plan([arm("base")], [strict("base.a", {"p0": "prose"})])
LOCK = canonical(PLAN)
RECORD = Registered(sha256(LOCK), "2023-11-14T22:13:20+00:00", 1000 * S, "boot-1")
SERVER = Server(
    "r001.base.a", "base", "a", "ready", (), "b", "", "", {}, "", (), {}, {"boot_id": "boot-1"}, 1, "2023-11-14T22:14:00Z", 1.0,
    lock_sha256=sha256(LOCK),
)  # fmt: skip
SPAN = Span(1060 * S, 1070 * S, OFFSET)  # the first request went out a minute after the registration


def problems(record: Registered | None, server: Server = SERVER, span: Span = SPAN) -> list[str]:
    """What the check says of one run with one server and one attempt."""
    files = {"plan.json": LOCK, "runs/r001/campaign.lock.json": LOCK}
    if record is not None:
        files["runs/r001/registered.json"] = canonical(record)
    found = Found()
    check_registered(files.get, files, PLAN, {}, {server.session: server}, {server.session: [span]}, found)
    found.close()
    return found.failures["L4"]


def test_a_plan_that_was_registered_first_passes() -> None:
    """By UTC and by the monotonic clock; after a reboot by UTC alone."""
    assert problems(RECORD) == []
    assert problems(replace(RECORD, boot_id="boot-0", at_ns=10**18)) == []


LATE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "after the server was ready": ({"at": "2023-11-14T22:14:01+00:00", "at_ns": 1041 * S}, {}, "expected before it"),
    "after a request, by UTC": (
        {"at": "2023-11-14T22:14:30+00:00", "boot_id": "boot-0"}, {"at": "2023-11-14T22:15:00Z"}, "after a request of",
    ),
    "after a request, by the monotonic clock": ({"at_ns": 1061 * S}, {}, "after a request of"),
    "dated back by UTC alone": ({"at": "2023-11-14T21:13:20+00:00"}, {}, "its two clocks disagree"),
    "at no moment": ({"at": "some time"}, {}, "expected before it"),
    "of another plan": ({"plan_sha256": "0" * 64}, {}, "of another plan than"),
    "a server of another plan": ({}, {"lock_sha256": "0" * 64}, "started under plan"),
    "a plan that replaces one which never was": ({"supersedes": "0" * 64}, {}, "supersedes"),
}  # fmt: skip


@pytest.mark.parametrize(("record", "server", "says"), LATE.values(), ids=LATE)
def test_what_was_not_registered_first_is_told(record: dict[str, Any], server: dict[str, Any], says: str) -> None:
    """Once, with what was found."""
    span = replace(SPAN, first_ns=1065 * S) if "boot_id" in record else SPAN
    (only,) = problems(replace(RECORD, **record), replace(SERVER, **server), span)
    assert says in only


def test_no_registration_is_no_pass() -> None:
    """A check that found nothing to look at fails."""
    assert problems(None)
