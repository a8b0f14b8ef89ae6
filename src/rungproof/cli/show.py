"""`rungproof show`: one record in the terminal, with every request, its state, tokens and rates, the gates, and the files."""

import argparse
import json
from pathlib import Path

from rungproof.cli.gates import row_of
from rungproof.cli.words import add, clean, console, number, table
from rungproof.judge.gates import ORACLE
from rungproof.judge.identity import divergence
from rungproof.judge.numbers import UNITS, value_of
from rungproof.judge.use import pick
from rungproof.publish.pages.text import count_of, shortened
from rungproof.records.codec import plain, read
from rungproof.records.errors import ConfigError, EvidenceError
from rungproof.records.formats import Judged, RequestResult
from rungproof.records.plan import Item, Plan, split_session
from rungproof.records.requests import prompt_key

TEXT_LIMIT = 400  # characters of an answer that --text shows
FILES = ("server.json", "env.json", "client.json", "canary_before.json", "canary_after.json", "closed.json")


def add_options(to: argparse.ArgumentParser) -> None:
    """The record of show; the campaign is that of plan and status."""
    to.add_argument(
        "record",
        metavar="ARM/WORKLOAD/ITEM",
        help="as status lists it, without the metric; ARM.REPLICATE for one server",
    )
    to.add_argument("--all", action="store_true", help="also attempts that are not in use")
    to.add_argument("--text", action="store_true", help=f"also the answers, up to {TEXT_LIMIT} characters of each")
    to.add_argument("--json", action="store_true", help="print the records as JSON, token ids included")


def show(options: argparse.Namespace, plan: Plan, study: Path) -> int:
    """Print the records of one item on each of its servers. Exit code 1 where one of them has none.

    Raises ConfigError for a name that is no item of the campaign.
    """
    items = [i for i in plan.items if options.record in (i.id, f"{i.arm}/{i.workload}/{i.item}")]
    if not items:
        known = ", ".join(dict.fromkeys(f"{i.arm}/{i.workload}/{i.item}" for i in plan.items))
        raise ConfigError(f"{clean(options.record)}: campaign {plan.campaign} has no such item; it has {known}")
    found = [(item, records_of(study, item)) for item in items]
    whole = all(records for _, records in found)
    if options.json:
        print(json.dumps([plain(j) for _, records in found for j in _chosen(records, options.all)], indent=1))
        return 0 if whole else 1
    print(clean(f"{plan.study}: {plan.arm(items[0].arm).title}, {items[0].workload} {items[0].item}"))
    if plan.simulated:
        print("simulated: nothing was measured")
    _gates(plan, study, items)
    for item, records in found:
        for judged in _chosen(records, options.all):
            _record(options, plan, study, item, judged, judged is pick(records))
        if not records:
            print(clean(f"\n{item.id}: no judged record yet"))
    return 0 if whole else 1


def records_of(study: Path, item: Item) -> list[Judged]:
    """All judged records of an item, newest first. Raises EvidenceError for one that is damaged."""
    made = []
    for path in study.glob(f"sessions/r*.{item.seat}/judged/{item.workload}.{item.item}.json"):
        run = split_session(path.parents[1].name)[0]
        made.append((int(run[1:]), read(Judged, path)))
    return [judged for _, judged in sorted(made, key=lambda pair: -pair[0])]


def _chosen(records: list[Judged], every: bool) -> list[Judged]:
    used = pick(records)
    return records if every else [used] if used else []


def _gates(plan: Plan, study: Path, items: list[Item]) -> None:
    """The gates that may stop the point, as they stand now."""
    point = f"{items[0].arm}/{items[0].workload}/{items[0].item}"
    rows = [row_of(gate, study) for gate in plan.gates if point in gate.guards]
    made = table("", {"gate": False, "state": False, "outputs": True, "stops this": False, "why": False})
    for r in rows:
        stops = point in r.verdict.stops if r.verdict and r.state == r.verdict.state else True
        counted = count_of(r.verdict.k, r.verdict.n) if r.verdict else "-"
        add(made, r.gate.id, r.state, counted, "yes" if stops else "no", r.why)
    if rows:
        console().print(made)
    else:
        print("No gate guards it: there is nothing to compare, so it cannot qualify.")


def _record(options: argparse.Namespace, plan: Plan, study: Path, item: Item, judged: Judged, in_use: bool) -> None:
    shown = _value(item, judged)
    print(clean(f"\n{judged.session}: {judged.state}{'' if in_use else ' (not in use)'}, {shown}"))
    for reason in judged.reasons:
        print(clean(f"  why: {reason}"))
    _batches(judged)
    truth = oracle_of(plan, study, item, judged)
    rows = table(
        "",
        {
            "batch": False, "prompt": False, "state": False, "against its oracle": False, "tokens": True, "first ms": True,
            "tok/s": True, "step ms": True, "end": False, "why": False,
        },
    )  # fmt: skip
    for r in judged.requests:
        add(
            rows, r.batch, r.key, r.state, against(r, truth), len(r.token_ids), _ms(r.ttft_ns), number(r.decode_rate, 2),
            _ms(r.step_median_ns), r.finish_reason or "-", "; ".join(str(why) for why in r.reasons) or "-",
        )  # fmt: skip
    if judged.requests:
        console().print(rows)
    if options.text:
        for r in judged.requests:
            print(clean(f"  {r.batch} {r.key}: {shortened(r.text, TEXT_LIMIT)}"))
    known = [f"{name} {value:g}" for name, value in sorted(judged.counters.items()) if value is not None]
    unknown = [name for name, value in sorted(judged.counters.items()) if value is None]
    print(clean(f"  counters: {', '.join(known) or 'none'}" + (f"; not told: {', '.join(unknown)}" if unknown else "")))
    _files(study, judged)


def _value(item: Item, judged: Judged) -> str:
    try:
        value = value_of(item, judged) if judged.requests else None
    except KeyError:  # a record of other prompts than the plan's, as only a damaged or foreign folder has
        return "no value (its prompts are not those of the plan)"
    return f"{number(value, 2)} {UNITS[item.spec['kind']]}" if value is not None else "no value"


def _batches(judged: Judged) -> None:
    rows = table(
        "",
        {
            "batch": False, "streams": True, "complete": True, "in flight": True, "tokens": True, "wall s": True,
            "tok/s": True, "stamps": False, "waited ms": True,
        },
    )  # fmt: skip
    for b in judged.batches:
        add(
            rows, b.batch, b.concurrency, f"{b.states.get('complete', 0)}/{b.planned}", b.in_flight, b.completion_tokens,
            f"{b.wall_ns / 1e9:.3f}", number(b.aggregate, 2), b.stamp_source, _ms(b.wait_ns),
        )  # fmt: skip
    if judged.batches:
        console().print(rows)


def oracle_of(plan: Plan, study: Path, item: Item, judged: Judged) -> dict[str, tuple[int, ...]] | None:
    """Prompt -> token ids that this record's outputs must equal; None where it is itself an oracle, or its oracle has no record."""
    gate = next((g for g in plan.comparisons if g.subject[0] == item.id and g.kind != "draft_repeat"), None)
    if gate is None:
        return None
    if gate.oracle[0] == item.id:
        return {prompt_key(r.key): r.token_ids for r in judged.requests if r.batch.startswith(ORACLE)}
    other = pick(records_of(study, plan.item(gate.oracle[0])))
    return {r.key: r.token_ids for r in other.requests} if other and other.state == "accepted" else None


def against(request: RequestResult, truth: dict[str, tuple[int, ...]] | None) -> str:
    """How an output stands against its oracle, in words."""
    if request.batch.startswith(ORACLE):
        return "is the oracle"
    if truth is None:
        return "no oracle"
    own = truth.get(request.key, truth.get(prompt_key(request.key)))
    if own is None:
        return "no oracle"
    off = divergence(request.key, request.batch, request.token_ids, own)
    return "identical" if off is None else f"left it at token {off.index + 1} of {off.oracle_length}"


def _ms(span_ns: int | None) -> str:
    return number(span_ns / 1e6, 2) if span_ns is not None else "-"


def _files(study: Path, judged: Judged) -> None:
    """Where its evidence lies; a file that is named and not there is told."""
    home = f"sessions/{judged.session}"
    names = [i.path for i in judged.inputs] + [f"{home}/judged/{judged.workload}.{judged.item}.json"]
    names += [own for name in FILES if (study / (own := f"{home}/{name}")).exists()]
    for name in dict.fromkeys(names):
        path = study / name
        size = f"{path.stat().st_size} bytes" if path.is_file() else "IS NOT THERE"
        print(clean(f"  {path}  {size}"))


def study_of(campaign: str) -> tuple[Plan, Path] | None:
    """The plan and folder behind a name that is a results folder or a pack; None for the name of a campaign.

    Raises EvidenceError for a folder without a plan.
    """
    folder = Path(campaign)
    if not folder.is_dir():
        return None
    if not (folder / "plan.json").exists():
        raise EvidenceError(f"{clean(folder)}: holds no plan.json; expected a results folder or a pack")
    return read(Plan, folder / "plan.json"), folder
