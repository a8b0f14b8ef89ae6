"""Help that teaches: every command says what it does and shows lines that work."""

import argparse
import shlex
from collections.abc import Iterator

import pytest

from rungproof.cli import main, parser
from rungproof.cli.completion import SHELLS


def commands(of: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Every command that has help, the program first."""
    yield of
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                if one.add_help:
                    yield from commands(one)


EVERY = {one.prog: one for one in commands(parser())}


def examples(of: argparse.ArgumentParser) -> list[list[str]]:
    """The words of each example line that calls rungproof."""
    found = []
    for line in (of.epilog or "").splitlines():
        if line.startswith("  ") and "rungproof " in line:
            told = line.split("  ")[1] if of.prog == "rungproof" else line
            words = shlex.split(told.replace("<(", " ").replace(")", " ").split(" > ")[0])
            found.append(words[words.index("rungproof") + 1 :])
    return found


def test_the_commands_are_all_there() -> None:
    """The list of commands that the README names."""
    assert set(EVERY) == {
        "rungproof", "rungproof plan", "rungproof status", "rungproof verify", "rungproof lane", "rungproof lane show", "rungproof lane from-command", "rungproof measure",
        "rungproof doctor", "rungproof env", "rungproof env diff", "rungproof env add", "rungproof model", "rungproof model add", "rungproof host", "rungproof host show", "rungproof host clear", "rungproof completion", "rungproof selftest", "rungproof selftest client",
        "rungproof gates", "rungproof explain", "rungproof suite", "rungproof suite tie", "rungproof show", "rungproof watch", "rungproof compare",
        "rungproof log", "rungproof log verify", "rungproof withdraw", "rungproof replay",
    }  # fmt: skip


@pytest.mark.parametrize("name", EVERY)
def test_every_example_is_a_line_that_works(name: str) -> None:
    """Each command shows an example of itself, and the parser accepts every one of them."""
    found = examples(EVERY[name])
    assert found
    assert all(("rungproof " + " ".join(words)).startswith(name) for words in found)
    for words in found:
        assert callable(parser().parse_args(words).run)


@pytest.mark.parametrize("name", EVERY)
def test_every_option_is_explained(name: str) -> None:
    """No option without a word on it, and no help that argparse cannot write."""
    for action in EVERY[name]._actions:
        assert action.help or isinstance(action, argparse._SubParsersAction)
    assert EVERY[name].description
    assert len(EVERY[name].format_help().splitlines()) > 5


def test_a_call_without_words_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    """`rungproof` alone shows the help, with where to start and what exit codes mean, and exits with 2."""
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "start here" in err
    assert "exit codes" in err


def test_an_unknown_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A typing error names the commands there are."""
    with pytest.raises(SystemExit) as caught:
        main(["mesure"])
    assert caught.value.code == 2
    assert "measure" in capsys.readouterr().err


def test_three_shells() -> None:
    """bash, zsh and fish."""
    assert set(SHELLS) == {"bash", "zsh", "fish"}
