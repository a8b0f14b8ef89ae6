"""A stranger's pack holds neither time nor memory of a machine: the script in it and the installed program end themselves, and say why."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

import rungproof
from rungproof import verify
from rungproof.cli import limited, main
from rungproof.records.errors import EvidenceError
from verify.laid import Key, lay, seal

HOME = str(Path(rungproof.__file__).parents[1])
PROBE = """
import argparse, resource, signal, sys
from rungproof.cli import carried_out, verifying
from rungproof.verify import Refused
def judge(options):
    print("limits", resource.getrlimit(resource.RLIMIT_AS)[0], round(-(-signal.getitimer(signal.ITIMER_REAL)[0] // 60) * 60))
    {ends}
verifying.judge = judge
sys.exit(carried_out(verifying.checked, argparse.Namespace(study="PACK")))
"""
ENDS = {
    "well": ("return 0", 0, ""),
    "late, while it unpacks": ("raise Refused('not done after 3600 s; refused')", 4, "rungproof: PACK: not done after"),
    "without memory": ("raise MemoryError", 4, "rungproof: PACK: takes more than 12 GiB of memory"),
}


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack whose bytes and signatures are good, with a summary of 300 MB that is none."""
    home = tmp_path_factory.mktemp("laid")
    pack, key = home / "pack", Key(home, "lab")
    lay(pack, key)
    with (pack / "summary.json").open("wb") as file:
        file.truncate(300 * 2**20)
    seal(pack, key)
    return pack


def script(pack: Path, limits: str) -> "subprocess.CompletedProcess[str]":
    """The script with other limits."""
    call = f"import sys; from rungproof import verify; {limits}; sys.exit(verify.main([sys.argv[1]]))"
    return subprocess.run(
        [sys.executable, "-c", call, str(pack)],
        env={"PYTHONPATH": HOME, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )


def test_the_script_ends_in_time(laid: Path) -> None:
    """The level that it was at fails and says so."""
    done = script(laid, "verify.SECONDS = 2; verify._digest = lambda _: __import__('time').sleep(600)")
    assert done.returncode == 10 and "L0 bytes     FAILED" in done.stdout, done.stdout + done.stderr
    assert "not done after 2 s; refused" in done.stdout and "Traceback" not in done.stderr


def test_time_that_is_over_between_two_levels_is_told(laid: Path) -> None:
    """Nothing is caught there, and it is one line all the same."""
    done = script(laid, "verify.SECONDS = 0.05; verify.check = lambda *_: (__import__('time').sleep(9), iter(()))[1]")
    assert (done.returncode, done.stdout) == (10, "")
    assert done.stderr == "verify.py: not done after 0.05 s; refused\n"


def test_the_script_ends_at_its_memory(laid: Path) -> None:
    """A file that would take more than there may be is a failure of its level."""
    done = script(laid, "verify.MEMORY = 250 * 2**20")
    assert done.returncode == 12 and "GiB of memory, or than this process may have; refused" in done.stdout, done.stdout


@pytest.mark.parametrize(("ends", "code", "says"), ENDS.values(), ids=ENDS)
def test_the_installed_program_has_the_same_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ends: str, code: int, says: str
) -> None:
    """In a process of its own, so that this one keeps its own; past them it is one line with the code of damaged evidence. No module
    of the folder that it is called in is run."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/probe.py").write_text(PROBE.format(ends=ends))
    (tmp_path / "json.py").write_text("print('HIJACKED')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "mine"))
    before = resource.getrlimit(resource.RLIMIT_AS)
    assert limited.call("probe", [], 60.0) == code
    said = capsys.readouterr()
    assert said.out == f"limits {verify.MEMORY} {verify.SECONDS}\n"
    assert said.err.startswith(says) and bool(says) == bool(said.err)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


@pytest.mark.parametrize(
    "ends",
    ["import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "import time\ntime.sleep(3600)"],
    ids=["killed", "late"],
)
def test_a_pack_that_kills_its_process_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ends: str
) -> None:
    """By the system for its memory, or by this program for its time: what was printed stays, and no traceback comes."""
    (tmp_path / "probe.py").write_text(f"print('L0 ok', flush=True)\n{ends}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for most_s in (
        2.0,
        20.0,
        200.0,
    ):  # a time that was over before it could print tells nothing: the next one is longer
        with pytest.raises(EvidenceError, match=r"probe was ended by SIGKILL .*refused"):
            limited.call("probe", [], most_s)
        if out := capsys.readouterr().out:
            break
    assert out == "L0 ok\n"


def test_the_command_runs_it(laid: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Options and exit codes come through."""
    assert main(["verify", str(laid), "--level", "L1", "--json"]) == 0
    assert '"level": "L1"' in capsys.readouterr().out
    assert main(["verify", str(laid)]) == 12
