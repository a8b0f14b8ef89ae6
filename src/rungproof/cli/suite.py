"""`rungproof suite tie`: a suite of the prompts that broke at a rung, with how often each did."""

import argparse
from pathlib import Path
from typing import Any

from rungproof.cli.words import clean
from rungproof.config.base import check_section, read_yaml, yaml_text
from rungproof.config.suites import TieSuite
from rungproof.judge.evidence import read_prompts
from rungproof.judge.gates import breaks_of
from rungproof.records.codec import read
from rungproof.records.errors import ConfigError
from rungproof.records.files import write_atomic
from rungproof.records.formats import Judged
from rungproof.records.plan import Plan, split_session

HEAD = "# Written by `rungproof suite tie`: prompts whose outputs left the oracle, the most often first.\n"


def add_options(to: argparse.ArgumentParser) -> None:
    """The rung and the name of the suite; the campaign is that of plan and status."""
    to.add_argument("point", metavar="ARM/WORKLOAD/ITEM", help="a rung that was run many times, such as bf16/ties/c16")
    to.add_argument("--id", required=True, metavar="NAME", help="name of the suite: config/suites/NAME.yaml is written")
    to.add_argument("--replace", action="store_true", help="write over a suite of that name")


def tie(options: argparse.Namespace, plan: Plan, study: Path) -> int:
    """Write the suite. Raises ConfigError where the point is no rung, nothing of it was accepted, or nothing broke."""
    to = options.root / "config/suites" / f"{options.id}.yaml"
    if to.exists() and not options.replace:
        raise ConfigError(f"{to}: is there already; add --replace, or use another --id")
    suite = tie_suite(plan, study, options.point, options.id, options.root)
    made = check_section(TieSuite, suite, f"--id {options.id}")
    write_atomic(to, (HEAD + yaml_text(suite)).encode())
    print(f"{clean(to)}: {len(made.prompts)} prompts that broke")
    for prompt in made.prompts:
        print(f"  {prompt.id}: {prompt.broke} of {prompt.of} outputs left the oracle")
    return 0


def tie_suite(plan: Plan, study: Path, point: str, name: str, root: Path) -> dict[str, Any]:
    """The suite as plain values: texts as they were sent, with how many of their outputs broke over all servers of the rung."""
    items = [i for i in plan.items if f"{i.arm}/{i.workload}/{i.item}" == point]
    if not items or items[0].spec["kind"] != "ladder":
        rungs = ", ".join(
            dict.fromkeys(f"{i.arm}/{i.workload}/{i.item}" for i in plan.items if i.spec["kind"] == "ladder")
        )
        raise ConfigError(f"{point}: no rung of campaign {plan.campaign}; it has {rungs or 'no ladder'}")
    breaks: dict[str, tuple[int, int]] = {}
    texts: dict[str, str] = {}
    passes = 0
    for item in items:
        path = study / "accepted" / item.seat / item.workload / f"{item.item}.json"
        if not path.exists():
            continue
        judged = read(Judged, path)
        if judged.state != "accepted":
            continue
        passes += int(item.spec["passes"])
        file = study / "runs" / split_session(judged.session)[0] / "prompts" / f"{item.arm}.{item.workload}.json"
        texts |= {key: str(text) for key, text in read_prompts(file.read_bytes(), str(file)).items()}
        for prompt, (broke, of) in breaks_of(judged).items():
            before = breaks.get(prompt, (0, 0))
            breaks[prompt] = (before[0] + broke, before[1] + of)
    broken = sorted(
        ((b, of, prompt) for prompt, (b, of) in breaks.items() if b), key=lambda row: (-row[0] / row[1], row[2])
    )
    if not broken:
        what = (
            f"in {passes} passes over {len(breaks)} prompts nothing broke"
            if breaks
            else "nothing of it is accepted yet"
        )
        raise ConfigError(
            f"{point}: {what}, so there is no tie site to write. Run more passes, a higher rung, or another suite."
        )
    source = read_yaml(root / "config/suites" / f"{items[0].spec['suite']}.yaml")
    return {
        "id": name,
        "kind": "tie",
        "source": f"prompts of {items[0].spec['suite']} ({source['source']})",
        "licence": source["licence"],
        "made_from": f"{plan.study} {point}, {passes} passes, suite {items[0].spec['suite_sha256'][:12]}",
        "prompts": [{"id": prompt, "text": texts[prompt], "broke": broke, "of": of} for broke, of, prompt in broken],
    }
