"""`rungproof verify` on a results folder: it agrees with an honest one, and finds each way of dressing one up."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rungproof.cli import main
from rungproof.publish.pages.engine import maker


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    """Change one JSON file in place."""
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")


def summary(change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """A forged summary, with the page made to fit it."""
    return lambda study: edit(study / "summary.json", change)


def point(value: Any, item: str) -> Any:
    """The point of that item in a summary."""
    return next(p for p in value["points"] if p["id"].startswith(item))


def without(pattern: str) -> Callable[[Path], None]:
    """Files that were made to vanish."""

    def remove(study: Path) -> None:
        found = list(study.glob(pattern))
        assert found, pattern
        for path in found:
            path.unlink()

    return remove


def swap_rungs(study: Path) -> None:
    """The raw files of two rungs change places."""
    home = study / "sessions/r001.base.a/attempts"
    a, b, held = home / "ladder.c1.raw.jsonl.gz", home / "ladder.c2.raw.jsonl.gz", home / "held"
    a.rename(held), b.rename(a), held.rename(b)


CHEATS: dict[str, Callable[[Path], None]] = {
    "a withheld rung is called qualified": summary(
        lambda s: point(s, "base/ladder/c4").update(state="qualified", reasons=[])
    ),
    "a value is raised": summary(lambda s: point(s, "base/ladder/c2").update(value=99999.0)),
    "a headline is raised": summary(lambda s: s["headlines"][0].update(center=99999.0)),
    "the claim is dressed up": summary(lambda s: s.update(claim="All is lossless.", lossless_claim=True)),
    "a point is invented": summary(
        lambda s: s["points"].append({**s["points"][0], "id": "base/ladder/c64/aggregate", "item": "c64"})
    ),
    "a withheld point is left out": summary(lambda s: s["points"].remove(point(s, "base/ladder/c4"))),
    "a count is raised": summary(lambda s: s["verdicts"][-2].update(k=999, n=999)),
    "an attempt is left out of the history": summary(lambda s: s["history"].pop()),
    "a verdict file is rewritten": lambda study: edit(
        study / "verdicts/rung.base.a.ladder.c4.json", lambda v: v.update(state="qualified", k=8)
    ),
    "a verdict's inputs are blanked": lambda study: edit(
        study / "verdicts/rung.base.a.ladder.c4.json", lambda v: v["inputs"][0].update(sha256="0" * 64)
    ),
    "a verdict file is gone": without("verdicts/rung.base.a.ladder.c4.json"),
    "a judged token is changed": lambda study: edit(
        study / "sessions/r001.base.a/judged/ladder.c2.json", lambda j: j["requests"][0]["token_ids"].__setitem__(5, 1)
    ),
    "a judged record is gone": without("sessions/r001.base.a/judged/ladder.c2.json"),
    "a withheld attempt is gone": without("sessions/r001.base.a/*/ladder.c4.json"),
    "a raw file is gone": without("sessions/r001.base.a/attempts/ladder.c2.raw.jsonl.gz"),
    "the canaries' raw files are gone": without("sessions/*/canary_*.raw.jsonl.gz"),
    "a canary record is gone": without("sessions/r001.base.a/canary_after.json"),
    "two raw files are swapped": swap_rungs,
    "the plan is changed": lambda study: edit(study / "plan.json", lambda p: p.update(title="Another")),
    "a digit of the page is changed": lambda study: (study / "page/index.html").write_text(
        (study / "page/index.html").read_text(encoding="utf-8").replace("qualified", "certified", 1), encoding="utf-8"
    ),
    "the style sheet hides what was withheld": lambda study: (study / "page/index.html").write_text(
        (study / "page/index.html")
        .read_text(encoding="utf-8")
        .replace("</style>", "[data-state]{display:none}</style>", 1),
        encoding="utf-8",
    ),
    "a twin is changed": lambda study: (study / "page/points.csv").write_text("point\n", encoding="utf-8"),
}


def test_an_honest_folder_recomputes(honest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0, the counts of what was compared, and that it is no pack: nobody signed it."""
    assert main(["verify", str(honest)]) == 0
    out = capsys.readouterr().out
    assert "L0 bytes     not checked  no pack" in out and "L1 signer    not checked  no pack" in out
    assert "16 judged records" in out
    assert "12 points" in out
    assert main(["verify", str(honest), "--trust", str(honest / "plan.json")]) == 11


@pytest.mark.parametrize("cheat", CHEATS.values(), ids=CHEATS)
def test_each_cheat_is_found(
    honest: Path, tmp_path: Path, cheat: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Numbers or identity fail (exit code 12 or 13), with a line that says what differs; docs/mutations.md has the levels of a pack."""
    study = tmp_path / "mini"
    shutil.copytree(honest, study)
    cheat(study)
    assert main(["verify", str(study)]) in (12, 13)
    said = capsys.readouterr().out.splitlines()
    assert any("FAILED" in one for one in said) and any(one.startswith("   ") for one in said)


def test_a_page_of_another_version_is_held_to_its_claims_alone(
    honest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page names the version that made it: another one's words and looks are not ours to compare, and that is told; its numbers are."""
    study = tmp_path / "mini"
    shutil.copytree(honest, study)
    page = study / "page/index.html"
    held = page.read_text(encoding="utf-8")
    assert maker() in held
    older = held.replace(maker(), "rungproof 0123456789abcdef").replace("</style>", ".older{color:red}</style>", 1)
    page.write_text(older, encoding="utf-8")
    assert main(["verify", str(study)]) == 0
    assert "the page was made by another version" in capsys.readouterr().out
    forged, times = re.subn(r'(<data value=")[0-8]([^"]*" data-claim="[^"/])', r"\g<1>9\2", older, count=1)
    assert times
    page.write_text(forged, encoding="utf-8")
    assert main(["verify", str(study)]) == 12
