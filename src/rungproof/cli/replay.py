"""`rungproof replay`: a published plan measured again on this machine, compared, and signed; `replay merge`: such lines taken in."""

import argparse
import os
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import rungproof
from rungproof import verify as verifier
from rungproof.cli.doctor import examined
from rungproof.cli.verify import by_version
from rungproof.cli.words import clean, clean_lines
from rungproof.measure.serving.launch.process import end_with_parent
from rungproof.measure.terminal import CHANNEL
from rungproof.plan.machine import processor_flags
from rungproof.publish.log import KEYS
from rungproof.publish.pack import add_line
from rungproof.publish.pack.files import MANIFEST
from rungproof.publish.pack.statements import publisher_of
from rungproof.publish.replay import comparing, lines, report
from rungproof.publish.replay.folder import Place, alone, folder_of, prepare
from rungproof.publish.signing import Signer, find_signer
from rungproof.publish.site import build_site
from rungproof.records.codec import digest, read, sha256
from rungproof.records.errors import ConfigError, EvidenceError, HostError, ServerError
from rungproof.records.files import write_atomic
from rungproof.records.plan import Plan
from rungproof.records.replay import Replay

MERGE = "merge"
LINE = "line.intoto.jsonl"
OF_A_CALL = (
    "RUNGPROOF_RUN",
    "RUNGPROOF_OWNER",
    "RUNGPROOF_ASKED",
    CHANNEL,
)  # of the Snakemake that may have started this


def add_options(to: argparse.ArgumentParser) -> None:
    """The options of replay."""
    to.add_argument(
        "pack", metavar="PACK", help="the folder of a pack; or the word merge, and then a pack and files with lines"
    )
    to.add_argument("more", nargs="*", metavar="LINE", help="after merge PACK: files with lines that replayers sent")
    to.add_argument("--recompute", action="store_true", help="measure nothing: verify every level and sign that")
    to.add_argument(
        "--yes", action="store_true", help="start without asking; a pack says what is installed and run here"
    )
    to.add_argument("--unsigned", action="store_true", help="make report and line without a signature")
    to.add_argument("--key", default="", metavar="FILE", help="private key (default: as for publishing)")
    to.add_argument(
        "--results", type=Path, metavar="DIR", help="where results go (default: build/replays/<pack>/results)"
    )
    to.add_argument(
        "--build", type=Path, metavar="DIR", help="environments and models (default: build/ of the checkout)"
    )
    to.add_argument("--root", type=Path, default=Path(), metavar="DIR", help="the checkout (default: this folder)")


def run(options: argparse.Namespace) -> int:
    """Replay, recompute or merge. Exit code 1 where the published tokens did not come again or a level failed."""
    if options.pack == MERGE:
        return merge(options)
    if options.more:
        raise ConfigError(
            f"found {options.more[0]!r} after the pack; lines are merged by: rungproof replay merge PACK LINE..."
        )
    pack = Path(options.pack)
    if not (pack / MANIFEST).is_file():
        raise EvidenceError(f"{pack}: holds no {MANIFEST}; expected the folder of a proof pack (unpack a zip first)")
    levels = verifier.levels(pack)
    for level, says in levels.items():
        print(clean(f"{level}: {says}"))
    wrong = [level for level, says in levels.items() if says not in ("ok", "not checked")]
    if wrong and wrong[0] > "L1" and (words := by_version(pack)):
        raise EvidenceError(f"{pack}: {wrong[0]} failed, so nothing is replayed or signed. {words}")
    if options.recompute:
        return _recomputed(options, pack, levels)
    if wrong and wrong[0] != "L4":
        raise EvidenceError(
            f"{pack}: {wrong[0]} failed, so there is no sound pack to replay. See: rungproof verify {pack}"
        )
    if wrong:
        print("L4 failed: the plan can be measured again, but the line says so and moves no state.", file=sys.stderr)
    with alone(folder_of(pack, options.root)):
        return _replayed(options, pack, levels)


def _replayed(options: argparse.Namespace, pack: Path, levels: dict[str, str]) -> int:
    place = prepare(pack, options.root, options.results, options.build or options.root / "build", processor_flags())
    print(clean(f"The plan is the published one, {digest(place.plan)[:12]}. It is measured in {place.folder}"))
    _fit(place)
    _ask(options, place)
    signer = _signer(options)
    code = _measure(place)
    if not any(place.study.glob("sessions/*/judged/*.json")):
        raise ServerError(f"{place.study}: nothing was measured (snakemake ended with {code}); its lines above say why")
    made = comparing.compare(pack, place, levels, _now())
    _write(place.made, made, signer)
    print(clean(report.headline(made)))
    print(clean(report.rate_words(made)))
    if not report.passed(made):
        print(
            "The published claim was not reproduced: the line says so. What was invalid or failed is measured again by the same command.",
            file=sys.stderr,
        )
    return 0 if report.passed(made) else 1


def _fit(place: Place) -> None:
    """Doctor first. Raises HostError for what is lacking."""
    checks, _ = examined(place.folder, place.plan.campaign, place.plan.host)
    for one in checks:
        if one.state != "ok":
            print(clean(f"{one.name}: {one.found}. {one.fix}"), file=sys.stderr)
    if lacking := [one.name for one in checks if one.state == "fail"]:
        raise HostError(
            f"This machine lacks {', '.join(lacking)} (see above, or: rungproof doctor). Nothing was started."
        )


def _ask(options: argparse.Namespace, place: Place) -> None:
    """A pack is a stranger's: what it installs and runs here is told, and has to be agreed to. The simulated server is our own."""
    if options.yes or place.plan.simulated:
        return
    told = dict.fromkeys(
        f"  {arm.engine} by {arm.launch['launcher']}: environment {arm.environment} (lock {str(arm.launch['environment_sha256'])[:12]}), "
        f"model {arm.model}{', image ' + str(arm.launch['container']['image']) if 'container' in arm.launch else ''}"
        f"{', command ' + shlex.join(map(str, arm.launch['command'])) if arm.launch.get('command') else ''}"
        for arm in place.plan.arms
    )
    print(clean_lines("This pack asks to install and run:\n" + "\n".join(told)))
    print(clean(f"Each lane in full: rungproof lane show LANE --root {place.folder}"))
    if not sys.stdin.isatty():
        raise ConfigError("there is no terminal to agree on; say --yes once you have looked at what the pack runs")
    if input("Go on? [y/N] ").strip().lower() not in ("y", "yes"):
        raise ConfigError("not agreed to; nothing was started")


def _measure(place: Place) -> int:
    """Snakemake on the plan, as ever; returns its exit code. A lock that a killed call left is taken away: `alone` holds this folder."""
    variables = {key: value for key, value in os.environ.items() if key not in OF_A_CALL}
    here = str(Path(rungproof.__file__).parents[1])
    sys.stdout.flush()
    variables["PYTHONPATH"] = os.pathsep.join([here, *filter(None, [variables.get("PYTHONPATH", "")])])
    command = [sys.executable, "-m", "snakemake", place.plan.campaign, "--cores", "1"]
    if any((place.folder / ".snakemake/locks").glob("*")):
        subprocess.run([*command, "--unlock"], cwd=place.folder, env=variables, check=False, stdout=subprocess.DEVNULL)
    code = _to_its_end(command, place.folder, variables)
    if code not in (0, 1):
        raise HostError(
            f"snakemake ended with {code} in {place.folder}; its lines above say why. The same command again goes on."
        )
    return code


def _to_its_end(command: list[str], folder: Path, variables: dict[str, str]) -> int:
    """Run a child in the foreground. Ctrl-C reaches it by itself, and it closes its servers; it is waited for, and then the interruption
    goes on. Where this process is ended the child gets SIGTERM and does the same."""
    interrupted = False
    with subprocess.Popen(command, cwd=folder, env=variables, preexec_fn=end_with_parent) as child:
        while True:
            try:
                code = child.wait()
                break
            except KeyboardInterrupt:
                interrupted = True
    if interrupted:
        raise KeyboardInterrupt
    return code


def _recomputed(options: argparse.Namespace, pack: Path, levels: dict[str, str]) -> int:
    """The line of somebody who has recomputed everything and measured nothing."""
    plan = read(Plan, pack / "plan.json")
    made = Replay(
        kind="recompute", pack=sha256((pack / MANIFEST).read_bytes()), study=plan.study, title=plan.title, simulated=plan.simulated,
        plan_sha256=digest(plan), levels=levels, tokens="not compared", items=(), comparable=False, host_words="nothing was measured", host=(),
        rates="not compared", limit=0.0, points=(), results_sha256="", results_files=0, at=_now(),
    )  # fmt: skip
    good = set(verifier.LEVELS) <= {level for level, says in levels.items() if says == "ok"}
    to = folder_of(pack, options.root) / "recompute"
    write_atomic(to / LINE, lines.line_of(made, _signer(options)))
    print(
        clean(
            f"{'Every level holds' if good else 'Not every level holds, and the line says so'}. Line to send: {to / LINE}"
        )
    )
    return 0 if good else 1


def _write(to: Path, made: Replay, signer: Signer | None) -> None:
    _, page = report.write(made, to)
    write_atomic(to / LINE, lines.line_of(made, signer))
    said = "Line to send to the publisher" if signer else "Line without a signature, which nobody can merge"
    print(clean(f"Report: {page}"))
    print(clean(f"{said}: {to / LINE}"))


def _signer(options: argparse.Namespace) -> Signer | None:
    """The replayer's key, made on first use; None where none is wanted."""
    if options.unsigned:
        return None
    signer, made = find_signer(options.key, options.root, os.environ)
    if made:
        print(clean(f"{made}: a new key was made; keep it, and keep it secret"))
    return signer


def merge(options: argparse.Namespace) -> int:
    """Take lines that replayers sent into a pack's proof, log them, and draw its page again with the new state."""
    if len(options.more) < 2:
        raise ConfigError("expected: rungproof replay merge PACK LINE..., with the pack's folder and at least one file")
    pack, files = Path(options.more[0]).absolute(), [Path(name) for name in options.more[1:]]
    if not (pack / MANIFEST).is_file():
        raise EvidenceError(
            f"{pack}: holds no {MANIFEST}; expected the folder of a published pack, reports/<study>/<id>"
        )
    keys = pack.parents[1] / KEYS
    sent = [(line, f"{path}:{n}") for path in files for n, line in enumerate(lines.lines_in(path), start=1)]
    for line, where in sent:
        lines.check_line(pack, line, keys, where)  # all of them, before any of them is taken in
    # The page of a pack that nobody signed is signed by nobody.
    signer = _signer(options) if publisher_of(pack)[0] else None
    for line, where in sent:
        state, row = lines.check_line(pack, line, keys, where)
        done = add_line(pack, line, signer)
        print(clean(f"{where}: merged ({row.says}); by itself it shows {state}. The pack is {done.standing.state}."))
    build_site(pack.parents[1])
    return 0


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
