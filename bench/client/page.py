"""The figures as lines, as a table in Markdown, and as a small page."""

import html as escape
from collections.abc import Sequence
from typing import Any

LOAD = {
    "load": "case", "client": "tool", "TTFT error p50 [ms]": "ttft_error_p50_ms", "TTFT error p99 [ms]": "ttft_error_p99_ms",
    "inter-token error p50 [ms]": "itl_error_p50_ms", "inter-token error p99 [ms]": "itl_error_p99_ms",
    "processor time an event while streaming [us]": "cpu_us_event", "processor time in all [s]": "cpu_s",
}  # fmt: skip
WORDS = """\
Every client on the same load, one after the other, against a server that puts its own send stamps into its events: {tokens} events a
stream, one each {interval} ms, all streams in lockstep. Error: reported minus true; TTFT counts from the arrival of the request in the
server's kernel, so what a client spends between its own clock's start and the wire is its error; inter-token errors as absolute
values. "none": the client does not save it.
"""


def line(row: dict[str, Any]) -> str:
    """One run for the terminal."""
    cells = ", ".join(f"{key} {_text(row[key])}" for key in ("ok", "planned", "exit_code", *list(LOAD.values())[2:]))
    return f"{row['case']:>6} {row['tool']:<18} {row['words'] or cells}"


def loads(rows: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the table of the loads, by load."""
    head = [
        *LOAD,
        "tokens counted / sent",
        "requests",
        "exit code",
        "server's ticks late p99 [ms]",
        "machine's load before",
    ]
    made = []
    chosen = [row for row in rows if row["case"].startswith("c")]
    for row in sorted(chosen, key=lambda one: int(one["case"][1:])):
        cells = [_text(row[key]) for key in LOAD.values()]
        counted = f"{_text(row['tokens_counted'])} / {row['tokens_sent']}"
        late, load = _text(row["server"].get("late_p99_ms")), f"{row['load_1min']:.1f}"
        made.append(
            [*cells, row["words"] or counted, f"{row['ok']} / {row['planned']}", _text(row["exit_code"]), late, load]
        )
    return head, made


def hard(rows: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the table of the known-hard streams: a client a row."""
    whats = {
        "S37": "two to four tokens an event: tokens counted of {sent}", "S11": "an error after five tokens: successes of {planned}",
        "S15": "ends after five tokens, no length: successes of {planned}", "S16": "cut in a chunked body: successes of {planned}",
    }  # fmt: skip
    head, made = ["client"], {}
    for name, what in whats.items():
        found = [row for row in rows if row["case"] == name]
        if found:
            head.append(f"{name}: " + what.format(sent=found[0]["tokens_sent"], planned=found[0]["planned"]))
        for row in found:
            told = _text(row["tokens_counted"] if name == "S37" else row["ok"])
            told = f"{row['words'] or told} (exit code {_text(row['exit_code'])})"
            made.setdefault(row["tool"], [row["tool"]]).append(told)
    return head, list(made.values())


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Both tables in Markdown."""
    made = WORDS.format(tokens=64, interval=20) + "\n"
    for head, body in (loads(rows), hard(rows)):
        lines = [head, ["---"] * len(head), *body]
        made += "".join(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n" for cells in lines) + "\n"
    return made


def html(rows: Sequence[dict[str, Any]]) -> str:
    """The page."""
    parts = [f"<p>{escape.escape(WORDS.format(tokens=64, interval=20))}</p>"]
    for head, body in (loads(rows), hard(rows)):
        top = "".join(f"<th scope=col>{escape.escape(cell)}</th>" for cell in head)
        inner = "".join("<tr>" + "".join(f"<td>{escape.escape(c)}</td>" for c in cells) + "</tr>\n" for cells in body)
        parts.append(f"<div><table><thead><tr>{top}</tr></thead>\n<tbody>{inner}</tbody></table></div>")
    style = (
        "body{font:16px/1.5 system-ui,sans-serif;max-width:80rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
        "div{overflow-x:auto;margin:1.5rem 0}table{border-collapse:collapse}th,td{padding:.3rem .7rem;text-align:right;"
        "border-bottom:1px solid #8888}th{vertical-align:bottom}td:nth-child(-n+2),th:nth-child(-n+2){text-align:left}"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Clients side by side</title><style>{style}</style></head>\n<body><h1>Clients side by side</h1>\n"
        + "\n".join(parts) + "\n</body></html>\n"
    )  # fmt: skip


def _text(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
