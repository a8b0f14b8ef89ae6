"""The report of `rungproof measure` in words and tables."""

from collections.abc import Iterator

from rich.table import Table

from rungproof.cli.words import add, clean, console, number, table
from rungproof.measure.external.report import Report, RungReport
from rungproof.measure.external.run import VENDOR
from rungproof.records.formats import RequestResult

SHOWN = 20  # requests with something against them that are listed unless all are asked for
FIGURES = {
    "rung": False, "pass": False, "complete": True, "tok/s": True, "tok/s a user": True, "decode tok/s": True, "TTFT ms": True,
    "slowest": True, "identical": True,
}  # fmt: skip
REQUESTS = {
    "request": False, "state": False, "prompt tokens": True, "tokens": True, "sent ms": True, "TTFT ms": True, "last token ms": True,
    "decode tok/s": True, "why": False,
}  # fmt: skip


def tell(report: Report, every_request: bool) -> None:
    """Print the report for a person."""
    screen = console()
    length = "exactly" if report.exact_length else "at most"
    print(clean(f"{report.url}, model {report.model}"))
    print(
        clean(
            f"{length} {report.tokens} tokens an answer, temperature 0, seed {report.seed}, prompts: {report.prompts}"
        )
    )
    screen.print(figures(report))
    for line in lines(report):
        print(clean(line))
    chosen = [(g, r) for g in report.rungs for r in g.requests if every_request or r.state != "complete" or r.reasons]
    if chosen:
        screen.print(requests(chosen if every_request else chosen[:SHOWN], every_request))
        if not every_request and len(chosen) > SHOWN:
            print(f"... and {len(chosen) - SHOWN} more; --requests lists all.")
    print(clean(f"Not qualified, and cannot be: {report.why_not_qualified}."))


def figures(report: Report) -> Table:
    """One row a pass."""
    made = table("", FIGURES)
    for rung in report.rungs:
        name = f"c{rung.concurrency}"
        if not rung.passes:
            add(made, name, "-", f"{rung.states['complete']}/{rung.planned}", *["-"] * (len(FIGURES) - 3))
        for one in rung.passes:
            same = f"{one.identical}/{one.compared}" if one.compared else "-"
            add(
                made, name, one.batch.removeprefix("pass-"), f"{one.complete}/{one.planned}", number(one.aggregate), number(one.per_user),
                number(one.decode_rate), number(one.ttft_ms_median), number(one.ttft_ms_max), same,
            )  # fmt: skip
    return made


def requests(chosen: list[tuple[RungReport, RequestResult]], every_request: bool) -> Table:
    """One row a request; times from the first request of its rung (sent) and from its own sending (the others)."""
    made = table("Requests" if every_request else "Requests with something against them", REQUESTS)
    for rung, r in chosen:
        began = min(other.sent_ns for other in rung.requests)
        last = None if r.last_token_ns is None else (r.last_token_ns - r.sent_ns) / 1e6
        ttft = None if r.ttft_ns is None else r.ttft_ns / 1e6
        count = len(r.token_ids) if r.token_ids else r.completion_tokens
        add(
            made, f"c{rung.concurrency} {r.batch} {r.key}", r.state, number(r.prompt_tokens, 0), number(count, 0),
            number((r.sent_ns - began) / 1e6), number(ttft), number(last), number(r.decode_rate),
            "; ".join(f"{reason.what} ({reason.found})" for reason in r.reasons),
        )  # fmt: skip
    return made


def lines(report: Report) -> Iterator[str]:
    """What the table does not say: requests that are missing, identity, doubts."""
    for rung in report.rungs:
        yield f"c{rung.concurrency}: {_population(rung)}; {_identity(rung)}"
    timed = [b for rung in report.rungs for b in rung.batches if b.wall_ns]
    if late := sum(b.stamp_source == "user" for b in timed):
        yield f"In {late} of {len(timed)} batches times are those at which this program read the bytes, as kernel stamps were not to be had for all."
    if any(rung.passes for rung in report.rungs) and all(
        r.decode_rate is None for rung in report.rungs for r in rung.requests
    ):
        yield f"No decode rate: it needs token ids, and answers of at least {report.window} tokens."
    yield from _doubts(report)


def _doubts(report: Report) -> Iterator[str]:
    """One line a kind of doubt, with what was found at which places; rungs that found the same stand together."""
    kinds: dict[tuple[str, str], dict[str, list[str]]] = {}
    for rung in report.rungs:
        name = f"c{rung.concurrency}"
        for one in rung.doubts:
            where = name if one.where == name else f"{name} {one.where}"
            kinds.setdefault((one.what, one.expected), {}).setdefault(one.found, []).append(where)
    for (what, expected), found in kinds.items():
        parts = [f"{', '.join(where[:SHOWN])}: {words}" for words, where in found.items()]
        more = f"; and {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
        yield f"Doubt: {what}, expected {expected}: {'; '.join(parts[:SHOWN])}{more}"


def _population(rung: RungReport) -> str:
    other = [f"{count} {state}" for state, count in rung.states.items() if count and state != "complete"]
    unsent = rung.planned - sum(rung.states.values())
    if unsent:
        other.append(f"{unsent} not sent")
    return ", ".join([f"{rung.states['complete']} of {rung.planned} requests complete", *other])


def _identity(rung: RungReport) -> str:
    found = rung.identity
    if found.cannot:
        return found.cannot
    words = f"{found.k}/{found.n} outputs identical to one at a time on this server, {found.sites_k}/{found.sites_n} prompts in every pass"
    if found.divergences:
        first = min(found.divergences, key=lambda d: d.index)
        words += f"; the earliest difference: {first.site} in {first.batch} at token {first.index}"
    return words


def advice(report: Report) -> list[str]:
    """What to do about a measurement that is not whole."""
    made = []
    vendor = ", ".join(VENDOR)
    if report.refused_status is not None:
        made.append(f"the server refused the requests: {report.refused}")
    elif report.refused:
        made.append(f"{report.url}: {report.refused}; is the server running, and is --url right?")
    if report.refused_status in (400, 422) and not report.plain:
        made.append(
            f"if it does not know a parameter, try --plain: it leaves out {vendor} (without token ids nothing can be compared)"
        )
    elif report.refused_status in (401, 403):
        made.append("this command sends no API key; measure behind the proxy that asks for one")
    elif report.refused_status in (404, 405):
        made.append("check --url and --model; the server must offer /v1/completions (chat alone is not enough)")
    short = sum(reason.what == "short output" for rung in report.rungs for r in rung.requests for reason in r.reasons)
    if short:
        made.append(
            f"{short} answers ended before {report.tokens} tokens although ignore_eos was asked, so their rungs have no tok/s; "
            "--plain allows natural ends"
        )
    if not report.complete and not report.refused:
        made.append("a batch with a request that was not complete ends its rung; the states and reasons are above")
    return made
