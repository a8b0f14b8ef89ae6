"""Folders as people name them."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from campaigns.checkout import LADDER, Checkout


def test_a_python_in_a_folder_with_a_space_and_an_umlaut(checkout: Callable[..., Checkout], tmp_path: Path) -> None:
    """`.venv` of a checkout under such a name: Snakemake's own jobs find their interpreter, and the page is made."""
    one = checkout(mini=LADDER)
    place = tmp_path / "mit Leerzeichen, ünd Ümlaut"
    place.mkdir()
    (place / "venv").symlink_to(sys.prefix)
    python = place / "venv" / Path(sys.executable).relative_to(sys.prefix)
    call = subprocess.run(
        [str(python), "-m", "snakemake", "mini", "--cores", "1"], cwd=one.folder, env=one.environment, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert call.returncode == 0, (call.stdout + call.stderr)[-3000:]
    assert (one.study("mini") / "page/index.html").exists()
