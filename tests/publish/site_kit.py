"""Published packs made by hand: small folders that a site can be built over, and their log."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from publish.sample import large
from rungproof.publish import log
from rungproof.records.codec import canonical, digest, plain, sha256
from rungproof.records.summary import Summary

MODEL = "title: Model {0}\nrecipe: w4a16\nlicence: Apache-2.0\nquantisation: int4 weights, in groups\n"
SAMPLE = large()


def summary(number: int = 0, **changes: Any) -> Summary:
    """A campaign whose numbers, models and hosts differ by `number`; `changes`: fields of the summary put in place of others."""
    arms = tuple(
        replace(arm, model=f"model-{number % 25}", engine=("vllm", "sglang", "llama.cpp")[number % 3], lane=f"lane-{number % 25}-{arm.name}",
                launch={**arm.launch, "host": f"host{number % 7}", "number": number})
        for arm in SAMPLE.arms[:2]
    )  # fmt: skip
    arms = tuple(replace(arm, launch_sha256=digest(arm.launch)) for arm in arms)
    headlines = tuple(
        replace(
            one,
            center=(one.center or 0) + number / 7,
            servers=tuple((name, (value or 0) + number / 7) for name, value in one.servers),
        )
        for one in SAMPLE.headlines
    )
    sessions = tuple(
        replace(one, at=f"2026-{1 + number % 12:02d}-{1 + number % 28:02d}T10:00:00Z") for one in SAMPLE.sessions[:2]
    )
    made = replace(
        SAMPLE, title=f"Campaign {number}", campaign=f"c{number}", host=f"Host {number % 7}", arms=arms, headlines=headlines, sessions=sessions,
        points=SAMPLE.points[:6], verdicts=(), history=(), strict=(), canaries=(), purpose="",
    )  # fmt: skip
    return replace(made, **changes)


def pack(reports: Path, study: str, made: Summary, files: dict[str, bytes] | None = None) -> str:
    """Write one pack and give its id back."""
    held = {"summary.json": canonical(plain(made)), **(files or {})}
    for arm in made.arms:
        if "/" not in arm.model and len(arm.model) < 200:
            held[f"plan/inputs/config/models/{arm.model}.yaml"] = MODEL.format(arm.model).encode()
            held[f"plan/inputs/config/lanes/{arm.lane}.yaml"] = f"title: Lane {arm.lane}\n".encode()
    manifest = "".join(f"{sha256(data)}  {path}\n" for path, data in sorted(held.items())).encode()
    folder = reports / study / sha256(manifest)[:12]
    held |= {"MANIFEST.sha256": manifest, "page/index.html": b"<!DOCTYPE html><title>x</title>"}
    for path, data in held.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder.name


def published(reports: Path, made: Iterable[tuple[str, Summary]]) -> list[str]:
    """Packs that the log names as published, in this order; each pack's id. A second pack of a study supersedes the first."""
    ids: list[str] = []
    last: dict[str, str] = {}
    events: list[tuple[log.Event, str, str, str]] = []
    for study, one in made:
        ids.append(pack(reports, study, one))
        events.append(("supersede" if study in last else "publish", study, ids[-1], last.get(study, "")))
        last[study] = ids[-1]
    happened(reports, *events)
    return ids


def happened(reports: Path, *events: tuple[log.Event, str, str, str]) -> None:
    """Append events to the log, unsigned: (event, study, pack, what it supersedes or, of a withdrawal, the reason)."""
    held = log.read_log(reports)
    for event, study, name, word in events:
        more = {"reason": word} if event == "withdraw" else {"supersedes": word}
        entry, head = log.entry_after(held, event, study, name, None, **more)
        held = log.Log((*held.entries, entry), (*held.heads, head), b"")
    (reports / log.NAME).write_bytes(b"".join(canonical(entry) for entry in held.entries))
