"""A published pack measured again from another checkout by another user: what is compared, what is refused, what is signed and merged."""

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from campaigns.checkout import Checkout, end_all, left_over
from rungproof.cli import main
from rungproof.judge.replay import claimed_items, tokens_again
from rungproof.plan.machine import processor_flags
from rungproof.publish.log import read_log
from rungproof.publish.pack import Pack, build
from rungproof.publish.pack.files import MANIFEST, PROOF
from rungproof.publish.replay import comparing, lines, report
from rungproof.publish.replay.folder import Place, prepare
from rungproof.publish.signing import Signer, find_signer, keyid
from rungproof.records.codec import canonical, read, sha256
from rungproof.records.errors import ConfigError, EvidenceError, HostError
from rungproof.records.formats import Judged
from rungproof.records.plan import Plan
from rungproof.records.proof import read_line, statement_of
from rungproof.records.replay import Replay
from rungproof.records.summary import Summary

pytestmark = pytest.mark.timeout(3600)  # two whole campaigns lie behind the first of them
LEVELS = dict.fromkeys(("L0", "L1", "L2", "L3", "L4"), "ok")
AT = "2026-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the publisher's key lies."""
    return tmp_path_factory.mktemp("key") / "key.pem"


def signer_of(key: Path) -> Signer:
    """The signer of a key file, made on first use."""
    return find_signer(str(key), key.parent / "checkout", {})[0]


@pytest.fixture(scope="module")
def published(measured: Checkout, key: Path, tmp_path_factory: pytest.TempPathFactory) -> Pack:
    """A signed pack of the shared campaign. Read only."""
    return build(measured.study("mini"), tmp_path_factory.mktemp("reports"), measured.folder, signer_of(key))


@pytest.fixture(scope="module")
def replayer(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A fresh checkout without that campaign, of a user with another home and empty caches."""
    folder = tmp_path_factory.mktemp("replayer")
    one = Checkout(folder / "checkout", {})
    home = folder / "home"
    home.mkdir()
    one.environment |= {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_CONFIG_HOME": str(home / ".config"),
    }
    for name in ("RUNGPROOF_SIM_FAULTS", "RUNGPROOF_KEY"):
        one.environment.pop(name, None)
    return one


@pytest.fixture(scope="module")
def replayed(published: Pack, replayer: Checkout) -> Path:
    """The folder of the replay, measured once by the command itself."""
    call = subprocess.run(
        [sys.executable, "-m", "rungproof.cli", "replay", str(published.folder)], cwd=replayer.folder, env=replayer.environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800,
    )  # fmt: skip
    left = left_over(replayer)
    end_all(replayer)
    assert call.returncode == 0, call.stdout[-3000:]
    assert not left
    assert "The plan is the published one" in call.stdout
    assert "The same tokens again: 84 of 84 outputs on all 14 claimed items" in call.stdout
    return replayer.folder / "build/replays" / published.id


def place_of(replayed: Path, pack: Path) -> Place:
    """The place of a finished replay, found again."""
    return prepare(pack, replayed.parents[2], None, replayed.parents[2] / "build", processor_flags())


def test_a_fresh_checkout_of_another_user_gives_the_same_tokens(replayed: Path, replayer: Checkout) -> None:
    """Every claimed item is compared in full; what was withheld is compared, told, and claims nothing; no other results are touched."""
    made = read(Replay, replayed / "replay/replay.json")
    assert made.tokens == "identical"
    assert [(i.k, i.n) for i in made.items if i.item == "base.a/strict/suite"] == [(12, 12)]
    rungs = [i for i in made.items if i.item.endswith("ladder/c4")]
    assert [(i.claimed, i.state) for i in rungs] == [(False, "different")] * 2
    assert rungs[0].first is not None and rungs[0].first.index == 20
    assert made.comparable and len(made.points) == 10
    assert made.results_files > 50
    assert not (replayer.folder / "results").exists()
    page = (replayed / "replay/index.html").read_text(encoding="utf-8")
    assert "84 of 84 outputs" in page
    assert "Nothing was measured" in page


def test_the_line_is_signed_by_the_replayers_own_key(replayed: Path, published: Pack, key: Path) -> None:
    """It speaks of this pack's manifest, holds no float, and carries the public key by which it is checked."""
    (line,) = lines.lines_in(replayed / "replay" / lines_file())
    envelope = read_line(line, "line")
    said = statement_of(envelope, "line")
    assert envelope.keyid != keyid(signer_of(key).public)
    assert said["subject"][0]["digest"]["sha256"] == sha256((published.folder / MANIFEST).read_bytes())
    assert said["predicate"]["levels"] == LEVELS
    assert not floats(json.loads(envelope.payload))


def lines_file() -> str:
    """Name of a line's file."""
    return "line.intoto.jsonl"


def floats(value: Any) -> list[float]:
    """Every float in plain values."""
    if isinstance(value, float):
        return [value]
    held = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [found for one in held for found in floats(one)]


def test_the_workflow_replays_too_and_goes_on(replayed: Path, replayer: Checkout, published: Pack) -> None:
    """`snakemake replay`: everything is there already, so no server is started, and the result is the same."""
    before = sorted(p.name for p in (replayed / "results/mini/sessions").iterdir())
    call = replayer.run("replay", "--cores", "1", "--config", f"pack={published.folder}")
    assert call.returncode == 0, call.stdout[-3000:]
    assert "no server is started" in call.stdout
    assert sorted(p.name for p in (replayed / "results/mini/sessions").iterdir()) == before
    none = replayer.run("replay", "--cores", "1")
    assert none.returncode != 0
    assert "pack=PATH" in none.stdout


def test_tokens_that_differ_make_an_honest_report(replayed: Path, published: Pack, tmp_path: Path) -> None:
    """One token of one output: not passed, said on the page and in the line, and the line moves no further than recomputed."""
    place = place_of(replayed, published.folder)
    copy = tmp_path / "results"
    shutil.copytree(place.results, copy)
    path = copy / "mini/sessions/r001.draft.b/judged/strict.suite.json"
    value = json.loads(path.read_text())
    value["requests"][4]["token_ids"][7] += 1
    path.write_bytes(canonical(value))
    made = comparing.compare(published.folder, dataclasses.replace(place, results=copy), LEVELS, AT)
    assert not report.passed(made)
    assert made.tokens == "different"
    assert "Not the same tokens: 1 of 14" in report.headline(made)
    assert "at index 7" in report.html(made)
    line = lines.line_of(made, signer_of(tmp_path / "other.pem"))
    state, told = lines.check_line(published.folder, line, tmp_path / "keys", "line")
    assert (state, told.counts) == ("Recomputed", True)
    assert "draft.b/strict/suite" in told.says


def test_a_copy_of_the_published_results_is_no_replay(replayed: Path, published: Pack, measured: Checkout) -> None:
    """The same server processes on both sides: nothing was measured again."""
    found = place_of(replayed, published.folder)
    copied_from = dataclasses.replace(found, results=measured.folder / "results")
    made = comparing.compare(published.folder, copied_from, LEVELS, AT)
    assert not report.passed(made)
    assert {i.state for i in made.items} == {"not compared"}
    assert "same server process" in made.items[0].why


def pack_with(published: Pack, to: Path, path: str, old: str, new: str) -> Path:
    """A pack in which one file was changed and the manifest made to fit, as an unsigned one may be."""
    folder = to / "pack"
    shutil.copytree(published.folder, folder)
    file = folder / path
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    rows = (folder / MANIFEST).read_text().splitlines()
    made = [f"{sha256(file.read_bytes())}  {path}" if row.endswith(f"  {path}") else row for row in rows]
    (folder / MANIFEST).write_text("\n".join(made) + "\n")
    return folder


PINS = {
    "a cap": ("plan/inputs/config/hosts/simulated.yaml", "cap: 48", "cap: 47", "spec.cap: published 48; here 47"),
    "an argument of a lane": ("plan/inputs/config/lanes/smollm2-w4a16.yaml", "max-num-seqs: 16", "max-num-seqs: 8", "max-num-seqs: published 16; here 8"),
    "a prompt": ("plan/inputs/config/suites/strict-v1.yaml", "A nightly", "The nightly", "suite_sha256: published"),
}  # fmt: skip


@pytest.mark.parametrize(("path", "old", "new", "says"), PINS.values(), ids=PINS)
def test_another_pin_is_refused(
    published: Pack, replayer: Checkout, tmp_path: Path, path: str, old: str, new: str, says: str
) -> None:
    """The first pin that differs is named with both values and a remedy; nothing is started."""
    folder = pack_with(published, tmp_path, path, old, new)
    with pytest.raises(ConfigError, match="nothing was started") as caught:
        prepare(folder, replayer.folder, tmp_path / "results", tmp_path / "build", processor_flags())
    assert says in str(caught.value)
    assert "version of rungproof" in str(caught.value)
    assert not (tmp_path / "results").exists()


def test_a_pack_whose_bytes_changed_is_refused(
    published: Pack, replayer: Checkout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before its configuration is read: exit code 4."""
    folder = tmp_path / "pack"
    shutil.copytree(published.folder, folder)
    (folder / "plan/inputs/config/campaigns/mini.yaml").write_text("title: x\n")
    assert main(["replay", str(folder), "--root", str(replayer.folder)]) == 4
    assert "L0 failed" in capsys.readouterr().err
    assert main(["replay", str(tmp_path), "--root", str(replayer.folder)]) == 4


def test_a_processor_that_cannot_serve_the_plan_is_told_first(
    published: Pack, replayer: Checkout, tmp_path: Path
) -> None:
    """Arm and flags are named, before anything is started."""
    folder = pack_with(published, tmp_path, "plan.json", '"simulated":true', '"simulated":false')
    with pytest.raises(HostError, match=r"arm base needs .*avx512f"):
        prepare(folder, replayer.folder, None, tmp_path / "build", frozenset())


def test_a_link_in_a_pack_is_refused(published: Pack, replayer: Checkout, tmp_path: Path) -> None:
    """Nothing is copied through it."""
    folder = tmp_path / "pack"
    shutil.copytree(published.folder, folder)
    (folder / "plan/inputs/config/lanes/more.yaml").symlink_to("/etc/passwd")
    with pytest.raises(EvidenceError, match="a link"):
        prepare(folder, replayer.folder, None, tmp_path / "build", processor_flags())


OUTSIDE = {
    "a campaign's name": ("plan.json", '"campaign":"mini"', '"campaign":"../mini"', "found the name"),
    "a suite's text": ("plan/inputs/config/suites/long-v1.yaml", "file: long-v1/prose.txt", "file: ../../../../../../../../../../../../../../../../etc/hostname", "outside"),
}  # fmt: skip


@pytest.mark.parametrize(("path", "old", "new", "says"), OUTSIDE.values(), ids=OUTSIDE)
def test_a_pack_reads_nothing_outside_of_itself(
    published: Pack, replayer: Checkout, tmp_path: Path, path: str, old: str, new: str, says: str
) -> None:
    """Names and files that lead out of the replay's folder are refused."""
    folder = pack_with(published, tmp_path, path, old, new)
    with pytest.raises((ConfigError, EvidenceError), match=says):
        prepare(folder, replayer.folder, None, tmp_path / "build", processor_flags())


@pytest.fixture
def copied(published: Pack, tmp_path: Path) -> Path:
    """The publisher's reports in a place where they may be changed; returns the pack's folder."""
    shutil.copytree(published.folder.parents[1], tmp_path / "reports")
    return tmp_path / "reports/mini" / published.id


def merged(pack: Path, key: Path, *files: Path) -> int:
    """`rungproof replay merge` by the publisher."""
    return main(
        ["replay", "merge", str(pack), *map(str, files), "--key", str(key), "--root", str(key.parent / "checkout")]
    )


def state(pack: Path) -> str:
    """What the page says."""
    return str(json.loads((pack / "page/standing.json").read_text())["state"])


def test_a_merged_line_moves_the_state(
    copied: Path, replayed: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lab-measured before, Replayed or Replicated after, as rates fell; the line is in the proof, in the log and under the page once."""
    made = read(Replay, replayed / "replay/replay.json")
    assert state(copied) == "Lab-measured"
    manifest = (copied / MANIFEST).read_bytes()
    assert merged(copied, key, replayed / "replay" / lines_file()) == 0
    assert state(copied) == ("Replicated" if made.rates == "within" else "Replayed")
    assert (copied / MANIFEST).read_bytes() == manifest
    assert (
        read_log(copied.parents[1]).head[:12] in (copied.parents[1] / "index.html").read_text()
    )  # so the site is anew, too
    assert (replayed / "replay" / lines_file()).read_bytes() in (copied / PROOF).read_bytes()
    log = read_log(copied.parents[1])
    assert [e.event for e in log.entries] == ["publish", "replay"]
    assert merged(copied, key, replayed / "replay" / lines_file()) == 4
    assert "already" in capsys.readouterr().err
    assert len(read_log(copied.parents[1]).entries) == 2


def made_up(published: Pack, kind: str, **changes: Any) -> Replay:
    """A perfect replay or recomputing that never was, as a record."""
    plan, summary = read(Plan, published.folder / "plan.json"), read(Summary, published.folder / "summary.json")
    records = comparing.used_records(published.folder, plan)
    again = {key: one_more(record) for key, record in records.items()}
    items = tokens_again(plan, claimed_items(plan, summary.points), records, again) if kind == "replay" else ()
    whole: dict[str, Any] = {
        "kind": kind, "pack": sha256((published.folder / MANIFEST).read_bytes()), "study": "mini", "title": "t", "simulated": True,
        "plan_sha256": "0" * 64, "levels": LEVELS, "tokens": "identical", "items": items, "comparable": False, "host_words": "another host",
        "host": (), "rates": "not compared", "limit": 0.02, "points": (), "results_sha256": "", "results_files": 0, "at": AT, **changes,
    }  # fmt: skip
    return Replay(**whole)


def one_more(record: Judged) -> Judged:
    """The same record from another server process."""
    return dataclasses.replace(record, boot=f"{record.boot}-again")


def send(tmp_path: Path, line: bytes) -> Path:
    """A file with one line."""
    path = tmp_path / "sent.jsonl"
    path.write_bytes(line)
    return path


def test_a_recomputing_by_another_key_moves_the_state(copied: Path, published: Pack, key: Path, tmp_path: Path) -> None:
    """To Recomputed; by the publisher's own key it is refused."""
    made = made_up(published, "recompute")
    assert merged(copied, key, send(tmp_path, lines.line_of(made, signer_of(key)))) == 4
    assert state(copied) == "Lab-measured"
    assert merged(copied, key, send(tmp_path, lines.line_of(made, signer_of(tmp_path / "other.pem")))) == 0
    assert state(copied) == "Recomputed"


def test_the_publishers_own_replay_counts_as_replayed_alone(
    copied: Path, published: Pack, key: Path, tmp_path: Path
) -> None:
    """Never as replicated."""
    own = lines.line_of(made_up(published, "replay", comparable=True), signer_of(key))
    assert merged(copied, key, send(tmp_path, own)) == 0
    assert state(copied) == "Replayed"


def test_what_must_not_join_a_proof_is_refused(
    copied: Path, published: Pack, key: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Forged, unsigned, of another pack, no line at all, a line that the publisher made: refused, and nothing is written."""
    good = lines.line_of(made_up(published, "replay"), signer_of(tmp_path / "other.pem"))
    envelope = json.loads(good)
    forged = {**envelope, "signatures": [{**envelope["signatures"][0], "keyid": keyid(signer_of(key).public)}]}
    sent = {
        "not that of": canonical(forged),
        "no signature": lines.line_of(made_up(published, "replay"), None),
        "speaks of the pack": lines.line_of(
            made_up(published, "replay", pack="b" * 64), signer_of(tmp_path / "other.pem")
        ),
        "not valid JSON": b"{\n",
        "holds no line": b"\n\n",
        "of kind 'measurement'": (copied / PROOF).read_bytes().splitlines(keepends=True)[1],
    }
    before = (copied / PROOF).read_bytes()
    for says, line in sent.items():
        assert merged(copied, key, send(tmp_path, line)) == 4, says
        assert says in capsys.readouterr().err
    both = tmp_path / "both.jsonl"
    both.write_bytes(good + canonical(forged))
    assert merged(copied, key, both) == 4  # one that is refused keeps all of them out
    assert (copied / PROOF).read_bytes() == before
    assert merged(copied, key) == 2


def test_text_of_a_pack_is_escaped(published: Pack) -> None:
    """A title, an item and a host that are markup stay text."""
    evil = "<script>alert(1)</script>\u202e"
    page = report.html(made_up(published, "replay", title=evil, study=evil, host_words=evil, levels={evil: evil}))
    assert "<script" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;" in page
