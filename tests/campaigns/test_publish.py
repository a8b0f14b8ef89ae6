"""`snakemake publish`: from a results folder to a pack that holds everything, in the same bytes each time."""

import gzip
import json
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from campaigns.checkout import Checkout
from campaigns.packs import statements, tree
from campaigns.test_verify import edit
from records.test_proof import floats
from rungproof.publish.pack import Pack, build
from rungproof.publish.signing import Signer, holds, keyid, public_from
from rungproof.records.codec import sha256
from rungproof.records.errors import EvidenceError, RungproofError
from rungproof.records.proof import (
    MEASUREMENT,
    PAGE,
    PROVENANCE,
    read_line,
)


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


def test_a_raw_file_past_its_limit_is_refused(
    measured: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would fail L0 of every verifier: told before anything is published, with what to do."""
    monkeypatch.setattr("rungproof.records.raw.MAX_RAW", 10_000)
    with pytest.raises(
        EvidenceError, match=r"\.raw\.jsonl\.gz: more than 10000 bytes after decompression.*fewer tokens"
    ):
        build(measured.study("mini"), tmp_path / "reports", measured.folder)
    assert not (tmp_path / "reports").exists()


def test_a_pack_is_verified_in_little_memory(pack: Pack) -> None:
    """The limits are no size that is taken beforehand: an honest small pack needs a fifth of a GB of addresses, Python and openssl included."""
    call = f"ulimit -v 200000; exec {shlex.quote(sys.executable)} -I verify.py"
    done = subprocess.run(["sh", "-c", call], cwd=pack.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


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
