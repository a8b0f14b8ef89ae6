"""What lies under `reports/`: one entry a pack, read without trust; what cannot be read is told and stops nothing else."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from rungproof.config.base import yaml_of_strangers
from rungproof.judge.replay import claimed_items
from rungproof.judge.standing import standing
from rungproof.publish.log import KEYS, Log, read_log
from rungproof.publish.pack.files import PROOF
from rungproof.publish.pack.statements import proof_lines, publisher_of
from rungproof.publish.reading import listed, read_bounded
from rungproof.records.codec import build, load_json, parse, sha256
from rungproof.records.errors import ConfigError, EvidenceError
from rungproof.records.formats import Point
from rungproof.records.plan import Plan
from rungproof.records.standing import Standing
from rungproof.records.summary import ArmInfo, Headline

MAX_CONFIG = 2**20
ID_DIGITS = 12
OWN = "_site"  # no study can have this name
Status = Literal["current", "superseded", "withdrawn", "unlogged", "simulated"]
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ArmEntry:
    """One arm of a pack. `place`: of its headline in the summary, None without one; value None: nothing of it is qualified."""

    name: str
    title: str
    lane: str
    model: str
    quantisation: str
    engine: str
    draft_depth: int
    place: int | None
    value: float | None
    low: float | None
    high: float | None
    kind: str
    unit: str
    state: str
    k: int
    n: int
    qualified: int
    points: int
    launch: Mapping[str, Any] = field(default_factory=dict)
    launch_sha256: str = ""


@dataclass(frozen=True, slots=True)
class PackEntry:
    """One pack. `measured`: start of its newest session [UTC]; `published`: as the log has it; `reason`: of a withdrawal;
    `successor`: pack that superseded it; `configs`: files below plan/inputs/config/, by path."""

    study: str
    id: str
    title: str
    claim: str
    host: str
    host_name: str
    status: Status
    standing: Standing
    measured: str
    published: str
    reason: str
    successor: str
    arms: tuple[ArmEntry, ...]
    states: tuple[tuple[str, int], ...]
    suites: tuple[tuple[str, str], ...]
    rules: Mapping[str, Any]
    configs: tuple[str, ...]

    @property
    def folder(self) -> str:
        """Where it lies below reports/."""
        return f"{self.study}/{self.id}"

    def count(self, state: str) -> int:
        """Points in that state."""
        return dict(self.states).get(state, 0)


@dataclass(frozen=True, slots=True)
class Damaged:
    """A pack that cannot be listed, and why."""

    folder: str
    why: str


@dataclass(frozen=True, slots=True)
class Found:
    """Everything below reports/. `log_fault`: why the log is not believed, "" where it is: then nothing counts as published."""

    reports: Path
    packs: tuple[PackEntry, ...]
    damaged: tuple[Damaged, ...]
    log: Log
    log_fault: str


def find(reports: Path) -> Found:
    """Read every pack and the log. Never raises for what a pack holds."""
    fault, log = "", Log((), (), b"")
    try:
        log = read_log(reports)
    except EvidenceError as error:
        fault = str(error).replace(f"{reports}/", "")
    packs: list[PackEntry] = []
    damaged: list[Damaged] = []
    for folder in _folders(reports):
        try:
            packs.append(_pack(folder, log))
        except EvidenceError as error:
            damaged.append(Damaged(f"{folder.parent.name}/{folder.name}", str(error).replace(f"{reports}/", "")))
        except Exception as error:  # names that no file system takes, and whatever else a stranger thinks of
            damaged.append(Damaged(f"{folder.parent.name}/{folder.name}", f"{type(error).__name__}: {error}"[:300]))
    return Found(reports, tuple(packs), tuple(damaged), log, fault)


def _folders(reports: Path) -> list[Path]:
    """Folders that may be packs: two levels down, by name; links are followed nowhere."""
    made = []
    for study in sorted(reports.iterdir()) if reports.is_dir() else []:
        if study.name in (OWN, "keys") or study.name.startswith(".") or study.is_symlink() or not study.is_dir():
            continue
        made += [p for p in sorted(study.iterdir()) if not p.name.startswith(".") and p.is_dir() and not p.is_symlink()]
    return made


def _pack(folder: Path, log: Log) -> PackEntry:
    manifest = read_bounded(folder / "MANIFEST.sha256")
    if sha256(manifest)[:ID_DIGITS] != folder.name:
        raise EvidenceError(
            f"{folder}: its name is not the beginning of its manifest's sha256 (found {sha256(manifest)[:ID_DIGITS]}); the pack was changed"
        )
    data = read_bounded(folder / "summary.json")
    if not listed(manifest, "summary.json", data):
        raise EvidenceError(f"{folder}/summary.json: is not the file that the manifest names; the pack was changed")
    held = load_json(data, f"{folder}/summary.json")
    where = f"{folder}/summary.json"
    if not isinstance(held, dict) or held.get("format") != "rungproof.summary/1":
        raise EvidenceError(f"{where}: is no summary of format rungproof.summary/1")
    arms = build(tuple[ArmInfo, ...], held.get("arms"), f"{where}.arms")
    points = build(tuple[Point, ...], held.get("points"), f"{where}.points")
    headlines = build(tuple[Headline, ...], held.get("headlines"), f"{where}.headlines")
    simulated = _is(held, "simulated", bool, where)
    told = log.told(folder.parent.name, folder.name)
    return PackEntry(
        study=folder.parent.name, id=folder.name, title=_is(held, "title", str, where), claim=_is(held, "claim", str, where),
        host=_is(held, "host", str, where), host_name=str(arms[0].launch.get("host", "")) if arms else "",
        status="simulated" if simulated and told.status == "current" else told.status,
        standing=_standing(folder, points, manifest), measured=_measured(held),
        published=told.published, reason=told.reason if told.status == "withdrawn" else "", successor=told.successor,
        arms=tuple(_arm(folder, arm, headlines, points) for arm in arms),
        states=tuple(sorted(Counter(p.state for p in points).items())), suites=_suites(held), rules=_is(held, "rules", dict, where),
        configs=tuple(sorted(p.relative_to(folder / "plan/inputs/config").as_posix() for p in (folder / "plan/inputs/config").rglob("*.yaml"))),
    )  # fmt: skip


def _is(held: Mapping[str, Any], key: str, kind: type[R], where: str) -> R:
    value = held.get(key)
    if not isinstance(value, kind):
        raise EvidenceError(f"{where}.{key}: found {type(value).__name__}; expected {kind.__name__}")
    return value


def _standing(folder: Path, points: Sequence[Point], manifest: bytes) -> Standing:
    """The state that the proof's lines give, every signature checked; what the pack's own page says of itself is not asked."""
    proof = read_bounded(folder / PROOF) if (folder / PROOF).exists() else b""
    publisher, public = publisher_of(folder)
    lines = [line for _, line in proof_lines(proof, public, folder.parents[1] / KEYS)]
    claimed: tuple[str, ...] = ()
    if any(line.kind in ("replay", "recompute") for line in lines):  # nothing else asks for the plan, which is large
        claimed = claimed_items(parse(Plan, read_bounded(folder / "plan.json"), f"{folder}/plan.json"), points)
    return standing([line for line in lines if line.kind != "page"], sha256(manifest), publisher, claimed)


def _measured(held: Mapping[str, Any]) -> str:
    sessions = held.get("sessions")
    times = [s.get("at") for s in sessions if isinstance(s, dict)] if isinstance(sessions, list) else []
    return max((at for at in times if isinstance(at, str)), default="")


def _suites(held: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    rows = held.get("suites")
    pairs = (
        [(row.get("id"), row.get("sha256")) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    )
    return tuple(sorted((a, b) for a, b in pairs if isinstance(a, str) and isinstance(b, str)))


def _arm(folder: Path, arm: ArmInfo, headlines: Sequence[Headline], points: Sequence[Point]) -> ArmEntry:
    place = next((i for i, h in enumerate(headlines) if h.arm == arm.name), None)
    headline = headlines[place] if place is not None else None
    good = headline is not None and headline.state == "qualified" and headline.center is not None
    mine = [p for p in points if p.arm == arm.name]
    return ArmEntry(
        arm.name, arm.title, arm.lane, arm.model, quantisation(folder, arm), arm.engine, arm.draft_depth, place,
        headline.center if headline and good else None, headline.low if headline and good else None, headline.high if headline and good else None,
        headline.kind if headline and good else "", headline.unit if headline else "", headline.state if headline else "no strict suite",
        headline.k if headline else 0, headline.n if headline else 0, sum(p.state == "qualified" for p in mine), len(mine),
        arm.launch, arm.launch_sha256,
    )  # fmt: skip


def quantisation(folder: Path, arm: ArmInfo) -> str:
    """Format of the weights in a few words: what the model's own file says up to the first comma; else what the launch asks for."""
    told = _model_key(folder, arm.model, "quantisation")
    if told:
        return told.split(",")[0].split(" (")[0]
    arguments = arm.launch.get("arguments")
    asked = arguments if isinstance(arguments, dict) else {}
    return str(asked.get("quantization") or asked.get("dtype") or "not told")


def _model_key(folder: Path, model: str, key: str) -> str:
    path = folder / "plan/inputs/config/models" / f"{model}.yaml"
    if "/" in model or not path.is_file():
        return ""
    try:
        value = yaml_of_strangers(read_bounded(path, 64 * 1024).decode("utf-8"), str(path))
    except (EvidenceError, ConfigError, UnicodeDecodeError):
        return ""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def config_text(reports: Path, pack: PackEntry, path: str) -> str:
    """A configuration file as the pack carries it; "" where it cannot be read, or is not the one that the manifest names."""
    name = f"plan/inputs/config/{path}"
    try:
        data = read_bounded(reports / pack.folder / name, MAX_CONFIG)
        known = listed(read_bounded(reports / pack.folder / "MANIFEST.sha256"), name, data)
    except EvidenceError:
        return ""
    return data.decode("utf-8", "replace") if known else ""
