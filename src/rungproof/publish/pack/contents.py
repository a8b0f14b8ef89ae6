"""What of a results folder goes into its pack, by an allow list: records, raw files and the server's own log; never the
job's logs, caches or what lies under control/."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from rungproof.publish.words import call_of
from rungproof.records import raw
from rungproof.records.codec import read, sha256
from rungproof.records.errors import EvidenceError
from rungproof.records.formats import Canary, Input, Judged
from rungproof.records.plan import Plan
from rungproof.records.secrecy import OUT, hidden
from rungproof.records.summary import Summary

RECORDS = (
    "plan.json",
    "summary.json",
    "runs/*/campaign.lock.json",
    "runs/*/registered.json",
    "runs/*/run.json",
    "runs/*/base-gate.*.json",
    "runs/*/prompts/*.json",
    "sessions/*/server.json",
    "sessions/*/env.json",
    "sessions/*/env.samples.jsonl",
    "sessions/*/client.json",
    "sessions/*/canary_*.json",
    "sessions/*/canary_*.raw.jsonl.gz",
    "sessions/*/closed.json",
    "sessions/*/attempts/*.json",
    "sessions/*/attempts/*.raw.jsonl.gz",
    "sessions/*/judged/*.json",
    "tables/*.parquet",
)
LOG = "logs/server.log"
HOME = re.compile(r"(/(?:home|Users)/)[^/\s'\":;,)\]}]+")  # whose home it is
LOG_BYTES = 256 * 1024  # kept of each end of a server's log


def check(study: Path) -> tuple[Plan, Summary]:
    """Plan and summary of a results folder that is whole and up to date.

    Raises EvidenceError where a session is open, and where plan, summary, verdicts and judged records were not made from each
    other, or not from the files that lie there now.
    """
    if not (study / "summary.json").is_file():
        raise EvidenceError(f"{study}: holds no summary.json, so there is nothing to publish. {_again(study)}")
    plan, summary = read(Plan, study / "plan.json"), read(Summary, study / "summary.json")
    if sha256((study / "plan.json").read_bytes()) != summary.lock_sha256:
        raise EvidenceError(
            f"{study}/plan.json: found another plan than the one that summary.json was made under. {_again(study)}"
        )
    for folder in sorted(study.glob("sessions/*")):
        if not (folder / "closed.json").is_file():
            raise EvidenceError(
                f"{folder}: the session is not closed: it is being measured, or its call was ended. Wait for it. {_again(study)}"
            )
    shown = {session.session for session in summary.sessions}
    if new := sorted({p.parent.name for p in study.glob("sessions/*/server.json")} ^ shown):
        raise EvidenceError(f"{study}/summary.json: was made before, or without, session {new[0]}. {_again(study)}")
    for path in sorted(study.glob("sessions/*/judged/*.json")):
        _check_inputs(study, path.relative_to(study).as_posix(), read(Judged, path).inputs)
    for path in sorted(study.glob("sessions/*/canary_*.json")):
        of_canary = read(Canary, path).raw
        _check_inputs(study, path.relative_to(study).as_posix(), (of_canary,) if of_canary else ())
    for verdict in summary.verdicts:
        _check_inputs(study, f"verdicts/{verdict.gate}.json", verdict.inputs)
    return plan, summary


def _check_inputs(study: Path, made: str, inputs: Iterable[Input]) -> None:
    """Raises EvidenceError where a record is gone, or a file that it was made from is gone or is not that file any more."""
    if not (study / made).is_file():
        raise EvidenceError(f"{study}/{made}: there is no such file, and the summary was made from it. {_again(study)}")
    for one in inputs:
        try:
            data = (study / one.path).read_bytes()
        except OSError as error:
            raise EvidenceError(
                f"{study}/{one.path}: cannot be read ({error.strerror}); {made} was made from it. Bring it back from a copy, or "
                f"measure that item again. {_again(study)}"
            ) from error
        if sha256(data) != one.sha256:
            raise EvidenceError(f"{study}/{one.path}: has changed since {made} was made from it. {_again(study)}")


def _again(study: Path) -> str:
    return f"Run the campaign's own target first: {call_of(study.name)}"


def evidence(study: Path, summary: Summary) -> Iterator[tuple[str, bytes]]:
    """Path and bytes of every record of a results folder, and what is kept of its servers' logs.

    Raises EvidenceError for a file that cannot be read or is a link: a pack holds what it names; and for a raw file past its limits.
    """
    for pattern in RECORDS:
        for path in sorted(study.glob(pattern)):
            if not path.name.startswith("."):
                data = _bytes(path)
                if path.suffix == ".gz":
                    raw.check_size(data, str(path))
                yield path.relative_to(study).as_posix(), data
    for verdict in summary.verdicts:
        path = study / "verdicts" / f"{verdict.gate}.json"
        yield path.relative_to(study).as_posix(), _bytes(path)
    for path in sorted(study.glob(f"sessions/*/{LOG}")):
        yield path.relative_to(study).as_posix(), server_log(_bytes(path))


def server_log(data: bytes) -> bytes:
    """A server's log as it is published: both ends of a long one, without what looks like a secret and without names of users."""
    if len(data) > 2 * LOG_BYTES:
        cut = len(data) - 2 * LOG_BYTES
        data = data[:LOG_BYTES] + f"\n[{cut} bytes left out]\n".encode() + data[-LOG_BYTES:]
    text = hidden(re.sub(rb"\x1b\[[0-9;]*m", b"", data).decode("utf-8", "replace"))
    return HOME.sub(rf"\g<1>{OUT}", text).encode("utf-8")


def _bytes(path: Path) -> bytes:
    if path.is_symlink() or not path.is_file():
        raise EvidenceError(f"{path}: found something that is no plain file; a pack holds the bytes that it names")
    try:
        return path.read_bytes()
    except OSError as error:
        raise EvidenceError(
            f"{path}: cannot be read ({error.strerror}); a pack without it would be incomplete"
        ) from error
