"""Ways to falsify a pack, each as far as a cheat could carry it: bytes alone, manifests too, a signature of his own, or all made again.

`MUTATIONS` is what docs/mutations.md is made from (mutation_table.py) and what test_mutations.py runs.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from campaigns.forge import (
    RUNG,
    STRICT,
    WITHHELD,
    add_request,
    another_rule,
    backdate,
    backdate_both,
    cheating_reducer,
    drop_request,
    flip_token,
    gone,
    hide_point,
    hide_state,
    invent,
    json_of,
    nothing,
    overlap,
    raw,
    reorder,
    rounding,
    samples_scaled,
    scale,
    shorter_attempt,
    swap,
    swap_servers,
    text,
    truncate,
)


@dataclass(frozen=True)
class Mutation:
    """One way to falsify. levels: of each strength (see STRENGTHS) the level that fails, "" where it passes; None: no such strength.
    note: what finds it where no level does."""

    apply: Callable[[Path], object]
    levels: tuple[str | None, str | None, str | None, str | None]
    note: str = ""


STRENGTHS = (
    "bytes alone",
    "manifests redone",
    "signed by another key",
    "everything made again and signed by another key",
)
ONLY = "`--trust`, the published log, a replay"
MUTATIONS: dict[str, Mutation] = {
    "a token of a raw answer is flipped": Mutation(raw(flip_token), ("L0", "L1", "L2", ""), "the rung is withheld then"),
    "a request is dropped": Mutation(raw(drop_request), ("L0", "L1", "L2", ""), "the rung is invalid then"),
    "a request is added": Mutation(raw(add_request), ("L0", "L1", "L2", ""), "the rung is invalid then"),
    "two servers are swapped": Mutation(swap_servers, ("L0", "L1", "L2", ""), "both are invalid then"),
    "raw files of two rungs are swapped": Mutation(
        swap("sessions/r001.base.a/attempts/ladder.c1.raw.jsonl.gz", f"{RUNG}.raw.jsonl.gz"), ("L0", "L1", "L2", ""), "both are invalid then"
    ),
    "two passes change places": Mutation(raw(reorder), ("L0", "L1", "L2", ""), "the rung is invalid then"),
    "a raw file is cut": Mutation(truncate(f"{RUNG}.raw.jsonl.gz"), ("L0", "L1", "L2", ""), "the rung is invalid then"),
    "all stamps of an attempt are scaled": Mutation(raw(scale(0.25), STRICT), ("L0", "L1", "L2", "L4")),
    "all stamps and the length of an attempt are scaled": Mutation(shorter_attempt, ("L0", "L1", "L2", "L4")),
    "answers of a withheld rung are replaced by its oracle's": Mutation(
        raw(invent, WITHHELD), ("L0", "L1", "L2", ""), "`rungproof verify --tokens` where the oracle was invented too; a replay"
    ),
    "a digit of a page is changed": Mutation(
        text("page/index.html", r'(<data value="[^"]*" data-claim="[^"/][^"]*"[^>]*>)[0-8]', r"\g<1>9"), ("L0", "L1", "L2", None)
    ),
    "a value behind a number of a page is changed": Mutation(
        text("page/index.html", r'(<data value=")[0-8]([^"]*" data-claim="[^"/])', r"\g<1>9\2"), ("L0", "L1", "L2", None)
    ),
    "a number is rounded otherwise": Mutation(rounding, ("L0", "L1", "L2", None)),
    "a number without a claim is put on a page": Mutation(
        text("page/index.html", r"</main>|</body>", "<p>In truth 9999.9 tok/s</p></body>"), ("L0", "L1", "L2", None)
    ),
    "a script is put into a page": Mutation(
        text("page/index.html", "</body>", "<script>document.body.innerText = '9999'</script></body>"), ("L0", "L1", "L2", None)
    ),
    "a withheld number is shown as if it were qualified": Mutation(
        text("page/index.html", r'( data-state="withheld")', ""), ("L0", "L1", "L3", None)
    ),
    "a withheld number is taken off every page": Mutation(hide_point, ("L0", "L1", "L3", None)),
    "a rule of the style sheet hides what was withheld": Mutation(
        text("page/index.html", "</style>", ".withheld,[data-state]{display:none}</style>"),
        ("L0", "L1", "", None),
        "`rungproof verify`, which makes the page again; the script compares claims, not what a browser draws of them",
    ),
    "a twin's value is changed (CSV)": Mutation(text("page/points.csv", r",(\d+\.\d)", r",9\1"), ("L0", "L1", "L2", None)),
    "a twin's value is changed (JSON)": Mutation(
        text("page/points.json", r'"value_in_unit": \d', '"value_in_unit": 9'), ("L0", "L1", "L2", None)
    ),
    "a fact of the servers in a twin is changed (CSV)": Mutation(
        text("page/environment.csv", "must be equal", "told only"), ("L0", "L1", "L2", None)
    ),
    "rows of a twin change places": Mutation(
        text("page/points.json", r"\n  (\{.*\}),\n  (\{.*\}),\n", r"\n  \2,\n  \1,\n"), ("L0", "L1", "L3", None)
    ),
    "a value of the summary is raised": Mutation(
        json_of("summary.json", lambda s: s["points"][0].update(value=99999.0)), ("L0", "L1", "L2", None)
    ),
    "k of a verdict is raised": Mutation(
        json_of("verdicts/rung.base.a.ladder.c4.json", lambda v: v.update(k=v["n"], sites_k=v["sites_n"], state="qualified", stops=[])),
        ("L0", "L1", "L3", None),
    ),
    "a withheld rung is called qualified": Mutation(hide_state, ("L0", "L1", "L3", None)),
    "a token of a judged record is changed": Mutation(
        json_of("sessions/r001.base.a/judged/ladder.c2.json", lambda j: j["requests"][0]["token_ids"].__setitem__(5, 1)),
        ("L0", "L1", "L2", None),
    ),
    "a token of the published oracle is changed": Mutation(
        json_of("oracle/tokens.json", lambda o: next(iter(o["items"]["base.a/strict/suite"]["prompts"].values()))["token_ids"].__setitem__(0, 1)),
        ("L0", "L1", "L2", None),
    ),
    "a withheld attempt is taken out": Mutation(
        gone("sessions/r001.base.a/*/ladder.c4.*"), ("L0", "L1", "L2", "L4"), "the run's own list says that it was measured"
    ),
    "a withheld attempt is said to be of another plan": Mutation(
        json_of(f"{WITHHELD}.json", lambda a: a.update(spec_sha256="0" * 64)), ("L0", "L1", "L2", "L4"), "the plan of its run never asked for that"
    ),
    "a session is said never to have ended": Mutation(
        gone("sessions/r001.draft.a/closed.json"), ("L0", "L1", "L2", "L4"), "its attempts would count for nothing"
    ),
    "a record that nothing was judged from lies beside the others": Mutation(
        lambda pack: shutil.copy(pack / "sessions/r001.base.a/judged/ladder.c2.json", pack / "sessions/r001.base.b/judged/ladder.c2.json"),
        ("L0", "L1", "L4", "L4"),
    ),
    "a page lies outside of page/": Mutation(
        lambda pack: (pack / "plan/index.html").write_text("<p>9999 tok/s</p>"), ("L0", "L1", "L2", "L2")
    ),
    "a verdict is taken out": Mutation(gone("verdicts/rung.base.a.ladder.c4.json"), ("L0", "L1", "L3", None)),
    "the registration is dated back": Mutation(backdate, ("L0", "L1", "L2", "L4"), "its two clocks disagree"),
    "the registration is dated back on both clocks": Mutation(backdate_both, ("L0", "L1", "L2", ""), ONLY),
    "a rule of the plan is changed after the run": Mutation(another_rule, ("L0", "L1", "L2", "L4")),
    "the registration is taken out": Mutation(gone("runs/r001/registered.json"), ("L0", "L1", "L2", "L4")),
    "a fact of the environment is changed at the end": Mutation(
        json_of("sessions/r001.base.a/env.json", lambda e: e["after"]["kernel"].update(value="another")), ("L0", "L1", "L2", "L4")
    ),
    "compile caches were not empty": Mutation(
        json_of("sessions/r001.base.a/env.json", lambda e: e["before"]["compile_caches_at_start"]["value"].update(files=3)),
        ("L0", "L1", "L2", "L4"),
    ),
    "two servers lived at the same time": Mutation(overlap, ("L0", "L1", "L2", "L4")),
    "samples of a session are nearer together": Mutation(samples_scaled, ("L0", "L1", "L4", "L4")),
    "samples of a session are gone": Mutation(gone("sessions/r001.base.a/env.samples.jsonl"), ("L0", "L1", "L4", "L4")),
    "the reducer is replaced": Mutation(
        cheating_reducer, ("L0", "L1", "", ""), "`rungproof verify`, by the installed reducer: it says that the pack's differs; numbers made with it fail its L2"
    ),
    "nothing but the signature is another's": Mutation(nothing, (None, None, "", ""), ONLY),
}  # fmt: skip
