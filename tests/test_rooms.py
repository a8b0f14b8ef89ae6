"""The order of the rooms: who may import whom, which outside packages each may use, where side effects may stand."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src/rungproof"
ALLOWED: dict[str, set[str]] = {
    "records": set(), "judge": set(), "verify": set(), "plan": set(),
    "config": {"pydantic", "yaml"}, "measure": {"requests", "pynvml"}, "publish": {"pyarrow", "pandas", "jinja2", "markupsafe", "cryptography"}, "cli": {"rich"},
}  # fmt: skip
OURS: dict[str, set[str]] = {
    "records": set(), "config": {"records"}, "judge": {"records"}, "plan": {"records", "config"},
    "measure": {"records", "config", "plan", "judge"}, "publish": {"records", "config", "plan", "judge"}, "verify": set(),
}  # fmt: skip
EFFECTS = {"socket", "subprocess", "random", "time", "requests", "secrets", "uuid", "datetime"}


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports; a relative import as "."."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." if node.level else str(node.module)


def rooms(src: Path) -> Iterator[tuple[Path, str]]:
    """Every file with its room; recipes run in the server's environment and belong to no room."""
    for path in sorted(src.rglob("*.py")):
        parts = path.relative_to(src).parts
        if "recipes" not in parts and parts != ("__init__.py",):
            yield path, parts[0].removesuffix(".py")


def broken(src: Path) -> list[str]:
    """Every import that the order of the rooms forbids."""
    out = []
    for path, room in rooms(src):
        for name in imports(path):
            top, *rest = name.split(".")
            if name == ".":
                bad = True
            elif top == "rungproof":
                bad = room != "cli" and bool(rest) and rest[0] != room and rest[0] not in OURS.get(room, set())
            else:
                bad = top not in sys.stdlib_module_names | ALLOWED.get(room, set()) or (
                    room in ("judge", "records") and top in EFFECTS
                )
            if bad:
                out.append(f"{path.relative_to(src)} imports {name}: not allowed for {room}")
    return out


def test_every_room_keeps_to_its_order() -> None:
    """No room imports one above it or a package it may not have; judge and records have no clock, chance or network."""
    assert broken(SRC) == []
    assert len(list(rooms(SRC))) > 60


FORBIDDEN = {
    "judge imports measure": ("judge/x.py", "from rungproof.measure import client\n"),
    "judge has a clock": ("judge/x.py", "import time\n"),
    "judge uses an outside package": ("judge/x.py", "import scipy\n"),
    "publish imports measure": ("publish/x.py", "from rungproof.measure.store import Folder\n"),
    "plan imports judge": ("plan/x.py", "import rungproof.judge.gates\n"),
    "an unknown room": ("extra/x.py", "import rungproof.records.codec\n"),
    "a relative import": ("plan/x.py", "from . import model\n"),
    "snakemake in the library": ("measure/x.py", "import snakemake\n"),
}


@pytest.mark.parametrize(("name", "text"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_a_forbidden_import_is_found(tmp_path: Path, name: str, text: str) -> None:
    """The rule is seen to fail on each kind of import it forbids."""
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert len(broken(tmp_path)) == 1


def calls(path: Path) -> set[str]:
    """Names of everything a file calls: `open`, `os.kill`, `x.read_bytes`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            found.add(ast.unparse(node.func))
    return found


def test_side_effects_stand_where_they_belong() -> None:
    """judge opens nothing; only serving kills; only the client, the simulated server and the port check of serving use sockets."""
    for path, room in rooms(SRC):
        where = path.relative_to(SRC).as_posix()
        names = calls(path)
        if room == "judge":
            assert not {
                n
                for n in names
                if n == "open" or n.split(".")[-1] in {"read_bytes", "read_text", "write_bytes", "write_text"}
            }, where
        if not where.startswith("measure/serving/"):
            assert not names & {"os.kill", "os.killpg", "signal.pidfd_send_signal"}, where
        if "socket" in set(imports(path)):
            assert where.startswith(("measure/client/", "measure/simulated/", "measure/serving/")), where


def test_files_and_scripts_stay_small() -> None:
    """No file of the library passes 400 lines, but verify.py, which a stranger gets as one file (docs/decisions/0019); a workflow
    script unpacks, calls and is done: at most 18 lines, no function."""
    for path, _ in rooms(SRC):
        most = 680 if path == SRC / "verify.py" else 400
        assert len(path.read_text(encoding="utf-8").splitlines()) <= most, path
    scripts = list((ROOT / "workflow/scripts").glob("*.py"))
    assert len(scripts) > 10
    for path in scripts:
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 18, path
        assert not any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in ast.walk(ast.parse(text))), path


def test_everything_public_has_a_docstring() -> None:
    """Every public module, class and function of the library says what it is."""
    without = []
    for path, _ in rooms(SRC):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if not ast.get_docstring(tree):
            without.append(str(path))
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        for node in [*tree.body, *(inner for one in classes if not one.name.startswith("_") for inner in one.body)]:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith(
                "_"
            ):
                without += [] if ast.get_docstring(node) else [f"{path.relative_to(SRC)}: {node.name}"]
    assert without == []


def test_the_public_address_of_torch_stands_in_one_file() -> None:
    """The address of PyTorch's CPU wheels is written in one file of envs/, and no other index anywhere."""
    holders = [
        p.relative_to(ROOT).as_posix()
        for folder in ("envs", "src", "workflow", "config", "profiles")
        for p in (ROOT / folder).rglob("*")
        if p.is_file()
        and p.suffix in {".txt", ".py", ".lock", ".in", ".yaml", ".smk", ".md"}
        and "download.pytorch.org" in p.read_text(encoding="utf-8")
    ]
    assert holders == ["envs/torch-cpu-index.txt"]
