"""An image of the server's environment as it was made on this machine: for where no image can be pulled. 2.6 GB, some minutes."""

import io
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

TAG = "localhost/rungproof-tests:vllm-cpu"
PROGRAMS = ("/bin/sh", "/usr/bin/lscpu", "/usr/bin/env")  # what vLLM's CPU backend starts
LEFT_AWAY = re.compile(r"/(__pycache__|test|tests|idlelib|ensurepip|tkinter|turtledemo)(/|$)|\.pyc$|\.a$")
PASSWD = "root:x:0:0:root:/root:/bin/sh\n"


def build(engine: str, environment: Path) -> str:
    """Import the image from a stream of files; returns its id, `sha256:...`."""
    with subprocess.Popen(
        [engine, "import", "-", TAG], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as running:
        assert running.stdin is not None
        with tarfile.open(fileobj=running.stdin, mode="w|", dereference=True) as tar:
            fill(tar, environment)
        running.stdin.close()
        assert running.stdout is not None
        said = running.stdout.read().decode("utf-8", "replace")
    assert running.returncode == 0, said[-2000:]
    found = subprocess.run(
        [engine, "image", "inspect", "--format", "{{.Id}}", TAG], capture_output=True, text=True, check=True
    )
    return f"sha256:{found.stdout.strip().removeprefix('sha256:')}"


def fill(tar: tarfile.TarFile, environment: Path) -> None:
    """The environment and its Python where they lie on this machine, the libraries they need, and the least of a system."""
    home = re.search(r"^home = (.+)$", (environment / "pyvenv.cfg").read_text(), re.MULTILINE)
    assert home is not None
    base = Path(home[1]).resolve().parent
    for folder in (environment, base / "lib", base / "bin"):
        tar.add(folder, arcname=str(folder), filter=_kept)
    have: set[str] = set()
    for path in (
        *PROGRAMS,
        *libraries(
            [
                *_shared(environment),
                *_shared(base),
                *map(Path, PROGRAMS),
                base / "bin" / Path(sys.executable).resolve().name,
            ]
        ),
    ):
        if path not in have and Path(path).exists():
            have.add(path)
            tar.add(path, arcname=path)
    for name, text in (
        ("etc/passwd", PASSWD),
        ("etc/os-release", Path("/etc/os-release").read_text()),
        ("tmp/.keep", ""),
        ("root/.keep", ""),
    ):
        entry = tarfile.TarInfo(name)
        entry.size = len(text.encode())
        tar.addfile(entry, io.BytesIO(text.encode()))


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = f"/{entry.name}"
    ours = "/site-packages/" in name  # packages may need what they call tests
    return (
        None
        if LEFT_AWAY.search(name) and not (ours and not name.endswith(".pyc") and "__pycache__" not in name)
        else entry
    )


def _shared(folder: Path) -> Iterator[Path]:
    yield from (path for path in folder.rglob("*.so*") if path.is_file())


def libraries(files: Iterable[Path]) -> list[str]:
    """Shared libraries of the system that these files need, each once."""
    made: dict[str, None] = {}
    every = [str(file) for file in files if file.exists()]
    for at in range(0, len(every), 200):
        told = subprocess.run(["ldd", *every[at : at + 200]], capture_output=True, text=True, check=False).stdout
        for path in re.findall(r"(?:=> |^\s*)(/\S+) \(0x", told, re.MULTILINE):
            if path.startswith(("/lib", "/usr/lib")):
                made[path] = None
    return list(made)
