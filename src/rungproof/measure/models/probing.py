"""What set-up asks of this machine: a Python 3.11, room on the disk, and a child process whose failure says why."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rungproof.records.errors import SetupError

WANTED = (3, 11)
VARIABLE = "RUNGPROOF_PYTHON311"
VERSION = "import platform; print(platform.python_version())"
ASK = "import ensurepip, json, sys, venv; print(json.dumps([sys.executable, list(sys.version_info[:2])]))"


def find_interpreter(asked: str | None) -> str:
    """A Python 3.11 that can make virtual environments, as the path of its executable.

    `asked` alone counts where it is given. Else in this order: $RUNGPROOF_PYTHON311, `python3.11` on PATH, the running
    Python, pyenv's and uv's installations in their usual places. Raises SetupError with everything that was looked at.
    """
    looked: list[str] = []
    for where, candidate in _candidates(asked):
        answer = _ask(candidate)
        if isinstance(answer, str):
            looked.append(f"{where} ({candidate}): {answer}")
        elif answer[1] != WANTED:
            looked.append(f"{where} ({candidate}): is Python {answer[1][0]}.{answer[1][1]}")
        else:
            return answer[0]
    raise SetupError(
        "No Python 3.11 was found, and the server's packages exist for 3.11 alone. Looked at:\n  "
        + ("\n  ".join(looked) or "nothing: no candidate exists")
        + f"\nInstall one (Debian or Ubuntu: apt install python3.11 python3.11-venv; any Linux: uv python install 3.11, "
        f"or pyenv install 3.11) or set {VARIABLE} to its path, and run the same command again."
    )


def _candidates(asked: str | None) -> Iterator[tuple[str, str]]:
    if asked:
        yield "the interpreter that was asked for", asked
        return
    if named := os.environ.get(VARIABLE):
        yield f"${VARIABLE}", named
        return
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if folder and (found := Path(folder) / "python3.11").exists():
            yield "python3.11 on PATH", str(found)
    yield "the running Python", sys.executable
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT") or home / ".pyenv")
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or home / ".local" / "share" / "uv" / "python")
    for where, root, pattern in (
        ("pyenv", pyenv, "versions/3.11.*/bin/python"),
        ("uv", uv, "cpython-3.11*/bin/python3.11"),
    ):
        for path in sorted(root.glob(pattern), reverse=True):
            yield where, str(path)


def _ask(candidate: str) -> tuple[str, tuple[int, int]] | str:
    """(executable, version), or why this candidate is no use."""
    try:
        done = subprocess.run([candidate, "-I", "-c", ASK], capture_output=True, text=True, timeout=30, check=False)
        executable, version = json.loads(done.stdout)
        return str(executable), (int(version[0]), int(version[1]))
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run ({error})"
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return f"cannot make virtual environments ({last})"


def check_disk(folder: Path, needed_mb: int) -> None:
    """Raises SetupError where the disk of `folder` (or of its nearest existing parent) has less than `needed_mb` free."""
    place = folder
    while not place.exists():
        place = place.parent
    found_mb = shutil.disk_usage(place).free // 10**6
    if found_mb < needed_mb:
        raise SetupError(
            f"{place}: {found_mb} MB free; {needed_mb} MB needed. Free some space and run the same command again."
        )


def run_logged(
    command: Sequence[str],
    log: Path,
    what: str,
    variables: Mapping[str, str],
    deadline_s: float | None = None,
    answer: bool = False,
) -> str:
    """Run a command and append all it says to `log` as it says it; with `answer`, return its standard output instead.

    Raises SetupError with the telling lines of its output where it fails or outlives `deadline_s` [s].
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file, tempfile.TemporaryFile() as output:
        file.write(f"$ {' '.join(command)}\n".encode())
        file.flush()
        begin = file.tell()
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output if answer else file,
                stderr=file,
                env=dict(variables),
                timeout=deadline_s,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SetupError(f"Could not {what}: {error}. The log is {log}.") from error
        output.seek(0)
        said = output.read()
        file.write(said)
    if done.returncode == 0:
        return said.decode("utf-8", "replace")
    with log.open("rb") as file:
        file.seek(begin)
        lines = file.read().decode("utf-8", "replace").splitlines()
    telling = "\n  ".join(telling_lines(lines))
    raise SetupError(f"Could not {what} (exit {done.returncode}).\n  {telling}\n{advice(lines)} The log is {log}.")


def telling_lines(lines: Iterable[str], most: int = 8) -> list[str]:
    """The lines of a failed command's output that say why: its errors, hashes and retries, else its last lines."""
    said = [line.rstrip() for line in lines if line.strip()]
    signs = ("ERROR", "Error:", "Expected sha256", "Got ", "Retrying (", "No space left")
    telling = list(dict.fromkeys(line for line in said if any(sign in line for sign in signs)))
    return (telling or said)[-most:]


def advice(lines: Iterable[str]) -> str:
    """What to do about a failed command, from what it said."""
    text = "\n".join(lines)
    if "DO NOT MATCH THE HASHES" in text:
        return (
            "A downloaded file is not the one that the lock names, so nothing of it was installed: a broken download (clear it with "
            "`pip cache purge`), or an index that serves another file under this name. Do not weaken the lock."
        )
    if any(sign in text for sign in ("NewConnectionError", "NameResolutionError", "ConnectTimeout", "ReadTimeout", "ProxyError",
                                     "Max retries exceeded", "Read timed out", "Retrying (")):  # fmt: skip
        return "The package index could not be reached: check the network, proxy and pip configuration, and run the same command again."
    if "No space left" in text:
        return "The disk is full: free some space and run the same command again."
    if "No matching distribution found" in text:
        return "No configured index has this package for Python 3.11 on this machine (Linux x86_64 is needed)."
    return "Mend what the lines above name and run the same command again."
