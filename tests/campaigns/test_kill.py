"""The kill matrix: whatever is killed in the middle of a rung, nothing is left running, nothing finished is lost, the next call finishes."""

import os
import signal
import subprocess
import time
from collections.abc import Callable

import pytest

from campaigns.checkout import LADDER, Checkout, left_over, wait_for
from rungproof import verify

Make = Callable[..., Checkout]
SLOW = {"do": "slow", "match": {"concurrent": 4}, "step_ms": 50}
LEFT_S = 90.0  # nothing of ours may run so long after the kill; seconds are usual


def in_the_middle_of_a_rung(one: Checkout, call: "subprocess.Popen[str]") -> None:
    """Wait until rung c4 is measured: its raw file has the oracle, its record is not there yet."""
    raw = one.study("mini") / "sessions/r001.base.a/attempts/ladder.c4.raw.jsonl.gz"

    def there() -> bool:
        assert call.poll() is None, (one.folder / "snakemake.out").read_text()[-3000:]
        return raw.exists() and not raw.with_name("ladder.c4.json").exists()

    wait_for(there, 600, "rung c4 begins")
    time.sleep(0.4)


def find(one: Checkout, words: str) -> int:
    """Pid of the one process of the checkout whose command line holds `words`."""
    found = [pid for pid, line in one.processes() if words in line]
    assert len(found) == 1, (words, one.processes())
    return found[0]


def job_of(one: Checkout) -> int:
    """Pid of the process that is measuring."""
    return int(one.record(one.study("mini") / "sessions/r001.base.a/control/job.json")["pid"])


def server_of(one: Checkout) -> int:
    """Pid of the server's first process."""
    return int(one.record(one.study("mini") / "sessions/r001.base.a/server.json")["pid"])


KILLS: dict[str, Callable[[Checkout, "subprocess.Popen[str]"], None]] = {
    "Ctrl-C": lambda one, call: os.killpg(call.pid, signal.SIGINT),
    "SIGTERM to snakemake": lambda one, call: os.kill(call.pid, signal.SIGTERM),
    "SIGKILL to snakemake": lambda one, call: os.kill(call.pid, signal.SIGKILL),
    "SIGKILL to the supervisor": lambda one, call: os.kill(find(one, "serving.supervisor"), signal.SIGKILL),
    "SIGKILL to the parent of the server's processes": lambda one, call: os.kill(server_of(one), signal.SIGKILL),
    "SIGKILL to the attempt": lambda one, call: os.kill(job_of(one), signal.SIGKILL),
}


@pytest.mark.parametrize("kill", KILLS.values(), ids=KILLS)
def test_a_kill_in_the_middle_of_a_rung_loses_nothing_that_was_finished(
    checkout: Make, kill: Callable[..., None]
) -> None:
    """Within seconds no process is left; finished records keep their bytes; the next call measures the rest and succeeds."""
    one = checkout(mini=LADDER)
    one.set_faults(SLOW)
    call = one.start("mini")
    in_the_middle_of_a_rung(one, call)
    before = {k: v for k, v in one.records("mini").items() if "c4" not in k}
    assert len(before) == 4
    kill(one, call)
    call.wait(300)
    assert left_over(one, LEFT_S) == []
    one.set_faults()
    if list(one.folder.glob(".snakemake/locks/*")):  # of a Snakemake that was killed
        assert one.run("--unlock").returncode == 0
    second = one.run("mini")
    assert second.returncode == 0, second.stdout[-3000:]
    after = one.records("mini")
    assert {k: after.get(k) for k in before} == before
    assert {p["state"] for p in one.points("mini").values()} == {"qualified"}
    closed = one.record(one.study("mini") / "sessions/r001.base.a/closed.json")
    if closed["sound"]:  # then what it finished is in use, and only the rest was measured again
        assert one.points("mini")["base/ladder/c2/aggregate"]["session"] == "r001.base.a"
    else:
        assert one.points("mini")["base/ladder/c2/aggregate"]["session"] == "r002.base.a"
    found = verify.levels(one.study("mini"))
    assert [found[level] for level in ("L2", "L3", "L4")] == ["ok"] * 3, found


def test_finished_rungs_survive_the_death_of_snakemake(checkout: Make) -> None:
    """After SIGKILL of snakemake the supervisor closes the session with its canary, so c1 and c2 are accepted without being measured again."""
    one = checkout(mini=LADDER)
    one.set_faults(SLOW)
    call = one.start("mini")
    in_the_middle_of_a_rung(one, call)
    os.kill(call.pid, signal.SIGKILL)
    call.wait(60)
    home = one.study("mini") / "sessions/r001.base.a"
    wait_for((home / "closed.json").exists, 120, "the supervisor closes the session")
    closed, canary = one.record(home / "closed.json"), one.record(home / "canary_after.json")
    assert (closed["by"], closed["sound"], canary["by"], canary["status"]) == (
        "supervisor",
        True,
        "supervisor",
        "passed",
    )
    one.set_faults()
    one.run("--unlock")
    assert one.run("mini").returncode == 0
    assert [p.name for p in sorted((one.study("mini") / "sessions/r002.base.a/attempts").glob("*.json"))] == [
        "ladder.c4.json"
    ]
    assert verify.levels(one.study("mini"))["L4"] == "ok"
    for path in home.glob("attempts/ladder.c1.*"):  # what lies before its last record was measured, and must be there
        path.unlink()
    assert "base.a/ladder/c1 was to be measured" in verify.levels(one.study("mini"))["L4"]


def test_two_campaigns_on_one_host_lock(checkout: Make) -> None:
    """A second checkout that shares the lock is refused with the holder's name and measures nothing; the first is not disturbed."""
    many = {**LADDER, "workloads": {"ladder": {**LADDER["workloads"]["ladder"], "passes": 6}}}
    one, two = checkout(mini=many), checkout(mini=LADDER)
    two.environment["RUNGPROOF_LOCK_DIR"] = one.environment["RUNGPROOF_LOCK_DIR"]
    one.set_faults(
        {**SLOW, "step_ms": 250}
    )  # each pass is slow until the second has come, while the first holds the lock
    two.set_faults()
    call = one.start("mini")
    in_the_middle_of_a_rung(one, call)
    refused = two.run("mini")
    assert refused.returncode == 1
    reasons = two.points("mini")["base/ladder/c1/aggregate"]["reasons"]
    assert any("lock" in reason for reason in reasons), reasons
    one.set_faults()
    assert call.wait(600) == 0
