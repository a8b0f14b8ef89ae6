"""Prove red: each way to falsify a pack fails at the level that docs/mutations.md names, or the table says what else finds it."""

import base64
import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from campaigns.checkout import ROOT
from campaigns.forge import edit, remade, signed
from campaigns.mutations import MUTATIONS, STRENGTHS, Mutation
from rungproof import __version__
from rungproof.cli import main
from rungproof.publish.pack import Pack
from rungproof.verify import check, exit_code, installed
from verify.laid import Key, line, manifests, run, seal, sha256

CASES = [
    pytest.param(mutation, place, id=f"{name} ({STRENGTHS[place]})")
    for name, mutation in MUTATIONS.items()
    for place, level in enumerate(mutation.levels)
    if level is not None
]


@pytest.fixture(scope="module")
def cheat(tmp_path_factory: pytest.TempPathFactory) -> Key:
    """A key that is not the publisher's."""
    return Key(tmp_path_factory.mktemp("cheat"), "cheat")


@pytest.fixture(scope="module")
def good(pack: Pack) -> Path:
    """The pack of the shared campaign, as its publisher signs it, with nothing wrong."""
    return pack.folder


def first_failure(pack: Path, **how: object) -> str:
    """The first level that fails, "" for none, by the installed reducer."""
    code = exit_code(list(check(pack, room=installed, **how)))  # type: ignore[arg-type]
    return f"L{code - 10}" if code else ""


def test_the_good_pack_passes_every_level(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its own script with Python's `-I`, by that without, and by the installed program; each level compared something."""
    trust, log = str(good / "signer.pub.pem"), str(good.parents[1] / "log.jsonl")
    for isolated in (True, False):
        done = run(good, "--trust", trust, "--log", log, isolated=isolated)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        assert [one[:2] for one in done.stdout.splitlines() if one[:1] == "L"] == ["L0", "L1", "L2", "L3", "L4"]
    assert main(["verify", str(good.with_suffix(".zip")), "--trust", trust, "--log", log]) == 0
    out = capsys.readouterr().out
    assert "same bytes as the pack's" in out and "page made again" in out and "tables made again" in out


@pytest.mark.parametrize(("mutation", "strength"), CASES)
def test_each_falsification_fails_at_its_level(
    good: Path, cheat: Key, tmp_path: Path, mutation: Mutation, strength: int
) -> None:
    """At the level of the table; where a cheat has signed himself, at L1 for whoever trusts the publisher's key."""
    pack = shutil.copytree(good, tmp_path / "pack")
    mutation.apply(pack)
    if strength == 3:
        remade(pack)
    if strength >= 2:
        signed(pack, cheat)
        assert first_failure(pack, trust=(good / "signer.pub.pem").read_bytes()) == "L1"
    elif strength == 1:
        manifests(pack)
    assert first_failure(pack) == mutation.levels[strength]


def test_a_pack_made_again_without_a_change_passes(good: Path, cheat: Key, tmp_path: Path) -> None:
    """What the strongest strength does besides the mutation breaks nothing: its failures are the mutation's."""
    pack = shutil.copytree(good, tmp_path / "pack")
    remade(pack)
    signed(pack, cheat)
    assert first_failure(pack, trust=cheat.public.read_bytes()) == ""


def test_python_and_openssl_are_enough(good: Path, tmp_path: Path) -> None:
    """All levels pass in a chroot of nothing but Debian's Python and openssl, as nobody; skipped where none can be made."""
    pack = shutil.copytree(good, tmp_path / "pack")
    call = [str(ROOT / "tests/verify/bare.sh"), str(pack)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=900)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "L4 sense     ok" in done.stdout


def test_whatever_the_publisher_signed_is_made_again(good: Path, cheat: Key, tmp_path: Path) -> None:
    """A provenance with another reducer, and a page line with a higher state, are no less false for being signed."""
    pack = shutil.copytree(good, tmp_path / "pack")
    signed(pack, cheat)
    lines = (pack / "proof.intoto.jsonl").read_bytes().splitlines(keepends=True)
    whole, page = sha256(pack / "MANIFEST.sha256"), sha256(pack / "page/MANIFEST.sha256")
    source, said = (json.loads(base64.b64decode(json.loads(lines[place])["payload"]))["predicate"] for place in (0, 2))
    source["buildDefinition"]["resolvedDependencies"][-1]["digest"]["sha256"] = "0" * 64
    for false in (
        [line("provenance", whole, source, cheat), *lines[1:]],
        [*lines[:2], line("page", page, {**said, "state": "Replicated"}, cheat, "page/MANIFEST.sha256")],
    ):
        (pack / "proof.intoto.jsonl").write_bytes(b"".join(false))
        assert first_failure(pack) == "L2"
    (pack / "proof.intoto.jsonl").write_bytes(b"".join(lines))
    assert first_failure(pack) == ""


def test_a_pack_of_another_version_is_told_from_a_false_one(
    good: Path, cheat: Key, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its records may have fields that this version does not know: the reader is sent to the pack's own reducer."""
    pack = shutil.copytree(good, tmp_path / "pack")
    shutil.rmtree(pack / "tables")
    init, records = pack / "reducer/rungproof/__init__.py", pack / "reducer/rungproof/records/summary.py"
    init.write_text(init.read_text().replace('__version__ = "', '__version__ = "9.'))
    held = records.read_text()
    assert held.count("    lossless_claim: bool\n") == 1
    records.write_text(
        held.replace("    lossless_claim: bool\n", "    lossless_claim: bool\n    a_field_of_later: None\n")
    )
    edit(pack / "summary.json", lambda s: s.update(a_field_of_later=None))
    manifests(pack)
    assert main(["verify", str(pack)]) == 11
    assert (
        "made by rungproof" not in capsys.readouterr().out
    )  # no word of versions before its signer stands for these bytes
    seal(pack, cheat)
    assert main(["verify", str(pack)]) == 12
    out = capsys.readouterr().out
    assert "unknown key 'a_field_of_later'" in out and f"the pack's own, 9.{__version__}, differs in 2 files" in out
    assert f"made by rungproof 9.{__version__}" in out and "python3 -I verify.py" in out
    words = ["replay", str(pack), "--recompute", "--root", str(tmp_path), "--key", str(tmp_path / "key.pem")]
    assert main(words) == 4  # nobody signs that a sound pack of another version does not hold
    assert "made by rungproof 9." in capsys.readouterr().err and not list(tmp_path.rglob("line.intoto.jsonl"))


def test_a_reducer_that_fakes_its_version_is_told(
    good: Path, cheat: Key, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another program of the same version is not that version's."""
    pack = shutil.copytree(good, tmp_path / "pack")
    MUTATIONS["the reducer is replaced"].apply(pack)
    MUTATIONS["a value of the summary is raised"].apply(pack)
    signed(pack, cheat)
    assert main(["verify", str(pack)]) == 12
    out = capsys.readouterr().out
    assert "is of this version" in out and "python3 -I verify.py" not in out


def test_a_stranger_can_check_readme_and_metadata(
    good: Path, cheat: Key, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both tell of the numbers, so an installed program makes them again."""
    for name in ("README.md", "ro-crate-metadata.json"):
        pack = shutil.copytree(good, tmp_path / name)
        held = (pack / name).read_text()
        assert "Mini campaign" in held
        (pack / name).write_text(held.replace("Mini campaign", "Maxi campaign"))
        signed(pack, cheat)
        assert main(["verify", str(pack)]) == 12
        assert f"{name}: is not what the pack's own bytes give" in capsys.readouterr().out


@pytest.mark.parametrize(
    "spoil",
    {
        "a table that is none": lambda p: next((p / "tables").glob("*.parquet")).write_bytes(b"PAR1"),
        "a session without a name": lambda p: shutil.copytree(
            p / "sessions/r001.base.a/judged", p / "sessions/x/judged"
        ),
    }.values(),
)
def test_nothing_of_a_strangers_ends_in_a_traceback(
    good: Path, cheat: Key, tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    """What libraries say of a damaged file is a failure of its level."""
    pack = shutil.copytree(good, tmp_path / "pack")
    spoil(pack)
    seal(pack, cheat)
    assert main(["verify", str(pack)]) == 12


def entry(number: int, previous: str, **more: str) -> bytes:
    """One line of a log."""
    made = {"seq": number, "at": "2026-01-01T00:00:00Z", "previous": previous, "study": "mini", "reason": "", **more}
    return json.dumps(made, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def test_a_replay_line_that_was_deleted_is_found_by_the_log(good: Path, cheat: Key, tmp_path: Path) -> None:
    """Lines are in no manifest, since they grow; the published log names each of them. So it finds a pack that was withdrawn."""
    pack = shutil.copytree(good, tmp_path / "pack")
    replay = line(
        "replay", sha256(pack / "MANIFEST.sha256"), {"kind": "replay", "public_key": cheat.public.read_text()}, cheat
    )
    name, told = sha256(pack / "MANIFEST.sha256")[:12], hashlib.sha256(replay.rstrip(b"\n")).hexdigest()
    one = entry(1, "", event="publish", pack=name)
    two = entry(2, hashlib.sha256(one.rstrip(b"\n")).hexdigest(), event="replay", pack=name, line=told)
    log = tmp_path / "log.jsonl"
    log.write_bytes(one + two)
    with (pack / "proof.intoto.jsonl").open("ab") as file:
        file.write(replay)
    assert run(pack, "--level", "L1", "--log", str(log)).returncode == 0
    (pack / "proof.intoto.jsonl").write_bytes((good / "proof.intoto.jsonl").read_bytes())
    assert run(pack, "--level", "L1").returncode == 0
    gone = run(pack, "--level", "L1", "--log", str(log))
    assert gone.returncode == 11 and "that is not in proof.intoto.jsonl any more" in gone.stdout
    log.write_bytes(one + entry(2, hashlib.sha256(one.rstrip(b"\n")).hexdigest(), event="withdraw", pack=name))
    rest = {"study": "mini", "supersedes": name}
    log.write_bytes(
        one + entry(2, hashlib.sha256(one.rstrip(b"\n")).hexdigest(), event="supersede", pack="0" * 12, **rest)
    )
    later = run(pack, "--level", "L1", "--log", str(log))
    assert later.returncode == 0 and f"superseded by pack {'0' * 12}" in later.stdout
    log.write_bytes(one + entry(2, hashlib.sha256(one.rstrip(b"\n")).hexdigest(), event="withdraw", pack=name))
    assert "withdrawn" in run(pack, "--level", "L1", "--log", str(log)).stdout
    log.write_bytes(two)
    assert "chain is broken" in run(pack, "--level", "L1", "--log", str(log)).stdout


def test_another_reducer_is_told_and_cannot_raise_a_number(
    good: Path, cheat: Key, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pack's own script runs what the pack holds and says its digest; the installed program judges by itself."""
    pack = shutil.copytree(good, tmp_path / "pack")
    honest = run(pack).stdout
    MUTATIONS["the reducer is replaced"].apply(pack)
    signed(pack, cheat)
    assert run(pack).returncode != 0
    digest = next(word for word in honest.split() if len(word.strip(":;")) == 64).strip(":;")
    assert digest not in run(pack).stdout
    assert main(["verify", str(pack)]) == 0
    assert f"the pack's own, {__version__}, differs in 1 files, first judge/rates.py" in capsys.readouterr().out


HOSTILE: dict[str, Callable[[Path], object]] = {
    "a plan of a billion passes": lambda p: (p / "plan.json").write_text(
        (p / "plan.json").read_text().replace('"passes":2', '"passes":1000000000')
    ),
    "a number of ten thousand digits": lambda p: (p / "summary.json").write_text('{"x": ' + "9" * 10_000 + "}"),
    "JSON a thousand deep": lambda p: (p / "summary.json").write_text("[" * 100_000 + "]" * 100_000),
    "a rules object nine hundred deep": lambda p: (p / "summary.json").write_text(
        (p / "summary.json").read_text().replace('"rules":{', '"rules":{"x":' + "[" * 900 + "]" * 900 + ",", 1)
    ),
    "a number that is not finite": lambda p: (p / "summary.json").write_text(
        (p / "summary.json").read_text().replace('"value":', '"value":1e999,"x":', 1)
    ),
    "a session with an odd name": lambda p: shutil.copytree(p / "sessions/r001.base.a", p / "sessions/x.base.a"),
    "a record that is a list": lambda p: (p / "sessions/r001.base.a/server.json").write_text("[]"),
    "a raw file that is none": lambda p: (p / "sessions/r001.base.a/attempts/ladder.c2.raw.jsonl.gz").write_bytes(
        b"x" * 999
    ),
    "a page that is no text": lambda p: (p / "page/index.html").write_bytes(b"\xff\xfe\x00" * 99),
    "a page of open tags": lambda p: (p / "page/index.html").write_text("<!" * 9999 + "<data data-claim='" * 999),
    "a twin that is none": lambda p: (p / "page/points.json").write_text("[]"),
    "a claim that leads astray": lambda p: (p / "page/index.html").write_text(
        (p / "page/index.html")
        .read_text()
        .replace("</body>", '<data value="1" data-claim="/__class__/0">1</data></body>')
    ),
}


@pytest.mark.parametrize("spoil", HOSTILE.values(), ids=HOSTILE)
def test_hostile_records_are_told_in_a_line(
    good: Path, cheat: Key, tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    """Sealed and signed, whatever a record holds: a level fails with a reason; never a traceback, and soon."""
    pack = shutil.copytree(good, tmp_path / "pack")
    claims = (pack / "summary.json").read_bytes()
    spoil(pack)
    spoilt = (pack / "summary.json").read_bytes()
    (pack / "summary.json").write_bytes(claims)
    signed(pack, cheat)
    (pack / "summary.json").write_bytes(spoilt)
    manifests(pack)
    seal_again(pack, cheat)
    done = run(pack)
    assert done.returncode in (12, 13, 14) and done.stderr == "", done.stdout + done.stderr
    assert "Traceback" not in done.stdout


def seal_again(pack: Path, key: Key) -> None:
    """New lines over new manifests, with whatever was claimed before."""
    from verify.laid import seal

    seal(pack, key)


def test_the_table_in_the_documentation_is_this_one() -> None:
    """docs/mutations.md is made from the same table as these tests; `PYTHONPATH=src:tests python -m campaigns.mutation_table` writes it."""
    from campaigns.mutation_table import table

    assert (ROOT / "docs/mutations.md").read_text(encoding="utf-8") == table()
