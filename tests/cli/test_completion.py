"""Completion scripts: made from the parser, accepted by their shells, and offering what the parser takes."""

import shutil
import subprocess
from pathlib import Path

import pytest

from cli.kit import ROOT
from rungproof.cli import main, parser
from rungproof.cli.completion import SHELLS, script
from rungproof.cli.completion.tree import tree

TREE = {c.path: c for c in tree(parser())}
EXPECTED = [
    (("",), ["plan", "status", "lane", "measure", "--version"]), (("lane", ""), ["show", "from-command"]),
    (("lane", "show", "smol"), ["smollm2-bf16", "smollm2-f32", "smollm2-w4a16"]), (("plan", "--host", ""), ["cpu", "simulated"]),
    (("plan", "camp"), ["campaign_v2"]), (("lane", "show", "x", "--campaign", "sm"), ["smoke"]), (("measure", "--pas"), ["--passes"]),
    (("completion", ""), ["bash", "fish", "zsh"]), (("measure", "--prompts", "READ"), ["README.md"]), 
]  # fmt: skip

BASH = [
    *EXPECTED,
    (("verify", "conf"), ["config"]),
    (("measure", "--out", "do"), ["docs"]),
    (("plan", "--root", "READ"), []),
]


def shell(name: str) -> str:
    """The shell, or a skip where it is not installed."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def test_the_parser_is_read_whole() -> None:
    """Every command, option and value of the parser is known to the scripts, with the kind of value it takes."""
    measure = {name: option for option in TREE[("measure",)].options for name in option.names}
    assert {
        "--url",
        "--model",
        "--concurrency",
        "--tokens",
        "--passes",
        "--prompts",
        "--plain",
        "--json",
        "--out",
    } <= set(measure)
    assert measure["--plain"].value is None
    assert measure["--prompts"].value is not None
    assert measure["--prompts"].value.files
    assert measure["--out"].value is not None
    assert measure["--out"].value.folders
    assert [value.config for value in TREE[("lane", "show")].values] == ["lanes"]
    assert dict(TREE[()].below).keys() >= {"plan", "status", "verify", "lane", "measure", "completion", "simulate"}


@pytest.mark.parametrize("name", SHELLS)
def test_every_option_is_in_every_script(name: str) -> None:
    """An option that is new in the parser is completed in each shell."""
    text = script(name, parser())
    for command in TREE.values():
        for option in command.options:
            for word in option.names:
                long = word.startswith("--")
                assert (f"-{'l' if long else 's'} {word.lstrip('-')}" if name == "fish" else word) in text


@pytest.mark.parametrize(("name", "check"), [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")])
def test_the_shell_accepts_its_script(
    name: str, check: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `rungproof completion SHELL` prints is valid for that shell."""
    assert main(["completion", name]) == 0
    file = tmp_path / "script"
    file.write_text(capsys.readouterr().out)
    subprocess.run([shell(name), check, str(file)], check=True, timeout=120)


@pytest.mark.parametrize(("words", "offered"), BASH)
def test_bash_offers(words: tuple[str, ...], offered: list[str], tmp_path: Path) -> None:
    """Commands, options, names in config/ and files, each where it belongs."""
    (tmp_path / "script").write_text(script("bash", parser()))
    typed = " ".join(f"'{word}'" for word in ("rungproof", *words))
    run = f'source "$1"; COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _rungproof; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        [shell("bash"), "--norc", "-c", run, "-", str(tmp_path / "script")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stderr == ""
    found = done.stdout.split()
    assert set(offered) <= set(found)
    assert bool(offered) == bool(found)
    if words[-1]:
        assert all(one.startswith(words[-1]) for one in found)


@pytest.mark.parametrize(("words", "offered"), EXPECTED)
def test_fish_offers(words: tuple[str, ...], offered: list[str], tmp_path: Path) -> None:
    """The same in fish."""
    (tmp_path / "script").write_text(script("fish", parser()))
    typed = " ".join(("rungproof", *(["-"] if words[-1] == "" and "--version" in offered else words)))
    wanted = ["--version"] if typed.endswith(" -") else offered
    done = subprocess.run(
        [shell("fish"), "-N", "-c", f"source {tmp_path / 'script'}; complete -C '{typed}'"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert set(wanted) <= {line.split("\t")[0] for line in done.stdout.splitlines()}


def test_outside_a_checkout_nothing_is_offered_that_is_not_there(tmp_path: Path) -> None:
    """Without config/ the names of campaigns are simply none, without an error on the terminal."""
    (tmp_path / "script").write_text(script("bash", parser()))
    run = 'source "$1"; COMP_WORDS=(rungproof plan c); COMP_CWORD=2; _rungproof; echo "${#COMPREPLY[@]}"'
    done = subprocess.run(
        [shell("bash"), "--norc", "-c", run, "-", str(tmp_path / "script")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("0\n", "")
