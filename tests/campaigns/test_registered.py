"""Pre-registration: the plan is hashed and stamped before the first request, servers name it, a changed plan names the one before."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

from campaigns.checkout import Checkout
from rungproof.config.load import load
from rungproof.judge.study import read_sessions
from rungproof.judge.summary import _registered
from rungproof.measure.jobs import write_lock
from rungproof.plan.resolve import resolve
from rungproof.records.codec import read, sha256
from rungproof.records.formats import Registered

ROOT = Path(__file__).resolve().parents[2]
PLAN = resolve(load(ROOT, "campaign_v2", "simulated"), frozenset())


def registered(run: Path) -> Registered:
    """What a run's folder says of its plan."""
    return read(Registered, run / "registered.json")


def test_the_plan_was_registered_before_the_first_request(measured: Checkout) -> None:
    """Its stamp is earlier than every send stamp of the run, on the same boot; every server and the summary name it by digest."""
    study = measured.study("mini")
    run = study / "runs/r001"
    known = registered(run)
    assert known.plan_sha256 == sha256((run / "campaign.lock.json").read_bytes())
    assert known.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    sent = [
        json.loads(line)["sent_ns"]
        for path in study.glob("sessions/r001.*/attempts/*.raw.jsonl.gz")
        for line in gzip.decompress(path.read_bytes()).splitlines()
        if b'"kind":"request"' in line
    ]
    assert len(sent) > 50 and known.at_ns < min(sent)
    servers = [json.loads(path.read_text()) for path in study.glob("sessions/*/server.json")]
    assert {s["lock_sha256"] for s in servers} == {known.plan_sha256}
    assert {s["environment"]["boot_id"] for s in servers} == {known.boot_id}
    summary = json.loads((study / "summary.json").read_text())
    assert {s["registered"] for s in summary["sessions"]} == {known.at}
    assert summary["lock_sha256"] == known.plan_sha256


def test_a_plan_says_when_measuring_ends(measured: Checkout) -> None:
    """Stopping rule, seed, shown pass and suites by digest are in the plan that was registered."""
    plan = json.loads((measured.study("mini") / "runs/r001/campaign.lock.json").read_text())
    assert {"item", "passes", "servers", "record in use"} <= set(plan["stopping"])
    assert plan["seed"] == 42 and all(len(suite["sha256"]) == 64 for suite in plan["suites"])
    rungs = [item for item in plan["items"] if item["workload"] == "ladder"]
    assert rungs and {item["rules"]["shown"] for item in rungs} == {"last"}


def test_a_changed_plan_names_the_one_it_supersedes(tmp_path: Path) -> None:
    """The same plan again supersedes nothing; another names the one before it, over a run without a lock and one of its own plan."""
    one, two = PLAN, replace(PLAN, title="Another title")
    for number, plan in enumerate((one, one, two, two), start=1):
        write_lock(plan, {}, tmp_path / f"runs/r{number:03d}")
    (tmp_path / "runs/r005").mkdir()
    write_lock(one, {}, tmp_path / "runs/r006")
    runs = [registered(tmp_path / f"runs/r{number:03d}") for number in (1, 2, 3, 4, 6)]
    first, second = runs[0].plan_sha256, runs[2].plan_sha256
    assert [run.plan_sha256 for run in runs] == [first, first, second, second, first]
    assert [run.supersedes for run in runs] == ["", "", first, first, second]
    assert [run.at_ns for run in runs] == sorted(run.at_ns for run in runs)


def test_a_plan_that_no_server_names_is_not_registered(measured: Checkout) -> None:
    """Without the file, with a damaged one, or with that of another plan, the session counts as not registered."""
    study = measured.study("mini")

    def seen(change: bytes | None) -> set[str]:
        def reader(path: str) -> bytes | None:
            if path.endswith("registered.json"):
                return change
            return (study / path).read_bytes() if (study / path).exists() else None

        return {_registered(s.facts) for s in read_sessions(reader, ["r001.base.a"]).values()}

    whole = (study / "runs/r001/registered.json").read_bytes()
    digest = registered(study / "runs/r001").plan_sha256.encode()
    assert seen(whole) == {registered(study / "runs/r001").at}
    assert seen(None) == seen(b"{") == seen(whole.replace(digest, b"0" * 64)) == {""}
