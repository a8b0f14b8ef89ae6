"""Building a pack: everything is read, checked and written beside its place, and moved there when it is whole."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rungproof.judge.checks.found import Found
from rungproof.judge.oracle import tokens
from rungproof.judge.recompute import recompute
from rungproof.publish.log import Entry, Log, append, entry_after, locked, read_log, write_key
from rungproof.publish.pack.contents import check, evidence
from rungproof.publish.pack.crate import CRATE, crate
from rungproof.publish.pack.files import MANIFEST, PROOF, manifest, reducer, write_tree
from rungproof.publish.pack.inputs import inputs
from rungproof.publish.pack.merging import tell_ended
from rungproof.publish.pack.placing import Pack, finish, head_shown, place, workshop
from rungproof.publish.pack.readme import readme
from rungproof.publish.pack.statements import first_lines, public_of
from rungproof.publish.signing import Signer
from rungproof.publish.words import call_of
from rungproof.records.codec import canonical, parse, sha256
from rungproof.records.errors import ConfigError, EvidenceError
from rungproof.records.formats import Closed, Judged
from rungproof.records.plan import Plan
from rungproof.records.summary import Summary

ID_DIGITS = 12


def build(study: Path, reports: Path, root: Path, signer: Signer | None = None, reason: str = "") -> Pack:
    """Make `reports/<study>/<id>/` and its zip from a results folder, and write the log; the same results and key give the same bytes.

    root: the checkout whose config/ and envs/ the plan was resolved from. signer None: an unsigned pack, which says so. reason: why
    an earlier pack of this study is superseded, which that pack's page then says, too. Published already: nothing new in the log.
    Raises EvidenceError where evidence is missing, damaged, newer than what was made from it or gives other numbers, ConfigError where a
    reason is lacking, HostError where the disk refuses; then nothing is left behind.
    """
    plan, summary = check(study)
    made = _parts(study, root, plan, summary, signer)
    _recompute(study, made)
    made[MANIFEST] = manifest(made)
    name = sha256(made[MANIFEST])[:ID_DIGITS]
    final = reports / study.name / name
    with locked(reports):
        log = read_log(reports)
        entry, head = _next(log, study.name, name, signer, reason)
        with workshop(final.parent) as temporary:
            folder = temporary / name
            write_tree(folder, made)
            kept = (final / PROOF).read_bytes() if (final / PROOF).is_file() else b""
            (folder / PROOF).write_bytes(kept or first_lines(made, plan, summary, signer))
            now = log.after(entry, head) if entry else log
            told = finish(folder, now, head or head_shown(final, log), signer)
            if signer:
                write_key(reports, signer)
            pack = place(folder, final, entry is not None, told)
        if entry:
            append(reports, log, entry)
        return replace(pack, stale=tell_ended(final.parent, now, signer))


def _next(log: Log, study: str, name: str, signer: Signer | None, reason: str) -> tuple[Entry | None, str]:
    """The entry that publishing writes, and the log's head with it; none where this pack stands published already."""
    current = log.current(study)
    if current is None:
        return entry_after(log, "publish", study, name, signer, reason)
    if current.pack == name:
        return None, ""
    if not reason.strip():
        raise ConfigError(
            f"{study}: pack {current.pack} is published, and this one, {name}, would supersede it. Say why: "
            "--config reason='what changed'. Nothing was written."
        )
    return entry_after(log, "supersede", study, name, signer, reason, current.pack)


def _parts(study: Path, root: Path, plan: Plan, summary: Summary, signer: Signer | None) -> dict[str, bytes]:
    """Path -> bytes of everything that the manifest covers."""
    made = dict(evidence(study, summary))
    closed = [parse(Closed, data, path) for path, data in made.items() if path.endswith("/closed.json")]
    newest = max((one.at for one in closed), default="")
    made["plan/campaign.lock.json"] = made["plan.json"]
    made |= inputs(root, study, plan)
    made["oracle/tokens.json"] = canonical(tokens(plan, _judged(made)))
    made |= reducer() | public_of(signer)
    made["README.md"] = readme(summary, newest)
    made[CRATE] = crate(made, summary, newest)
    return made


def _recompute(study: Path, made: Mapping[str, bytes]) -> None:
    """Raises EvidenceError where records, verdicts and summary are not what the reducer that goes into the pack makes of the raw files."""
    found = Found()
    recompute(made.get, made.keys(), found)
    found.close()
    if differs := [*found.failures["L3"], *found.failures["L2"]]:
        raise EvidenceError(
            f"{study}: does not follow from its raw files, so nobody could verify the pack: {differs[0]}"
            f"{f' (and {len(differs) - 1} more)' if len(differs) > 1 else ''}. Where rungproof is newer than these results, run the "
            f"campaign's own target first: {call_of(study.name)}. Else rungproof verify {study} tells all."
        )


def _judged(made: Mapping[str, bytes]) -> list[Judged]:
    """The judged records, newest run first."""
    paths = [path for path in made if path.startswith("sessions/") and "/judged/" in path]
    paths.sort(key=lambda path: int(path.split("/")[1].split(".")[0][1:]), reverse=True)
    return [parse(Judged, made[path], path) for path in paths]
