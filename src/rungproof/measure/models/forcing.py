"""Answers of a results folder or pack put through their pinned weights again, on a processor, without the server."""

import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rungproof.judge.attempt import read_raw
from rungproof.judge.forced import MARGINS, Forced, chosen, forced
from rungproof.judge.recompute import bounded
from rungproof.measure.models.checkpoints import read_manifest, verify_files
from rungproof.measure.models.environments import environment_python, pip_variables
from rungproof.plan.builds import build_folder, is_made
from rungproof.records import raw
from rungproof.records.codec import canonical, load_json, parse, sha256
from rungproof.records.errors import ConfigError, EvidenceError, SetupError
from rungproof.records.formats import Attempt, Server
from rungproof.records.plan import ArmPlan, Item, Plan

WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,80}")
SCRIPT = Path(__file__).parent / "recipes/teacher_force.py"


@dataclass
class Answer:
    """One answer to one prompt, and how many requests gave it. prompt: text or token ids; prompt_tokens: as the server counted."""

    arm: str
    item: str
    batch: str
    key: str
    prompt: Any
    prompt_tokens: int | None
    token_ids: tuple[int, ...]
    requests: int = 1

    @property
    def length(self) -> int:
        """Tokens of prompt and answer [tokens]; a prompt that the server did not count has none."""
        return (self.prompt_tokens or 0) + len(self.token_ids)


@dataclass
class Wanted:
    """What is looked at. sample: requests of each item, 0 for all; positions: longest prompt and answer together, 0 for any; seed:
    decides the sample; margin, most: see judge/forced.py, margin None: that of the lane's numbers."""

    seed: str
    sample: int = 3
    positions: int = 0
    margin: float | None = None
    most: float = 0.0
    arms: tuple[str, ...] = ()
    python: Path | None = None
    skipped: dict[str, int] = field(default_factory=dict)


def check(study: Path, plan: Plan, build: Path, wanted: Wanted, say: Callable[[str], None]) -> list[Forced]:
    """Force every wanted answer of a study (folder with plan.json and sessions/); counts in `wanted.skipped` what was left out.

    Raises ConfigError for a campaign without a model or an unknown arm, SetupError where environment or model is not made,
    EvidenceError where the weights are not those that the servers had, or a raw file is damaged, or the plan names a place outside
    of the build folder: an interpreter that lies in a stranger's pack must not run.
    """
    _plain(study, plan)
    if plan.simulated:
        raise ConfigError(f"{study}: the simulated server answered, and it has no weights to put tokens through")
    names = [arm.name for arm in plan.arms]
    for unknown in sorted(set(wanted.arms) - set(names)):
        raise ConfigError(f"--arm {unknown}: no such arm; this campaign has {', '.join(names)}")
    made: list[Forced] = []
    for group in _by_model([arm for arm in plan.arms if not wanted.arms or arm.name in wanted.arms]):
        answers = [a for arm in group for a in _answers_of(study, plan, arm, wanted)]
        if answers:
            python, model = _ready(study, group[0], build, wanted.python)
            made += _forced(answers, group[0], python, model, wanted, say)
    return made


def _plain(study: Path, plan: Plan) -> None:
    """Raises EvidenceError where a name or a digest in a plan is no plain word: folders are found by them."""
    bounded(plan)
    words = [w for i in plan.items for w in (i.arm, i.replicate, i.workload, i.item)]
    for arm in plan.arms:
        digests = [arm.launch.get(key) for key in ("model_sha256", "environment_sha256")]
        words += [arm.name, arm.model, arm.environment, *(d if isinstance(d, str) else "" for d in digests)]
        if not isinstance(arm.launch.get("arguments"), dict):
            raise EvidenceError(f"{study}/plan.json: arm {arm.name:.40}: its launch has no arguments")
    for word in words:
        if not WORD.fullmatch(word):
            raise EvidenceError(f"{study}/plan.json: found {word!r:.80}; expected a name of letters, digits, _ . and -")


def _by_model(arms: Sequence[ArmPlan]) -> Iterator[list[ArmPlan]]:
    """Arms that share weights and environment: an answer that two of them gave is looked at once."""
    held: dict[tuple[str, str, str], list[ArmPlan]] = {}
    for arm in arms:
        key = (str(arm.launch["model_sha256"]), str(arm.launch["environment_sha256"]), dtype_of(arm))
        held.setdefault(key, []).append(arm)
    yield from held.values()


def dtype_of(arm: ArmPlan) -> str:
    """The numbers that a lane computes in, as its arguments name them; bfloat16 where they name none that is known."""
    named = str(arm.launch["arguments"].get("dtype", ""))
    return {"float": "float32", "half": "float16"}.get(named, named if named in MARGINS else "bfloat16")


def _answers_of(study: Path, plan: Plan, arm: ArmPlan, wanted: Wanted) -> list[Answer]:
    """Distinct answers of an arm over its servers, without those that are not chosen or too long, which are counted."""
    wanted.skipped.setdefault(arm.name, 0)
    held: dict[bytes, Answer] = {}
    for item in plan.items:
        if item.arm != arm.name:
            continue
        for session in sorted(
            p.parents[1].name for p in study.glob(f"sessions/*.{item.seat}/attempts/{item.workload}.{item.item}.json")
        ):
            whole = {f"{a.batch}/{a.key}": a for a in read_answers(study, session, item, arm.launch_sha256)}
            named = [n for n, a in whole.items() if not wanted.positions or a.length <= wanted.positions]
            taken = chosen(named, wanted.sample or len(named), f"{wanted.seed} {item.id}")
            wanted.skipped[arm.name] += len(whole) - len(taken)
            for name in taken:
                one = whole[name]
                known = held.setdefault(canonical([one.prompt, one.token_ids]), one)
                known.requests += known is not one
    return list(held.values())


def read_answers(study: Path, session: str, item: Item, launch_sha256: str) -> list[Answer]:
    """What the raw bytes of one attempt say was sent and answered; none for an attempt of another plan or one that failed.

    Raises EvidenceError for a damaged record or raw file.
    """
    home = study / "sessions" / session
    name = f"{item.workload}.{item.item}"
    attempt = parse(Attempt, _bytes(home / f"attempts/{name}.json"), name)
    server = parse(Server, _bytes(home / "server.json"), f"{session}/server.json")
    if attempt.raw is None or attempt.spec_sha256 != item.spec_sha256 or server.launch_sha256 != launch_sha256:
        return []
    data = _bytes(home / f"attempts/{name}.raw.jsonl.gz")
    if sha256(data) != attempt.raw.sha256:
        raise EvidenceError(f"{session}/{name}: the raw file is not the one that the attempt names")
    lines = raw.decode(data, f"{session}/{name}.raw.jsonl.gz")
    bodies = {(r.batch, r.key): r.body for r in lines if isinstance(r, raw.Request)}
    results, _ = read_raw(item, lines)
    return [
        Answer(
            item.arm, item.id, r.batch, r.key, _prompt(bodies[(r.batch, r.key)], f"{session}/{name}"), r.prompt_tokens, r.token_ids
        )
        for r in results
        if r.state == "complete"
    ]  # fmt: skip


def _prompt(body: str, where: str) -> Any:
    value = load_json(body.encode("latin-1"), where)
    prompt = value.get("prompt") if isinstance(value, dict) else None
    if isinstance(prompt, str) or (isinstance(prompt, list) and prompt and all(type(i) is int for i in prompt)):
        return prompt
    raise EvidenceError(
        f"{where}: a request without a prompt of text or token ids; expected one of this program's bodies"
    )


def _ready(study: Path, arm: ArmPlan, build: Path, python: Path | None) -> tuple[Path, Path]:
    """(interpreter, model folder), both made, and the model's files those that the arm's servers had."""
    launch = arm.launch
    environment = Path(build_folder(str(build), "envs", arm.environment, launch["environment_sha256"]))
    model = Path(build_folder(str(build), "models", arm.model, launch["model_sha256"]))
    found = python or environment_python(environment)
    for path, there, what in (
        (found, found.exists(), "the server environment's Python"),
        (model, is_made(model) and model.exists(), "the model"),
    ):
        if not there:
            raise SetupError(
                f"{path}: not there, and {what} is needed. Make both in a checkout by `snakemake --cores 1 {environment}.ready "
                f"{model}.ready`, or name the folder that has them with --build."
            )
    verify_files(model)
    files = dict(read_manifest(model)["files"])
    for path in sorted(study.glob(f"sessions/*.{arm.name}.*/server.json")):
        server = parse(Server, _bytes(path), str(path))
        told = server.identity.get("model")
        had = told.get("files") if isinstance(told, dict) else None
        if server.status == "ready" and server.launch_sha256 == arm.launch_sha256 and had != files:
            raise EvidenceError(
                f"{path}: this server had model files of digest {_short(had)}; those in {model} have {_short(files)}. "
                "They are not the weights that were measured."
            )
    return found, model


def _short(files: Any) -> str:
    return sha256(canonical(files))[:12]


def _forced(
    answers: Sequence[Answer], arm: ArmPlan, python: Path, model: Path, wanted: Wanted, say: Callable[[str], None]
) -> list[Forced]:
    """Run the script once over all answers, and count."""
    dtype = dtype_of(arm)
    margin = MARGINS[dtype] if wanted.margin is None else wanted.margin
    total = sum(a.length for a in answers)
    say(
        f"{arm.model}: {len(answers)} answers, {total} tokens through its weights in float32; margin {margin:g} logits ({dtype} lane)"
    )
    got = _run(answers, python, model, say)
    made = []
    for i, a in enumerate(answers):
        one = got[str(i)]
        if a.prompt_tokens is not None and one["prompt_tokens"] != a.prompt_tokens:
            why = f"its prompt has {one['prompt_tokens']} tokens by the model's own tokenizer; the server counted {a.prompt_tokens}"
            made.append(
                Forced(
                    a.arm, a.item, a.batch, a.key, a.requests, "failed", len(a.token_ids), 0, 0, 0, float("inf"), 0, why
                )
            )
            continue
        made.append(forced(a.arm, a.item, a.batch, a.key, one["gaps"], margin, wanted.most, a.requests))
    return made


def _run(answers: Sequence[Answer], python: Path, model: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """What the script says of each answer, by its place. Raises SetupError with its last words where it fails."""
    with tempfile.TemporaryDirectory() as scratch:
        samples, to, log = (Path(scratch, name) for name in ("samples.json", "to.json", "log.txt"))
        # An answer without a token has nothing to put through the weights; judge/forced.py fails it.
        asked = [
            {"id": str(i), "prompt": a.prompt, "token_ids": a.token_ids} for i, a in enumerate(answers) if a.token_ids
        ]
        samples.write_text(json.dumps(asked), encoding="utf-8")
        command = [str(python), "-I", str(SCRIPT), "--model", str(model), "--samples", str(samples), "--to", str(to)]
        with (
            log.open("wb") as errors,
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=pip_variables(), text=True
            ) as child,
        ):
            for line in child.stdout or ():
                say(f"{model.name}: {line.strip()}")
        if child.returncode != 0:
            last = "\n  ".join(log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-5:])
            raise SetupError(f"{SCRIPT.name} ended with {child.returncode}:\n  {last}")
        said: dict[str, Any] = load_json(to.read_bytes(), str(to))
        return {
            str(i): said.get(str(i)) or {"prompt_tokens": a.prompt_tokens, "gaps": []} for i, a in enumerate(answers)
        }


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be read ({error.strerror})") from error
