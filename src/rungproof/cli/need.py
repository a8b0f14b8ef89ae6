"""What a planned call needs: minutes of each server, and disk."""

import shutil
from pathlib import Path

from rungproof.cli.words import clean
from rungproof.config.sections import Costs
from rungproof.plan.estimate import expected_seconds, to_build
from rungproof.plan.missing import Todo
from rungproof.records.plan import Item, Plan
from rungproof.records.requests import counts

# Seen in a campaign on a real server: raw bytes compressed, the judged record with its copy, and tables.
TOKEN_BYTES = 100
SESSION_BYTES = 200_000


def tokens_of(item: Item) -> int:
    """Most tokens that an item's requests can give."""
    requests, tokens = counts(item.spec, _prompts(item))
    return requests * tokens


def requests_of(item: Item) -> int:
    """How many requests an item sends."""
    return counts(item.spec, _prompts(item))[0]


def _prompts(item: Item) -> int:
    """Prompts of a strict suite, or the three texts of a depth."""
    return len(item.rules["classes"]) if item.spec["kind"] == "strict" else 3


def results_bytes(todo: Todo) -> int:
    """Rough size of what the call writes under results/."""
    return sum(SESSION_BYTES + TOKEN_BYTES * sum(tokens_of(i) for i in items) for _, items in todo.new)


def describe(plan: Plan, todo: Todo, costs: Costs, flags: frozenset[str], build: Path, results: Path) -> list[str]:
    """Lines for `rungproof plan`; none where nothing is to be done."""
    if not todo.new:
        return []
    lines = ["  minutes by server (about, one after the other):"]
    width = max(len(session) for session, _ in todo.new)
    times = expected_seconds(plan, todo, costs, flags)
    for session, items in todo.new:
        minutes = sum(times[session].values()) / 60
        asked = f"{sum(requests_of(i) for i in items)} requests of {len(items)} item{'s' if len(items) > 1 else ''}"
        lines.append(f"    {session:<{width}}  {minutes:5.1f} min  {asked}")
    setup = costs.setup_gb if to_build(plan, build) else 0.0
    if setup:
        lines.append(f"    {'setting up':<{width}}  {costs.setup_s / 60:5.1f} min")
    return [*lines, *_disk(setup * 1e9, results_bytes(todo), build, results)]


def _disk(setup: float, results: int, build_folder: Path, results_folder: Path) -> list[str]:
    wanted: dict[Path, float] = {}
    lines = []
    for what, size, folder in (
        ("environments and models", setup, build_folder),
        ("records", float(results), results_folder),
    ):
        if size:
            place = _existing(folder)
            wanted[place] = wanted.get(place, 0.0) + size
            lines.append(f"  disk: about {_size(size)} of {what} under {clean(folder)}")
    for place, size in wanted.items():
        free = shutil.disk_usage(place).free
        if free < size:
            lines.append(
                f"  disk: NOT ENOUGH: {_size(free)} are free where {clean(place.resolve())} is, about {_size(size)} are needed"
            )
    return lines


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    return next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())


def _size(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{max(1.0, size / 1e6):.0f} MB"
