"""How a cheat works on a pack: changes of its files, a signature of his own, everything that follows from them made again.

Which changes the tests make, and the level at which each fails, stands in mutations.py.
"""

import gzip
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rungproof.judge.checks.found import Found
from rungproof.judge.claims import measurement, provenance
from rungproof.judge.oracle import tokens
from rungproof.judge.recompute import recompute
from rungproof.judge.replay import claimed_items
from rungproof.judge.standing import standing
from rungproof.publish.pages import render
from rungproof.records.codec import canonical, parse, sha256
from rungproof.records.errors import EvidenceError
from rungproof.records.formats import Judged
from rungproof.records.plan import Plan
from rungproof.records.standing import ProofLine
from rungproof.records.summary import Summary
from verify.laid import Key, line, manifests
from verify.laid import sha256 as digest_of

RUNG = "sessions/r001.base.a/attempts/ladder.c2"
WITHHELD = "sessions/r001.base.a/attempts/ladder.c4"
STRICT = "sessions/r001.base.a/attempts/strict.suite"


def edit(path: Path, change: Callable[[Any], object]) -> None:
    """Change one JSON record in place, in canonical form."""
    value = json.loads(path.read_bytes())
    change(value)
    path.write_bytes(canonical(value))


def lines_of(path: Path) -> list[Any]:
    """The lines of a raw file."""
    return [json.loads(text) for text in gzip.decompress(path.read_bytes()).splitlines()]


def write_lines(path: Path, lines: list[Any]) -> None:
    """A raw file of these lines."""
    path.write_bytes(gzip.compress(b"".join(json.dumps(one).encode() + b"\n" for one in lines), mtime=0))


def raw(change: Callable[[list[Any]], list[Any] | None], name: str = RUNG) -> Callable[[Path], None]:
    """A change of the lines of one raw file."""

    def apply(pack: Path) -> None:
        path = pack / f"{name}.raw.jsonl.gz"
        lines = lines_of(path)
        write_lines(path, change(lines) or lines)

    return apply


def json_of(name: str, change: Callable[[Any], object]) -> Callable[[Path], None]:
    """A change of one record."""
    return lambda pack: edit(pack / name, change)


def text(name: str, old: str, new: str) -> Callable[[Path], None]:
    """A change of a text, at its first place."""

    def apply(pack: Path) -> None:
        path = pack / name
        held = path.read_text(encoding="utf-8")
        found = re.search(old, held)
        assert found, f"{old} is not in {name}"
        path.write_text(held[: found.start()] + found.expand(new) + held[found.end() :], encoding="utf-8")

    return apply


def requests(lines: list[Any], batch: str) -> list[Any]:
    """The requests of a batch."""
    return [one for one in lines if one["kind"] == "request" and one["batch"].startswith(batch)]


def flip_token(lines: list[Any]) -> None:
    """One digit of one token id of the last request."""
    one = requests(lines, "pass-")[-1]
    found = list(re.finditer(r'"token_ids": ?\[(\d+)', one["bytes"]))[20]
    at = found.end() - 1
    one["bytes"] = one["bytes"][:at] + ("1" if one["bytes"][at] != "1" else "2") + one["bytes"][at + 1 :]


def drop_request(lines: list[Any]) -> list[Any]:
    """The last request of a pass vanishes."""
    return [one for one in lines if one is not requests(lines, "pass-")[-1]]


def add_request(lines: list[Any]) -> list[Any]:
    """A request of a pass stands twice."""
    return [*lines[:-1], requests(lines, "pass-")[-1], lines[-1]]


def scale(factor: float) -> Callable[[list[Any]], None]:
    """Every stamp nearer to the first one."""

    def change(lines: list[Any]) -> None:
        first = min(one["at_ns"] for one in lines if one["kind"] == "metrics")

        def moved(at: int | None) -> int | None:
            return None if at is None else first + round((at - first) * factor)

        for one in lines:
            for key in ("at_ns", "start_ns", "connected_ns", "sent_ns", "sent_end_ns", "end_ns"):
                if key in one:
                    one[key] = moved(one[key])
            if "chunks" in one:
                one["chunks"] = [[moved(at), length] for at, length in one["chunks"]]

    return change


def invent(lines: list[Any]) -> None:
    """Every answer of a withheld rung becomes its oracle's, stretched over its own time and dated by its own server's clock: whoever
    invents looks at what the server's counters say."""
    truth = {one["key"]: one for one in requests(lines, "oracle-")}
    for one in requests(lines, "pass-"):
        other = truth[one["key"]]
        created = re.search(r'"created": ?\d+', one["bytes"])
        assert created
        first, last = one["sent_ns"], one["chunks"][-1][0]
        begun, length_ns = other["sent_ns"], other["chunks"][-1][0] - other["sent_ns"]
        one["bytes"] = re.sub(r'"created": ?\d+', created[0], other["bytes"])
        one["chunks"] = [[first + (at - begun) * (last - first) // length_ns, length] for at, length in other["chunks"]]


def reorder(lines: list[Any]) -> list[Any]:
    """The two passes of a rung change places in the file."""
    first, second = ([o for o in lines if o.get("batch") == f"pass-{n}"] for n in (1, 2))
    head = [o for o in lines if o not in first and o not in second]
    return [*head[:-1], *second, *first, head[-1]]


def swap(one: str, two: str) -> Callable[[Path], None]:
    """Two files change places."""

    def apply(pack: Path) -> None:
        a, b = (pack / one).read_bytes(), (pack / two).read_bytes()
        (pack / one).write_bytes(b), (pack / two).write_bytes(a)

    return apply


def swap_servers(pack: Path) -> None:
    """Everything measured on the first server of the base is said to be the second one's, and the other way round, its strict suite that is."""
    for name in ("attempts/strict.suite.raw.jsonl.gz", "attempts/strict.suite.json", "judged/strict.suite.json"):
        swap(f"sessions/r001.base.a/{name}", f"sessions/r001.base.b/{name}")(pack)


def truncate(name: str) -> Callable[[Path], None]:
    """The last third of a file is gone."""

    def apply(pack: Path) -> None:
        data = (pack / name).read_bytes()
        (pack / name).write_bytes(data[: 2 * len(data) // 3])

    return apply


def gone(*patterns: str) -> Callable[[Path], None]:
    """Files that were made to vanish."""

    def apply(pack: Path) -> None:
        found = [path for pattern in patterns for path in pack.glob(pattern)]
        assert found, patterns
        for path in found:
            path.unlink()

    return apply


def hide_state(pack: Path) -> None:
    """A withheld rung is called qualified wherever it is shown."""

    def point(value: Any) -> None:
        one = next(p for p in value["points"] if p["id"].startswith("base/ladder/c4"))
        one.update(state="qualified", reasons=[])

    edit(pack / "summary.json", point)
    render(parse(Summary, (pack / "summary.json").read_bytes(), "summary"), pack / "page")


def hide_point(pack: Path) -> None:
    """The value of a withheld rung stands on no page any more, neither in a table nor in a chart."""
    found = json.loads((pack / "summary.json").read_bytes())["points"]
    name = re.escape(next(point["id"] for point in found if point["id"].startswith("base/ladder/c4")))
    taken = 0
    for page in (pack / "page").glob("*.html"):
        held = page.read_text(encoding="utf-8")
        for tag in ("data", "a"):
            held, times = re.subn(rf'<{tag} [^>]*data-claim="{name}"[^>]*>.*?</{tag}>', "", held, flags=re.DOTALL)
            taken += times
        page.write_text(held, encoding="utf-8")
    assert taken


def rounding(pack: Path) -> None:
    """A number of the page with fewer digits than it has."""
    text("page/index.html", r'(data-claim="[^"]*"[^>]*>\d+)\.\d+</data>', r"\1</data>")(pack)


def backdate(pack: Path) -> None:
    """The plan was registered an hour before it was."""
    edit(pack / "runs/r001/registered.json", lambda r: r.update(at=r["at"].replace(r["at"][:10], "2020-01-01")))


def backdate_both(pack: Path) -> None:
    """The same on both of its clocks, by half a minute."""
    from datetime import datetime, timedelta

    def change(r: Any) -> None:
        r["at"] = (datetime.fromisoformat(r["at"]) - timedelta(seconds=30)).isoformat(timespec="seconds")
        r["at_ns"] -= 30 * 10**9

    edit(pack / "runs/r001/registered.json", change)


def another_rule(pack: Path) -> None:
    """After the fact a rung need be exact in its second pass alone; plan and lock say so."""

    def change(plan: Any) -> None:
        for gate in plan["gates"]:
            if gate["kind"] == "ladder_rung":
                gate["rule"]["exact"] = [2]

    edit(pack / "plan.json", change)
    shutil.copy(pack / "plan.json", pack / "plan/campaign.lock.json")


def cheating_reducer(pack: Path) -> None:
    """The reducer gives every rate twice over."""
    path = pack / "reducer/rungproof/judge/rates.py"
    held = path.read_text()
    assert held.count("(window - 1) * SECOND") == 1
    path.write_text(held.replace("(window - 1) * SECOND", "2 * (window - 1) * SECOND"))


def overlap(pack: Path) -> None:
    """The second server of the base is said to have begun while the first one lived."""
    other = json.loads((pack / "sessions/r001.base.a/server.json").read_bytes())["at"]
    edit(pack / "sessions/r001.base.b/server.json", lambda s: s.update(at=other))


def shorter_attempt(pack: Path) -> None:
    """All stamps of an attempt scaled, and its record made to fit."""
    raw(scale(0.25), STRICT)(pack)
    edit(pack / f"{STRICT}.json", lambda a: a.update(seconds=round(a["seconds"] * 0.25, 3)))


def samples_scaled(pack: Path) -> None:
    """The samples of a session nearer together."""
    path = pack / "sessions/r001.base.a/env.samples.jsonl"
    lines = [json.loads(one) for one in path.read_bytes().splitlines()]
    first = lines[0]["at_ns"]
    for one in lines:
        one["at_ns"] = first + (one["at_ns"] - first) // 4
    path.write_bytes(b"".join(canonical(one) for one in lines))


def nothing(_pack: Path) -> None:
    """No change but the signature."""


def signed(pack: Path, key: Key) -> None:
    """Manifests, statements and standing by this key; what is claimed is what the summary in the pack says."""
    (pack / "signer.pub.pem").write_bytes(key.public.read_bytes())
    (pack / "page/standing.json").unlink(missing_ok=True)
    manifests(pack)
    whole = digest_of(pack / "MANIFEST.sha256")
    summary = parse(Summary, (pack / "summary.json").read_bytes(), "summary.json")
    plan = parse(Plan, (pack / "plan.json").read_bytes(), "plan.json")
    claimed = measurement(summary)
    own = [ProofLine(kind, key.id, True, whole, said) for kind, said in (("provenance", {}), ("measurement", claimed))]  # type: ignore[arg-type]
    (pack / "page/standing.json").write_bytes(
        canonical(standing(own, whole, key.id, claimed_items(plan, summary.points)))
    )
    manifests(pack)
    try:
        source = provenance({name: (pack / name).read_bytes() for name in names(pack)}, plan)
    except EvidenceError:  # of a record that was spoilt
        source = {}
    page = {"state": "Lab-measured", "log_head": "", "pack": {"sha256": whole}}
    (pack / "proof.intoto.jsonl").write_bytes(
        line("provenance", whole, source, key)
        + line("measurement", whole, claimed, key)
        + line("page", digest_of(pack / "page/MANIFEST.sha256"), page, key, "page/MANIFEST.sha256")
    )


def remade(pack: Path) -> None:
    """Everything that follows from the evidence is made again: digests, records, verdicts, summary, page, oracle."""
    for path in pack.glob("sessions/*/attempts/*.raw.jsonl.gz"):
        record = path.with_name(path.name.removesuffix(".raw.jsonl.gz") + ".json")
        edit(record, lambda a, p=path: a["raw"].update(sha256=sha256(p.read_bytes())) if a["raw"] else None)
    plan = (pack / "plan.json").read_bytes()
    edit(pack / "summary.json", lambda s: s.update(lock_sha256=sha256(plan)))
    for _ in range(2):  # judged records name the judge that made them; the first turn brings the others up to date
        again = recompute(
            lambda name: (pack / name).read_bytes() if (pack / name).is_file() else None, names(pack), Found()
        )
        for lying in again.judged.values():
            for place, judged in lying:
                (pack / place.path).write_bytes(canonical(judged))
    for path in (pack / "verdicts").glob("*.json"):
        path.unlink()
    for verdict in again.summary.verdicts:
        (pack / f"verdicts/{verdict.gate}.json").write_bytes(canonical(verdict))
    (pack / "summary.json").write_bytes(canonical(again.summary))
    records: list[Judged] = [one for lying in again.judged.values() for _, one in lying]
    (pack / "oracle/tokens.json").write_bytes(canonical(tokens(parse(Plan, plan, "plan.json"), records)))
    render(again.summary, pack / "page")


def names(pack: Path) -> list[str]:
    """Every file of a pack."""
    return [p.relative_to(pack).as_posix() for p in pack.rglob("*") if p.is_file()]
