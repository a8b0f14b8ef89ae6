"""`rungproof plan` and `status`: minutes by server, disk, and words that stay harmless."""

import re
import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from cli.kit import HOSTILE, ROOT
from rungproof.cli import main, need
from rungproof.cli.words import clean, clean_lines
from rungproof.config.load import load
from rungproof.plan.missing import plan_run
from rungproof.plan.resolve import resolve
from rungproof.records.requests import batches

PLAN = resolve(load(ROOT, "campaign_v2", "simulated"), frozenset())


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """config and envs of this project, nothing built and nothing measured."""
    for name in ("config", "envs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


def test_minutes_of_each_server_add_up(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every fresh server has its minutes, with the setting up they make the total that the call tells, and nothing is written."""
    before = sorted(checkout.rglob("*"))
    assert main(["plan", "campaign_v2", "--root", str(checkout)]) == 0
    out = capsys.readouterr().out
    minutes = {
        name: float(value) for name, value in re.findall(r"^    (\S+|setting up) +([\d.]+) min", out, re.MULTILINE)
    }
    servers = re.findall(r"fresh server (\S+):", out)
    assert servers
    assert set(minutes) == {*servers, "setting up"}
    (total,) = re.findall(r"about (\d+) min in all", out)
    assert sum(minutes.values()) == pytest.approx(int(total), abs=0.5 + 0.05 * len(minutes))
    assert "disk: about 4.5 GB of environments and models under" in out
    assert re.search(r"disk: about \d+ MB of records under", out)
    assert sorted(checkout.rglob("*")) == before


def test_requests_and_tokens_are_those_of_the_plan(tmp_path: Path) -> None:
    """The counts behind the estimate are those of the bodies that will be sent."""
    for item in PLAN.items:
        if item.spec["kind"] == "ladder":
            prompts = {f"p{i}": "x" for i in range(item.spec["concurrency"])}
        elif item.spec["kind"] == "strict":
            prompts = dict.fromkeys(item.rules["classes"], "x")
        else:
            prompts = {key: [1] * item.spec["depth"] for key in "abc"}
        sent = [body.body for batch in batches(item, prompts, "m") for body in batch.bodies]
        assert need.tokens_of(item) == sum(body["max_tokens"] for body in sent)
        assert need.requests_of(item) == len(sent)
    todo = plan_run(PLAN, tmp_path, "r001", (), "j")
    every = sum(need.tokens_of(item) for item in PLAN.items)
    assert need.results_bytes(todo) == every * need.TOKEN_BYTES + len(PLAN.seats) * need.SESSION_BYTES


def test_too_little_disk_is_told(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 2 GB free and 4.5 GB needed the plan says so; with enough it does not."""
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(10**11, 0, 2 * 10**9))
    main(["plan", "campaign_v2", "--root", str(checkout)])
    assert "disk: NOT ENOUGH: 2.0 GB are free" in capsys.readouterr().out
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(10**11, 0, 10**10))
    main(["plan", "campaign_v2", "--root", str(checkout)])
    assert "NOT ENOUGH" not in capsys.readouterr().out


def test_status_before_the_first_run(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing measured yet: how to measure, and what would be done."""
    assert main(["status", "campaign_v2", "--host", "simulated", "--root", str(checkout)]) == 0
    out = capsys.readouterr().out
    assert "no summary yet; run: snakemake campaign_v2 --cores 1 --config host=simulated\n" in out
    assert "fresh server r001.w4a16.a" in out


def test_an_unknown_campaign_names_those_there_are(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and the names to choose from."""
    assert main(["plan", "campaign_v3", "--root", str(checkout)]) == 2
    assert "campaign_v2" in capsys.readouterr().err


def test_cleaned_text_is_one_harmless_line() -> None:
    """Escape codes, C1 codes, bells and marks that turn the writing around go; line ends and tabs become spaces; letters stay."""
    assert clean(f"a\r\nb\tc{HOSTILE}ä ß 日本") == "a b c[31m<b>red</b>2Jä ß 日本"
    assert clean("\x00\x7f\ufeff\u202e\u2028x") == " x"
    assert clean_lines("one\x1b[2J\ntwo\r") == "one[2J\ntwo "
