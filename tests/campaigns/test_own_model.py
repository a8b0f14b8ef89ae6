"""A campaign whose model and environment are the user's own."""

from collections.abc import Callable
from pathlib import Path

import yaml

from campaigns.checkout import LADDER, Checkout
from measure.given_folders import checkpoint, virtual_environment
from rungproof.cli import main


def test_a_campaign_starts_nothing_before_it_has_all_that_was_described(
    checkout: Callable[..., Checkout], tmp_path: Path
) -> None:
    """Told at once, not when the third server wants it; once it is shown, the call makes nothing of it and goes on."""
    one = checkout()
    weights = checkpoint(tmp_path / "My-Model-int4")
    venv = virtual_environment(tmp_path / "venv", "vllm")
    lane = yaml.safe_load((one.folder / "config/lanes/smollm2-bf16.yaml").read_text())
    (one.folder / "config/lanes/mine.yaml").write_text(yaml.safe_dump(lane | {"model": "mine", "environment": "own"}))
    campaign = {**LADDER, "host": "cpu", "arms": {"base": {"title": "b", "lane": "mine"}}}
    (one.folder / "config/campaigns/mine.yaml").write_text(yaml.safe_dump(campaign))
    root = ["--root", str(one.folder)]
    assert main(["model", "add", "mine", str(weights), "--licence", "MIT", "--quantisation", "int4", *root]) == 0
    assert main(["env", "add", "own", str(venv), *root]) == 0
    call = one.run("mine", "-n")
    assert call.returncode == 0, call.stdout[-3000:]
    assert "server_start" in call.stdout
    assert (
        "rule checkpoint_files" not in call.stdout
    )  # an environment that was shown later is no reason to read 30 GB again
    (link,) = (one.folder / "build/models").glob("mine-*[0-9a-f]")
    ready = link.with_name(f"{link.name}.ready")
    again = ready.read_bytes()
    ready.unlink()
    call = one.run("mine", "--cores", "1")
    assert call.returncode == 2
    assert "nothing was started" in call.stdout
    assert "rungproof model add mine FOLDER" in call.stdout
    assert not (one.study("mine") / "sessions").exists()
    ready.write_bytes(again)
    call = one.run(f"build/models/{ready.name}", "--forcerun", "checkpoint_files", "--cores", "1")
    assert call.returncode == 0, call.stdout[-3000:]
    assert ready.read_bytes() == again
    (weights / "model.safetensors").write_text("other")
    call = one.run(f"build/models/{ready.name}", "--forcerun", "checkpoint_files", "--cores", "1")
    assert call.returncode != 0
    assert "model.safetensors: found" in call.stdout
