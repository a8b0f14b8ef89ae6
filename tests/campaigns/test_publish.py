"""`snakemake publish`: from a results folder to a pack that holds everything, in the same bytes each time."""

import json
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from campaigns.checkout import Checkout
from campaigns.test_verify import edit
from rungproof.publish.pack import Pack, build
from rungproof.records.errors import EvidenceError, RungproofError


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by path."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def pack(measured: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Pack:
    """A pack of the shared campaign, built once."""
    return build(measured.study("mini"), tmp_path_factory.mktemp("reports"), measured.folder)


def test_sha256sum_agrees_with_the_manifest(pack: Pack) -> None:
    """The manifest covers every file but itself, the page and the proof, and coreutils' own program agrees with it."""
    call = subprocess.run(["sha256sum", "-c", "--strict", "--quiet", "MANIFEST.sha256"], cwd=pack.folder)
    assert call.returncode == 0
    named = [line.split("  ", 1)[1] for line in (pack.folder / "MANIFEST.sha256").read_text().splitlines()]
    left = set(tree(pack.folder)) - set(named)
    assert named == sorted(named)
    assert {path.split("/")[0] for path in left} <= {"MANIFEST.sha256", "page", "proof.intoto.jsonl"}
    assert (
        subprocess.run(
            ["sha256sum", "-c", "--strict", "--quiet", "MANIFEST.sha256"], cwd=pack.folder / "page"
        ).returncode
        == 0
    )


def test_built_twice_the_same_bytes(measured: Checkout, pack: Pack, tmp_path: Path) -> None:
    """Another folder, the same bytes: folder and zip; published again in the same place, it is not new."""
    again = build(measured.study("mini"), tmp_path, measured.folder)
    assert (again.id, tree(again.folder)) == (pack.id, tree(pack.folder))
    assert again.zip.read_bytes() == pack.zip.read_bytes()
    assert again.new and not build(measured.study("mini"), tmp_path, measured.folder).new
    assert sorted(p.name for p in (tmp_path / "mini").iterdir()) == [pack.id, f"{pack.id}.zip"]


def test_the_zip_holds_the_folder(pack: Pack, tmp_path: Path) -> None:
    """Unpacked it is the folder, byte for byte, under the folder's own name."""
    with zipfile.ZipFile(pack.zip) as held:
        held.extractall(tmp_path)
        assert {e.date_time for e in held.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert tree(tmp_path / pack.id) == tree(pack.folder)


def test_what_was_withheld_is_in_it_and_every_link_leads_somewhere(measured: Checkout, pack: Pack) -> None:
    """All evidence of all points and verdicts lies in the pack, of the withheld rung too; nothing lies there that is not listed."""
    summary = json.loads((pack.folder / "summary.json").read_text())
    assert "withheld" in {point["state"] for point in summary["points"]}
    wanted = {path for point in summary["points"] for path in point["evidence"]}
    wanted |= {one["path"] for verdict in summary["verdicts"] for one in verdict["inputs"]}
    assert wanted and all((pack.folder / path).is_file() for path in wanted)
    study, here = tree(measured.study("mini")), tree(pack.folder)
    kept = {path for path in study if "/attempts/" in path or "/judged/" in path}
    assert kept and all(here[path] == study[path] for path in kept)
    assert not [path for path in here if "/control/" in path or path.startswith(("accepted/", "logs/"))]


def test_the_oracle_file_holds_the_tokens_of_the_judged_records(pack: Pack) -> None:
    """Strict and depth: the base's first server; a rung: its own one-at-a-time pass."""
    held = json.loads((pack.folder / "oracle/tokens.json").read_text())["items"]
    assert {"base.a/strict/suite", "base.a/depth/64", "draft.a/ladder/c4"} <= set(held)
    for key, of in held.items():
        seat, workload, item = key.split("/")
        judged = json.loads((pack.folder / f"sessions/r001.{seat}/judged/{workload}.{item}.json").read_text())
        truth = {
            r["key"]: r["token_ids"]
            for r in judged["requests"]
            if workload != "ladder" or r["batch"].startswith("oracle-")
        }
        assert {k: p["token_ids"] for k, p in of["prompts"].items()} == truth and all(truth.values())


STALE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no summary": (lambda s: (s / "summary.json").unlink(), "nothing to publish"),
    "a verdict older than its inputs": (
        lambda s: edit(s / "sessions/r001.base.a/judged/ladder.c2.json", lambda j: j.update(boot="x")),
        "has changed since the verdict",
    ),
    "a verdict that is gone": (lambda s: (s / "verdicts/population.json").unlink(), "the verdict of population"),
    "a plan that is not the summary's": (lambda s: edit(s / "plan.json", lambda p: p.update(title="x")), "another plan"),
    "a session that is still open": (lambda s: (s / "sessions/r001.base.b/closed.json").unlink(), "not closed"),
    "a session that came later": (
        lambda s: shutil.copytree(s / "sessions/r001.base.b", s / "sessions/r002.base.b"), "without, session"
    ),
    "a damaged record": (lambda s: (s / "summary.json").write_text("{"), "not valid JSON"),
    "a link in place of a raw file": (
        lambda s: (s / "sessions/r001.base.b/attempts/strict.suite.raw.jsonl.gz").rename(s / "x")
        and (s / "sessions/r001.base.b/attempts/strict.suite.raw.jsonl.gz").symlink_to(s / "x"),
        "no plain file",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "words"), STALE.values(), ids=STALE)
def test_results_that_are_not_up_to_date_are_refused(
    measured: Checkout, tmp_path: Path, change: Callable[[Path], object], words: str
) -> None:
    """The reason is told with the file, and nothing is left in reports/."""
    study = tmp_path / "mini"
    shutil.copytree(measured.study("mini"), study)
    change(study)
    with pytest.raises(EvidenceError, match=words):
        build(study, tmp_path / "reports", measured.folder)
    assert not (tmp_path / "reports").exists()


def test_another_configuration_than_the_plans_is_refused(measured: Checkout, tmp_path: Path) -> None:
    """A pack carries the files that its plan follows from; where they were edited since, they are not those."""
    shutil.copytree(measured.folder / "config", tmp_path / "config")
    path = tmp_path / "config/campaigns/mini.yaml"
    path.write_text(path.read_text().replace("Mini campaign", "Another campaign"))
    with pytest.raises(EvidenceError, match="give another plan now"):
        build(measured.study("mini"), tmp_path / "reports", tmp_path)


def test_a_full_disk_leaves_nothing_behind(measured: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the folder and what to do; no half of a pack is in reports/."""

    def full(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rungproof.publish.pack.building.write_zip", full)
    with pytest.raises(RungproofError, match="No space left on device"):
        build(measured.study("mini"), tmp_path, measured.folder)
    assert list((tmp_path / "mini").iterdir()) == []


def test_the_target_publishes(measured: Checkout) -> None:
    """`snakemake publish` by its name; it starts no server and tells files and sizes."""
    before = tree(measured.study("mini"))
    call = measured.run("publish", "--cores", "1", "--config", "campaign=mini", "host=simulated")
    assert call.returncode == 0, call.stdout[-3000:]
    assert "published: " in call.stdout and " files, " in call.stdout
    assert tree(measured.study("mini")) == before
    call = measured.run("publish", "--cores", "1", "--config", "campaign=nothing")
    assert call.returncode != 0 and "no such campaign" in call.stdout
