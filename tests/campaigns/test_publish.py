"""`snakemake publish`: from a results folder to a pack that holds everything, in the same bytes each time."""

import base64
import gzip
import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from jsonschema import Draft202012Validator

from campaigns.checkout import Checkout
from campaigns.test_verify import edit
from records.test_proof import floats
from rungproof.cli import main
from rungproof.publish.log import check, read_log
from rungproof.publish.pack import Pack, add_line, build, withdraw
from rungproof.publish.signing import FileSigner, Signer, find_signer, holds, keyid, pem, public_from, signed_line
from rungproof.records.codec import sha256
from rungproof.records.errors import ConfigError, EvidenceError, RungproofError
from rungproof.records.proof import (
    MEASUREMENT,
    PAGE,
    PAYLOAD_TYPE,
    PROVENANCE,
    REPLAY,
    Envelope,
    key_file,
    line_of,
    pae,
    read_line,
    statement,
    statement_of,
)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by path."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


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


def test_built_twice_the_same_bytes(
    measured: Checkout, signer: Signer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two folders, the same bytes of folder, zip and log, once the log's clock is fixed; nothing else looks at a clock."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1800000000")
    one, two = (build(measured.study("mini"), tmp_path / name, measured.folder, signer) for name in "ab")
    assert one.id == two.id and one.new and two.new
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_published_again_nothing_is_new(measured: Checkout, signer: Signer, tmp_path: Path) -> None:
    """The same id, the same bytes, no second entry in the log; what was damaged meanwhile is made whole."""
    one = build(measured.study("mini"), tmp_path, measured.folder, signer)
    before = tree(tmp_path)
    (one.folder / "summary.json").write_text("{}")
    again = build(measured.study("mini"), tmp_path, measured.folder, signer)
    assert again.id == one.id and not again.new
    assert tree(tmp_path) == before
    assert sorted(p.name for p in (tmp_path / "mini").iterdir()) == [one.id, f"{one.id}.zip"]


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
        "has changed since verdicts/",
    ),
    "a verdict that is gone": (lambda s: (s / "verdicts/population.json").unlink(), "verdicts/population.json: there is no such file"),
    "a value that the raw files do not give": (
        lambda s: edit(s / "summary.json", lambda v: v["points"][0].update(value=1.5)),
        "does not follow from its raw files",
    ),
    "a plan that is not the summary's": (lambda s: edit(s / "plan.json", lambda p: p.update(title="x")), "another plan"),
    "a session that is still open": (lambda s: (s / "sessions/r001.base.b/closed.json").unlink(), "not closed"),
    "a session that came later": (
        lambda s: shutil.copytree(s / "sessions/r001.base.b", s / "sessions/r002.base.b"), "without, session"
    ),
    "a raw file that was damaged": (
        lambda s: (s / "sessions/r001.base.a/attempts/ladder.c2.raw.jsonl.gz").write_bytes(b""),
        "has changed since sessions/r001.base.a/judged/ladder.c2.json",
    ),
    "a raw file that is gone": (
        lambda s: (s / "sessions/r001.base.a/attempts/ladder.c2.raw.jsonl.gz").unlink(),
        "cannot be read",
    ),
    "a canary's raw file that was changed": (
        lambda s: (s / "sessions/r001.base.a/canary_after.raw.jsonl.gz").write_bytes(b"x"),
        "has changed since sessions/r001.base.a/canary_after.json",
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

    monkeypatch.setattr("rungproof.publish.pack.placing.write_zip", full)
    with pytest.raises(RungproofError, match="No space left on device"):
        build(measured.study("mini"), tmp_path, measured.folder)
    assert list((tmp_path / "mini").iterdir()) == [] and not (tmp_path / "log.jsonl").exists()


def statements(folder: Path) -> list[dict[str, Any]]:
    """The statements of a pack's proof, in order."""
    lines = (folder / "proof.intoto.jsonl").read_bytes().splitlines()
    return [statement_of(read_line(line, "line"), "line") for line in lines]


def test_three_statements_are_signed_and_speak_of_the_pack(pack: Pack, signer: Signer) -> None:
    """Provenance, measurement, page: each by the key in the pack, each about the bytes that lie there."""
    public = public_from((pack.folder / "signer.pub.pem").read_bytes(), "signer")
    assert keyid(public) == keyid(signer.public)
    for line in (pack.folder / "proof.intoto.jsonl").read_bytes().splitlines():
        envelope = read_line(line, "line")
        assert envelope.keyid == keyid(public) and holds(public, envelope.signature, envelope.signed_bytes)
    said = {one["predicateType"]: one["subject"][0] for one in statements(pack.folder)}
    assert list(said) == [PROVENANCE, MEASUREMENT, PAGE]
    for kind, path in (
        (PROVENANCE, "MANIFEST.sha256"),
        (MEASUREMENT, "MANIFEST.sha256"),
        (PAGE, "page/MANIFEST.sha256"),
    ):
        assert said[kind] == {"name": path, "digest": {"sha256": sha256((pack.folder / path).read_bytes())}}
    assert (pack.folder.parents[1] / "keys").joinpath(keyid(public)[8:24] + ".pem").read_bytes() == (
        pack.folder / "signer.pub.pem"
    ).read_bytes()


def test_the_claims_are_the_points_with_the_withheld_inside(pack: Pack) -> None:
    """Every point with its state and exact value; no float in any payload; no level of SLSA is claimed."""
    summary = json.loads((pack.folder / "summary.json").read_text())
    provenance, measurement, page = (one["predicate"] for one in statements(pack.folder))
    claims = {claim["id"]: claim for claim in measurement["claims"]}
    assert set(claims) == {point["id"] for point in summary["points"]}
    for point in summary["points"]:
        claim = claims[point["id"]]
        assert claim["value"] == (None if point["value"] is None else repr(float(point["value"])))
        assert all(claim[name] == point[name] for name in ("state", "unit", "k", "n", "gates", "evidence"))
    assert "withheld" in measurement["states"] and measurement["registered"] is True
    assert not [one for payload in (provenance, measurement, page) for one in floats(payload)]
    needed = {one["name"] for one in provenance["buildDefinition"]["resolvedDependencies"]}
    assert needed == {"reducer"} and "level" not in json.dumps(provenance).lower()
    listed = [line.split("  ", 1) for line in (pack.folder / "MANIFEST.sha256").read_text().splitlines()]
    of_reducer = "".join(f"{a}  {b.removeprefix('reducer/')}\n" for a, b in listed if b.startswith("reducer/"))
    assert provenance["buildDefinition"]["resolvedDependencies"][-1]["digest"]["sha256"] == sha256(of_reducer.encode())


def test_an_unsigned_pack_says_so(measured: Checkout, tmp_path: Path) -> None:
    """The same statements without signatures, no key, and the standing says that it is unsigned."""
    made = build(measured.study("mini"), tmp_path, measured.folder)
    assert not (made.folder / "signer.pub.pem").exists() and not (tmp_path / "keys").exists()
    lines = (made.folder / "proof.intoto.jsonl").read_bytes().splitlines()
    assert len(lines) == 3 and {read_line(line, "line").signature for line in lines} == {b""}
    told = json.loads((made.folder / "page/standing.json").read_text())
    assert (told["signed"], told["signer"], told["state"]) == (False, "", "Lab-measured") and "unsigned" in str(made)


def test_the_log_tells_what_was_published_and_what_it_superseded(
    measured: Checkout, signer: Signer, tmp_path: Path
) -> None:
    """Another pack of a study needs a reason; withdrawn, it is published again as a new one; pages show the head they were made at."""
    study = measured.study("mini")
    first = build(study, tmp_path, measured.folder)
    with pytest.raises(ConfigError, match="would supersede it"):
        build(study, tmp_path, measured.folder, signer)
    assert [p.name for p in (tmp_path / "mini").iterdir() if p.is_dir()] == [first.id]
    second = build(study, tmp_path, measured.folder, signer, "signed now")
    held = read_log(tmp_path)
    assert [(e.event, e.pack, e.supersedes, e.reason) for e in held.entries] == [
        ("publish", first.id, "", ""),
        ("supersede", second.id, first.id, "signed now"),
    ]
    assert (second.standing.log_head, second.standing.supersedes) == (held.head, first.id)
    assert json.loads((second.folder / "page/standing.json").read_text())["log_head"] == held.heads[1]
    withdraw(second.folder, signer, "a mistake")
    for folder, words in ((second.folder, "was withdrawn"), (tmp_path / "mini/000000000000", "no such pack")):
        with pytest.raises(ConfigError, match=words):
            withdraw(folder, signer, "again")
    assert build(study, tmp_path, measured.folder, signer).new
    held = read_log(tmp_path)
    assert [e.event for e in held.entries] == ["publish", "supersede", "withdraw", "publish"]
    assert check(tmp_path, held) == []


def test_a_crash_before_the_log_was_written_is_made_good(measured: Checkout, signer: Signer, tmp_path: Path) -> None:
    """The pack lies there and the log knows nothing of it: the next call writes the entry, and the page shows the new head."""
    study = measured.study("mini")
    build(study, tmp_path, measured.folder, signer)
    (tmp_path / "log.jsonl").unlink()
    (tmp_path / "mini/.building-left").mkdir()
    again = build(study, tmp_path, measured.folder, signer)
    held = read_log(tmp_path)
    assert len(held.entries) == 1 and again.standing.log_head == held.head and check(tmp_path, held) == []
    assert not (tmp_path / "mini/.building-left").exists()


def test_a_crash_between_the_two_moves_loses_no_line(
    measured: Checkout, signer: Signer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pack that was about to be replaced is put back, by the call itself where it lives, else by the next."""
    study = measured.study("mini")
    made = build(study, tmp_path, measured.folder, signer)
    before = tree(tmp_path)
    left = tmp_path / "mini/.building-left/before"
    left.mkdir(parents=True)
    made.folder.rename(left / made.id)
    assert not build(study, tmp_path, measured.folder, signer).new
    assert tree(tmp_path) == before
    rename = Path.rename

    def fails(path: Path, to: Path) -> Path:
        if path.parent.name.startswith(".building-") and to == made.folder:
            raise OSError(5, "Input/output error")
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(RungproofError, match="Input/output error"):
        build(study, tmp_path, measured.folder, signer)
    assert tree(tmp_path) == before

    def interrupted(path: Path, to: Path) -> Path:
        if path.parent.name.startswith(".building-") and to == made.folder:
            raise KeyboardInterrupt
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build(study, tmp_path, measured.folder, signer)
    assert tree(tmp_path) == before


def test_secrets_of_the_server_stay_out(measured: Checkout, tmp_path: Path) -> None:
    """Planted in the server's log and in the user's environment: no file of the pack holds them; a long log keeps both ends."""
    study = tmp_path / "mini"
    shutil.copytree(measured.study("mini"), study)
    log = study / "sessions/r001.base.a/logs/server.log"
    planted = ("planted.user", "hf_PLANTEDplantedplanted", "PLANTED-password", "PLANTED-in-job-log", "PLANTED-order")
    middle = b"x" * 600_000
    at_home = b"weights in /home/planted.user/models, cache in '/Users/planted.user'\n"
    log.write_bytes(
        at_home + b"first HF_TOKEN=hf_PLANTEDplantedplanted\n" + middle + b"\nlast password: PLANTED-password\n"
    )
    (study / "sessions/r001.base.a/logs/strict.suite.log").write_text("PLANTED-in-job-log")
    (study / "sessions/r001.base.a/control/order.json").write_text("PLANTED-order")
    made = build(study, tmp_path / "reports", measured.folder)
    kept = (made.folder / "sessions/r001.base.a/logs/server.log").read_text()
    assert kept.startswith(
        "weights in /home/[left out]/models, cache in '/Users/[left out]'\nfirst HF_TOKEN=[left out]\n"
    ) and kept.endswith("last password: [left out]\n")
    assert "bytes left out" in kept and len(kept) < 600_000
    raw = [data if not path.endswith(".gz") else gzip.decompress(data) for path, data in tree(made.folder).items()]
    assert not [word for word in planted for data in raw if word.encode() in data]


def test_only_the_logs_of_servers_name_folders_of_the_machine(measured: Checkout, pack: Pack) -> None:
    """The checkout's own path stands in no other file, and the README says so."""
    home = str(measured.folder).encode()
    raw = {
        path: data if not path.endswith(".gz") else gzip.decompress(data) for path, data in tree(pack.folder).items()
    }
    assert {path.split("/", 2)[2] for path, data in raw.items() if home in data} <= {"logs/server.log"}
    assert "it names folders of the machine" in (pack.folder / "README.md").read_text()


def test_the_target_publishes(measured: Checkout, tmp_path: Path) -> None:
    """`snakemake publish` by its name; it starts no server, makes a key on first use, and tells files and sizes."""
    before = tree(measured.study("mini"))
    measured.environment["RUNGPROOF_KEY"] = str(tmp_path / "home/key.pem")
    call = measured.run("publish", "--cores", "1", "--config", "campaign=mini")
    assert "a new signing key" in call.stdout and "signed by ed25519:" in call.stdout
    call = measured.run("publish", "--cores", "1", "--config", "campaign=mini", "sign=no", "reason=unsigned now")
    assert call.returncode == 0, call.stdout[-3000:]
    assert "published, unsigned: " in call.stdout and " files, " in call.stdout
    assert tree(measured.study("mini")) == before
    call = measured.run("publish", "--cores", "1", "--config", "campaign=nothing")
    assert call.returncode != 0 and "no such campaign" in call.stdout


def test_the_command_line_of_the_log(
    measured: Checkout,
    signer: Signer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`log verify` tells head and faults by its exit code; `withdraw` wants the key that signed, and makes none."""
    reports = tmp_path / "reports"
    made = build(measured.study("mini"), reports, measured.folder, signer)
    check_log = ["log", "verify", "--reports", str(reports)]
    assert main(check_log) == 0 and read_log(reports).head in capsys.readouterr().out
    assert main(["log", "verify", "--reports", str(tmp_path)]) == 1
    monkeypatch.setenv("RUNGPROOF_KEY", str(tmp_path / "none.pem"))
    take_back = ["withdraw", str(made.folder), "--reason", "a mistake"]
    assert main(take_back) == 2 and not (tmp_path / "none.pem").exists()
    find_signer(str(tmp_path / "other.pem"), tmp_path / "checkout", {})
    assert main([*take_back, "--key", str(tmp_path / "other.pem")]) == 2
    assert "with the key that signed it" in capsys.readouterr().err
    assert isinstance(signer, FileSigner)
    (tmp_path / "mine.pem").touch(0o600)
    (tmp_path / "mine.pem").write_bytes(signer.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    assert main([*take_back, "--key", str(tmp_path / "mine.pem")]) == 0
    assert [e.event for e in read_log(reports).entries] == ["publish", "withdraw"] and main(check_log) == 0
    with (reports / "log.jsonl").open("ab") as file:
        file.write(b'{"torn')
    capsys.readouterr()
    assert main(check_log) == 0 and "cut short (6 bytes)" in capsys.readouterr().err
    (made.folder / "MANIFEST.sha256").write_text("x")
    assert main(check_log) == 1 and "its manifest's sha256 begins" in capsys.readouterr().err
    assert main(["withdraw", str(tmp_path), "--reason", "x"]) == 2
    text = (reports / "log.jsonl").read_text()
    (reports / "log.jsonl").write_text(text.replace("publish", "replay_", 1))
    assert main(check_log) == 4


SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "docs/predicate.schema.json").read_text())


def test_every_line_of_a_pack_fits_the_published_schema(pack: Pack) -> None:
    """docs/predicate.schema.json is what is really signed: each line fits, and fits no more once a field is changed."""
    Draft202012Validator.check_schema(SCHEMA)
    schema = Draft202012Validator(SCHEMA)
    made = statements(pack.folder)
    assert len(made) == 3 and all(schema.is_valid(one) for one in made), [list(schema.iter_errors(one)) for one in made]
    for one in made:
        assert not schema.is_valid({**one, "predicate": {**one["predicate"], "more": 1}})
        assert not schema.is_valid({**one, "subject": one["subject"] * 2})
    measurement = made[1]
    for name, wrong in (("value", 12.5), ("k", "7"), ("k", -1), ("state", "fine"), ("value", "fast")):
        claims = [{**measurement["predicate"]["claims"][0], name: wrong}]
        assert not schema.is_valid({**measurement, "predicate": {**measurement["predicate"], "claims": claims}})


def replayed(folder: Path, signer: Signer, **more: Any) -> bytes:
    """A line of somebody who recomputed a pack on every level."""
    levels = dict.fromkeys(("L0", "L1", "L2", "L3", "L4"), "ok")
    said = {"kind": "recompute", "levels": levels, "public_key": pem(signer.public).decode(), **more}
    subject = {"MANIFEST.sha256": sha256((folder / "MANIFEST.sha256").read_bytes())}
    return signed_line(statement(subject, REPLAY, said), signer)


def surrogate(folder: Path, signer: Signer) -> bytes:
    """Such a line whose key is half a character, which JSON can say and UTF-8 cannot."""
    held = read_line(replayed(folder, signer, public_key="HALF"), "line").payload.replace(b"HALF", b"\\ud800")
    return line_of(Envelope(held, keyid(signer.public), signer.sign(pae(PAYLOAD_TYPE, held))))


def test_a_line_of_somebody_else_joins_the_proof(measured: Checkout, signer: Signer, tmp_path: Path) -> None:
    """The state moves, page, log and zip tell of it, nothing under the manifest changes, and the same line again is no news."""
    made = build(measured.study("mini"), tmp_path, measured.folder, signer)
    before = tree(made.folder)
    other = find_signer(str(tmp_path / "other.pem"), tmp_path / "checkout", {})[0]
    line = replayed(made.folder, other)
    told = add_line(made.folder, line, signer)
    after = tree(made.folder)
    assert told.standing.state == "Recomputed" and made.standing.state == "Lab-measured"
    assert {p for p in before if before[p] != after[p] and not p.startswith("page/")} == {"proof.intoto.jsonl"}
    assert after["proof.intoto.jsonl"].startswith(before["proof.intoto.jsonl"] + line)
    assert [s["predicateType"] for s in statements(made.folder)] == [PROVENANCE, MEASUREMENT, PAGE, REPLAY, PAGE]
    assert statements(made.folder)[-1]["predicate"]["state"] == "Recomputed"
    assert statements(made.folder)[-1]["subject"][0]["digest"]["sha256"] == sha256(after["page/MANIFEST.sha256"])
    held = read_log(tmp_path)
    assert (held.entries[-1].event, held.entries[-1].line) == ("replay", sha256(line.rstrip(b"\n")))
    assert told.standing.log_head == held.head and check(tmp_path, held) == []
    with zipfile.ZipFile(made.zip) as packed:
        assert packed.read(f"{made.id}/proof.intoto.jsonl") == after["proof.intoto.jsonl"]
    add_line(made.folder, line, signer)
    build(measured.study("mini"), tmp_path, measured.folder, signer)
    assert tree(made.folder) == after and read_log(tmp_path) == held


def test_a_merged_line_is_on_the_disk_before_the_proof_without_it_is_gone(
    measured: Checkout, signer: Signer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sent it may not have it any more, and a machine may lose its power."""
    made = build(measured.study("mini"), tmp_path, measured.folder, signer)
    other = find_signer(str(tmp_path / "other.pem"), tmp_path / "checkout", {})[0]
    forced: list[int] = []
    fsync, rename = os.fsync, Path.rename

    def watched(handle: int) -> None:
        fsync(handle)
        forced.append(os.fstat(handle).st_ino)

    def moves(path: Path, to: Path) -> Path:
        if path == made.folder:
            assert new_proof(tmp_path).stat().st_ino in forced
            forced.append(-1)
        return rename(path, to)

    monkeypatch.setattr(os, "fsync", watched)
    monkeypatch.setattr(Path, "rename", moves)
    add_line(made.folder, replayed(made.folder, other), signer)
    assert -1 in forced


def new_proof(reports: Path) -> Path:
    """The proof of the pack that is being made."""
    return next(reports.glob("mini/.building-*/*/proof.intoto.jsonl"))


def test_lines_that_must_not_join(measured: Checkout, signer: Signer, tmp_path: Path) -> None:
    """A changed line, one about another pack, one that is no replay, a proof that is cut; and only the publisher may merge."""
    made = build(measured.study("mini"), tmp_path, measured.folder, signer)
    other = find_signer(str(tmp_path / "other.pem"), tmp_path / "checkout", {})[0]
    good = replayed(made.folder, other)
    envelope = json.loads(good)
    forged = {
        **envelope,
        "payload": base64.b64encode(base64.b64decode(envelope["payload"]).replace(b"ok", b"OK")).decode(),
    }
    unsigned = {**envelope, "signatures": []}
    (tmp_path / "another").mkdir()
    (tmp_path / "another/MANIFEST.sha256").write_text("x")
    loose = "A key of mine:\n" + pem(other.public).decode()
    lines = {
        "no key of its own": replayed(made.folder, other, public_key=None),
        "a key that openssl alone would not read": replayed(made.folder, other, public_key=loose),
        "a key that is no text": surrogate(made.folder, other),
        "forged": json.dumps(forged).encode() + b"\n",
        "unsigned": json.dumps(unsigned).encode() + b"\n",
        "no replay": (made.folder / "proof.intoto.jsonl").read_bytes().splitlines(keepends=True)[0],
        "another pack": replayed(tmp_path / "another", other),
        "without its end": good[:-1],
        "two at once": good + good,
        "no line": b"hello\n",
    }
    (tmp_path / "keys" / key_file(keyid(other.public))).write_bytes(pem(other.public))
    before = tree(tmp_path / "mini")
    for name, line in lines.items():
        with pytest.raises(EvidenceError):
            add_line(made.folder, line, signer)
        assert tree(tmp_path / "mini") == before, name
    for wrong in (other, None):
        with pytest.raises(ConfigError, match="its publisher is"):
            add_line(made.folder, good, wrong)
        assert tree(tmp_path / "mini") == before and len(read_log(tmp_path).entries) == 1
