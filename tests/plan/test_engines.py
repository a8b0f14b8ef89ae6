"""What a plan asks of an engine in its own words."""

import shutil
from pathlib import Path

import pytest
import yaml

from plan.test_workloads import root_with
from rungproof.config.load import load
from rungproof.plan.resolve import resolve
from rungproof.records.errors import ConfigError
from rungproof.records.requests import sampling

ROOT = Path(__file__).resolve().parents[2]
LANE = "smollm2-q4_1-llamacpp"


def other_engine(tmp_path: Path, **arm: object) -> Path:
    """A root whose campaign has two arms on llama.cpp; `arm`: keys of the second."""
    root = root_with(
        tmp_path, ladder={"kind": "ladder", "suite": "ladder-v1", "rungs": [1], "passes": 1, "tokens": 32, "window": 16}
    )
    path = root / "config/campaigns/made.yaml"
    campaign = yaml.safe_load(path.read_text())
    sessions = [{"arm": name, "replicate": "a", "workloads": ["ladder"]} for name in ("base", "more")]
    campaign |= {
        "host": "cpu",
        "arms": {"base": {"title": "b", "lane": LANE}, "more": {"title": "m", "lane": LANE, **arm}},
        "sessions": sessions,
    }
    path.write_text(yaml.safe_dump(campaign))
    return root


def test_an_engine_is_asked_for_token_ids_in_its_own_way(tmp_path: Path) -> None:
    """llama.cpp's bodies hold what it needs; vLLM's are as they were, so that no old digest changes."""
    plan = resolve(load(other_engine(tmp_path, arguments={"threads": 1}), "made"), frozenset())
    assert {key: plan.items[0].spec["sampling"][key] for key in ("verbose", "return_tokens")} == {
        "verbose": True,
        "return_tokens": True,
    }
    assert sampling(42, "vllm") == sampling(42, "simulated") == sampling(42)
    assert "verbose" not in sampling(42)


def test_drafts_in_vllm_s_words_are_refused_for_another_engine(tmp_path: Path) -> None:
    """They would be written as an argument that the engine does not have."""
    drafts = {"method": "ngram", "depth": 3, "prompt_lookup_max": 4, "prompt_lookup_min": 2}
    with pytest.raises(ConfigError, match=r"arms\.more\.speculation is written in vLLM's words.*'llama\.cpp'"):
        resolve(load(other_engine(tmp_path, oracle="base", speculation=drafts), "made"), frozenset())


def test_drafts_by_another_method_are_asked_for_in_vllm_s_words(tmp_path: Path) -> None:
    """Method, depth and further keys reach the engine; what was not given is not asked for."""
    root = root_with(
        tmp_path, ladder={"kind": "ladder", "suite": "ladder-v1", "rungs": [1], "passes": 1, "tokens": 32, "window": 16}
    )
    path = root / "config/campaigns/made.yaml"
    campaign = yaml.safe_load(path.read_text())
    campaign["host"] = "cpu"
    drafts = {"method": "mtp", "depth": 2, "arguments": {"disable_padded_drafter_batch": True}}
    campaign["arms"]["draft"]["speculation"] = drafts
    path.write_text(yaml.safe_dump(campaign))
    (draft,) = (
        a
        for a in resolve(load(root, "made"), frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"})).arms
        if a.draft_depth
    )
    assert draft.draft_depth == 2
    asked = {"method": "mtp", "num_speculative_tokens": 2, "disable_padded_drafter_batch": True}
    assert draft.launch["arguments"]["speculative-config"] == asked


@pytest.mark.parametrize("place", ["lane", "host", "base arm"])
@pytest.mark.parametrize("key", ["speculative-config", "speculative_config", "speculative-config.method"])
def test_no_base_arm_of_vllm_speculates(tmp_path: Path, place: str, key: str) -> None:
    """Its tokens are the truth for the arms that do: an argument that turns drafts on is refused wherever it stands."""
    for name in ("config", "envs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    path, keys = {
        "lane": ("lanes/smollm2-w4a16", ["arguments"]),
        "host": ("hosts/cpu", ["arguments", "smollm2-w4a16"]),
        "base arm": ("campaigns/smoke", ["arms", "w4a16", "arguments"]),
    }[place]
    file = tmp_path / f"config/{path}.yaml"
    held = section = yaml.safe_load(file.read_text())
    for one in keys:
        section = section.setdefault(one, {})
    section[key] = {"method": "ngram"}
    file.write_text(yaml.safe_dump(held))
    with pytest.raises(ConfigError, match=rf"{path}\.yaml.*{key}"):
        resolve(load(tmp_path, "smoke"), frozenset())


def test_drafts_of_another_engine_need_an_oracle_without_them(tmp_path: Path) -> None:
    """llama.cpp's own words, in the arm's arguments: refused without an oracle, and with one that drafts itself."""
    with pytest.raises(ConfigError, match=r"arms\.more: speculates by spec-type, so it needs an oracle"):
        resolve(load(other_engine(tmp_path / "one", arguments={"spec-type": "ngram"}), "made"), frozenset())
    root = other_engine(tmp_path / "two", arguments={"spec-type": "ngram"}, oracle="base")
    assert len(resolve(load(root, "made"), frozenset()).arms) == 2
    path = root / "config/campaigns/made.yaml"
    campaign = yaml.safe_load(path.read_text())
    campaign["arms"]["base"]["arguments"] = {"model-draft": "x"}
    path.write_text(yaml.safe_dump(campaign))
    with pytest.raises(ConfigError, match=r"arms\.base: speculates by model-draft, so it needs an oracle"):
        resolve(load(root, "made"), frozenset())
