"""Pages of what packs were measured with: each suite and lane as the packs carry it, each rule as the judge's own source tells it."""

import inspect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from rungproof.judge import rungs, stats
from rungproof.judge.gates import judge_gate, judge_spread
from rungproof.judge.host_facts import flat
from rungproof.judge.identity import divergence
from rungproof.judge.soundness import judge_count
from rungproof.plan.gates import COUNT_TITLES
from rungproof.publish.pages.facts import Fact, facts
from rungproof.publish.site.found import Found, PackEntry, config_text
from rungproof.publish.site.listing import page_of
from rungproof.records.plan import COUNTS, GateKind

TEXT_LIMIT = 60_000  # characters of a configuration file on a page
TITLES: dict[str, str] = {
    "base_repeat": "The base arm repeats itself on a second fresh server",
    "draft_repeat": "An arm with drafts repeats itself on a second fresh server",
    "draft_oracle": "An arm with drafts gives the tokens of its lane without them",
    "ladder_rung": "A rung gives the tokens of one request at a time",
    "depth_oracle": "A context depth gives the tokens of its oracle",
    "short_oracle": "Short prompts give the tokens of their oracle",
    "spread": "Fresh servers lie near each other",
    **{str(kind): title for kind, title in COUNT_TITLES.items()},
}  # fmt: skip
WORKLOADS = {
    "base_repeat": "strict", "draft_repeat": "strict", "draft_oracle": "strict", "spread": "strict", "ladder_rung": "ladder",
    "depth_oracle": "depth", "short_oracle": "short",
}  # fmt: skip
FIXED = ("passes", "exact", "shown", "cap", "tokens", "window", "min_distinct", "stagger_ms", "copies", "repeats")
JUDGES: dict[str, tuple[object, ...]] = {
    "ladder_rung": (judge_gate, rungs, rungs.rung_of, divergence),
    "spread": (judge_spread,),
    **{str(kind): (judge_count,) for kind in COUNTS},
}


@dataclass(frozen=True, slots=True)
class Thing:
    """A page of its own. `parts`: (heading, paragraphs); `rows`: facts; `text`: a configuration file as it is; used: packs that used it."""

    page: str
    kind: str
    name: str
    title: str
    parts: tuple[tuple[str, tuple[str, ...]], ...]
    rows: tuple[Fact, ...]
    text: str
    source: str
    used: tuple[PackEntry, ...]


def rules(found: Found) -> list[Thing]:
    """One page a kind of gate, and one on statistics: the words are the docstrings of the code that judges."""
    made = []
    for kind in get_args(GateKind):
        judges = JUDGES.get(kind, (judge_gate, divergence))
        where = ", ".join(dict.fromkeys(_where(judge) for judge in judges))
        parts = tuple((_name(judge), _words(judge)) for judge in judges)
        made.append(
            Thing(page_of("rule", kind), "rule", kind, TITLES[kind], parts, _planned(found, kind), "", where, ())
        )
    allowed = (
        stats, stats.servers_interval, stats.range_of, stats.t_interval, stats.median_interval, stats.rate_ratio, stats.lower_bound, stats.outliers,
    )  # fmt: skip
    parts = tuple((_name(judge), _words(judge)) for judge in allowed)
    made.append(
        Thing(
            page_of("rule", "statistics"),
            "rule",
            "statistics",
            "What a sample allows",
            parts,
            (),
            "",
            _where(stats),
            (),
        )
    )
    return made


def _planned(found: Found, kind: str) -> tuple[Fact, ...]:
    """What packs fixed for workloads that such a gate looks at, each way once with how many packs have it."""
    looks = WORKLOADS.get(kind, "")
    ways: Counter[str] = Counter()
    for pack in found.packs:
        works = [work for work in pack.rules.values() if isinstance(work, dict) and looks and work.get("kind") == looks]
        ways.update(
            {
                ", ".join(f"{key} {text}" for key, text in flat({k: work[k] for k in FIXED if k in work}))
                for work in works
            }
        )
    return tuple(Fact(way, f"{count} {'pack' if count == 1 else 'packs'}") for way, count in sorted(ways.items()))


def _name(judge: object) -> str:
    return str(getattr(judge, "__name__", "")).removeprefix("rungproof.")


def _words(judge: object) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in (inspect.getdoc(judge) or "").split("\n\n"))


def _where(judge: object) -> str:
    name = judge.__name__ if inspect.ismodule(judge) else str(getattr(judge, "__module__", ""))
    return f"reducer/{name.replace('.', '/')}.py"


def suites(found: Found) -> list[Thing]:
    """One page a suite and version, told apart by its sha256."""
    using: dict[tuple[str, str], list[PackEntry]] = {}
    for pack in found.packs:
        for suite in pack.suites:
            using.setdefault(suite, []).append(pack)
    return [
        Thing(
            suite_page(name, digest), "suite", name, f"Suite {name}", (), (Fact("sha256", digest),),
            *_config(found, packs, f"suites/{name}.yaml"), tuple(packs),
        )
        for (name, digest), packs in sorted(using.items())
    ]  # fmt: skip


def suite_page(name: str, digest: str) -> str:
    """The page of one version of a suite."""
    return page_of("suite", f"{name}-{digest[:8]}")


def lanes(found: Found) -> list[Thing]:
    """One page a lane, with the newest of its files and the launch of each arm that used it."""
    using: dict[str, list[PackEntry]] = {}
    for pack in found.packs:
        for lane in {arm.lane for arm in pack.arms}:
            using.setdefault(lane, []).append(pack)
    made = []
    for lane, packs in sorted(using.items()):
        newest = sorted(packs, key=lambda p: (p.measured, p.folder), reverse=True)
        launches = {arm.launch_sha256: arm for pack in newest for arm in pack.arms if arm.lane == lane}
        words = (
            "Its launch:"
            if len(launches) == 1
            else f"{len(launches)} different launches of it were measured; the newest one stands here:",
        )
        parts = (("", words),)
        first = next(arm for arm in newest[0].arms if arm.lane == lane)
        text, source = _config(found, newest, f"lanes/{lane}.yaml")
        made.append(
            Thing(
                page_of("lane", lane),
                "lane",
                lane,
                f"Lane {lane}",
                parts,
                tuple(facts(first.launch)),
                text,
                source,
                tuple(packs),
            )
        )
    return made


def _config(found: Found, packs: Sequence[PackEntry], path: str) -> tuple[str, str]:
    """The text of a configuration file and where it lies, from the first pack that has it."""
    for pack in packs:
        text = config_text(found.reports, pack, path) if path in pack.configs else ""
        if text:
            cut = text if len(text) <= TEXT_LIMIT else f"{text[:TEXT_LIMIT]}\n... ({len(text)} characters in all)"
            return cut, f"{pack.folder}/plan/inputs/config/{path}"
    return "", ""
