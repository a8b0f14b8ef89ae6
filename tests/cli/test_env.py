"""`rungproof env diff`: a verdict a key, and an exit code that a script can trust."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cli.kit import HOSTILE
from rungproof.cli import main
from rungproof.records.codec import canonical
from rungproof.records.environment import Environment, Fact

ONE = Environment(
    "r001.base.a", "base", "b00t", "2026-01-01T00:00:00Z",
    {
        "kernel": Fact("6.1.0", "equal", "/proc/sys/kernel/osrelease", "proc"), "load": Fact(["0.1"], "informative", "/proc/loadavg", "proc"),
        "python_packages": Fact({"torch": "2.13.0 sha256:aa", "vllm": "0.32.0 sha256:bb"}, "equal", "RECORD", "software"),
    },
)  # fmt: skip


def write(folder: Path, record: Environment) -> str:
    folder.mkdir(parents=True)
    (folder / "env.json").write_bytes(canonical(record))
    return str(folder)


def changed(**facts: Fact) -> Environment:
    return replace(ONE, session="r002.base.a", before={**ONE.before, **facts})


def test_equal_environments_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A session's folder or its file; what is only told may differ."""
    a, b = write(tmp_path / "a", ONE), write(tmp_path / "b", changed(load=Fact(["9.0"], "informative", "x", "proc")))
    assert main(["env", "diff", a, f"{b}/env.json"]) == 0
    out = capsys.readouterr().out
    assert "The same environment" in out
    assert "9.0" in out
    assert "kernel" not in out
    assert main(["env", "diff", a, b, "--all"]) == 0
    assert "kernel" in capsys.readouterr().out


def test_a_difference_is_named_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The very package that differs is named, text of a host does nothing to the terminal, exit code 1."""
    packages = Fact({"torch": "2.13.0 sha256:cc", "vllm": "0.32.0 sha256:bb"}, "equal", "RECORD", "software")
    a, b = (
        write(tmp_path / "a", ONE),
        write(tmp_path / "b", changed(python_packages=packages, kernel=Fact(HOSTILE, "equal", "x", "proc"))),
    )
    assert main(["env", "diff", a, b]) == 1
    out, err = capsys.readouterr()
    assert "python_packages.torch" in out
    assert "python_packages.vllm" not in out
    assert "2 keys that count differ" in err
    assert "\x1b" not in out
    assert main(["env", "diff", a, b, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["same"] is False
    assert {one["key"]: one["state"] for one in found["keys"]}["kernel"] == "differs"


def test_nothing_to_compare_is_no_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two environments of which nothing is known are not the same one; a damaged file is told as such."""
    a = write(tmp_path / "a", replace(ONE, before={}))
    assert main(["env", "diff", a, a]) == 1
    assert "no pass" in capsys.readouterr().err
    (tmp_path / "a/env.json").write_text("{}")
    assert main(["env", "diff", a, a]) == 4
