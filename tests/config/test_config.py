"""Configuration: what ships is valid; every mistake is told with its file, key and remedy."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rungproof.config.base import read_yaml, yaml_of_strangers
from rungproof.config.load import campaign_names, load, read_run, refuse_names
from rungproof.config.schemas import SCHEMAS, schema_text
from rungproof.plan.resolve import resolve
from rungproof.records.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
AVX512 = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of config/ and envs/ that a test may break."""
    for name in ("config", "envs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change one YAML file in place."""
    value = yaml.safe_load(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(yaml.safe_dump(value, sort_keys=False), encoding="utf-8")


@pytest.mark.parametrize("host", ["", "simulated"])
@pytest.mark.parametrize("flags", [AVX512, frozenset()], ids=["avx512", "no avx512"])
def test_what_ships_is_valid(host: str, flags: frozenset[str]) -> None:
    """Every campaign resolves on every kind of processor, with at least one gate."""
    names = campaign_names(ROOT)
    assert names == ["campaign_v2", "diagnosis", "smoke"]
    for name in names:
        plan = resolve(load(ROOT, name, host), flags)
        assert plan.gates
        assert len({item.id for item in plan.items}) == len(plan.items)


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_on_disk_are_the_types(name: str) -> None:
    """workflow/schemas/ is what the types say; `make schemas` writes it."""
    assert (ROOT / f"workflow/schemas/{name}.schema.json").read_text(encoding="utf-8") == schema_text(name)


CAMPAIGN = "config/campaigns/campaign_v2.yaml"
MISTAKES: dict[str, tuple[str, Callable[[dict[str, Any]], Any], str]] = {
    "a key of a session is misspelt": (
        CAMPAIGN,
        lambda c: c["sessions"][0].update(replica="a"),
        "sessions.0.replica: unknown key",
    ),
    "a workload's kind is unknown": (
        CAMPAIGN,
        lambda c: c["workloads"]["strict"].update(kind="strikt"),
        "workloads.strict",
    ),
    "an arm's oracle is no arm": (
        CAMPAIGN,
        lambda c: c["arms"]["w4a16-draft3"].update(oracle="w4"),
        "names oracle 'w4'",
    ),
    "an oracle of another lane": (
        CAMPAIGN,
        lambda c: c["arms"]["w4a16-draft3"].update(oracle="bf16"),
        "different lanes",
    ),
    "n-gram drafts without their lengths": (
        CAMPAIGN,
        lambda c: c["arms"]["w4a16-draft3"]["speculation"].pop("prompt_lookup_max"),
        "needs prompt_lookup_max",
    ),
    "n-gram drafts with lengths the wrong way round": (
        CAMPAIGN,
        lambda c: c["arms"]["w4a16-draft3"]["speculation"].update(prompt_lookup_min=9),
        "prompt_lookup_min is larger",
    ),
    "a number that no record holds": (
        CAMPAIGN,
        lambda c: c["arms"]["w4a16-draft3"]["speculation"].update(arguments={"threshold": float("nan")}),
        "nan is not a finite number",
    ),
    "another method with lengths of n-grams": (
        CAMPAIGN,
        lambda c: c["arms"]["w4a16-draft3"]["speculation"].update(method="mtp"),
        "are for ngram, not for mtp",
    ),
    "a draft model that nothing pins": (
        CAMPAIGN,
        lambda c: c["arms"]["w4a16-draft3"]["speculation"].update(arguments={"model": "/drafts/one"}),
        "its files would not be pinned",
    ),
    "a depth of drafts written twice": (
        CAMPAIGN,
        lambda c: c["arms"]["w4a16-draft3"]["speculation"].update(arguments={"num_speculative_tokens": 5}),
        "num_speculative_tokens has a key of its own",
    ),
    "drafts without an oracle": (CAMPAIGN, lambda c: c["arms"]["w4a16-draft3"].pop("oracle"), "needs an oracle"),
    "a session of no arm": (CAMPAIGN, lambda c: c["sessions"][0].update(arm="w8"), "sessions name arm 'w8'"),
    "a session planned twice": (CAMPAIGN, lambda c: c["sessions"].append(c["sessions"][0]), "planned twice"),
    "an arm without a session": (
        CAMPAIGN,
        lambda c: c["arms"].update(more=c["arms"]["bf16"]),
        "arm 'more' has no session",
    ),
    "rungs that do not ascend": (CAMPAIGN, lambda c: c["workloads"]["ladder"].update(rungs=[4, 2]), "must ascend"),
    "more users than prompts": (CAMPAIGN, lambda c: c["workloads"]["ladder"].update(rungs=[1, 5000]), "unique prompts"),
    "a window longer than the answer": (
        CAMPAIGN,
        lambda c: c["workloads"]["depth"].update(window=500),
        "window is longer",
    ),
    "a host that is not there": (CAMPAIGN, lambda c: c.update(host="gpu9"), "hosts/gpu9.yaml: cannot be read"),
    "a suite of another kind": (
        CAMPAIGN,
        lambda c: c["workloads"]["strict"].update(suite="ladder-v1"),
        "ladder-v1.yaml",
    ),
    "prefix caching not turned off": (
        "config/lanes/smollm2-w4a16.yaml",
        lambda c: c["arguments"].pop("enable-prefix-caching"),
        "enable-prefix-caching: false",
    ),
    "a census line that demands nothing": (
        "config/lanes/smollm2-w4a16.yaml",
        lambda c: c["census"].update(kernel={}),
        "census.kernel: found {}; value error, write either `appears` or `absent`",
    ),
    "a census pattern that is none": (
        "config/lanes/smollm2-w4a16.yaml",
        lambda c: c["census"]["kernel"].update(appears="("),
        "no regular expression",
    ),
    "a census value without a group": (
        "config/lanes/smollm2-w4a16.yaml",
        lambda c: c["census"]["kernel"].update(appears="Using"),
        "exactly one",
    ),
    "a container lane without an image": (
        "config/lanes/smollm2-w4a16.yaml",
        lambda c: c.update(launcher="container"),
        "goes with `launcher: container`",
    ),
    "an image that can move": (
        "config/lanes/smollm2-w4a16.yaml",
        lambda c: c.update(launcher="container", container={"image": "vllm/vllm-openai:latest"}),
        "container.image: found 'vllm/vllm-openai:latest'",
    ),
    "a container lane on a host without an engine": (
        "config/lanes/smollm2-w4a16.yaml",
        lambda c: c.update(launcher="container", container={"image": "sha256:" + "ab" * 32}),
        "this host names no engine for it",
    ),
    "a command without a port": (
        "config/lanes/smollm2-w4a16.yaml",
        lambda c: c.update(engine="command", command=["serve", "{name}"]),
        "{port} must stand in it",
    ),
    "a command for an engine that has its own": (
        "config/lanes/smollm2-w4a16.yaml",
        lambda c: c.update(command=["serve", "{name}", "{port}"]),
        "goes with `engine: command`",
    ),
    "a cache that another engine names otherwise": (
        "config/lanes/smollm2-w4a16.yaml",
        lambda c: c.update(engine="sglang"),
        "`disable-radix-cache: true`",
    ),
    "a program for an engine that has none": (
        "config/lanes/smollm2-w4a16.yaml",
        lambda c: c.update(program="x"),
        "llama.cpp alone",
    ),
    "a host changes a kind": (
        "config/hosts/cpu.yaml",
        lambda c: c.update(workloads={"strict": {"kind": "depth"}}),
        "cannot change the kind",
    ),
    "a host's workload key is misspelt": (
        "config/hosts/cpu.yaml",
        lambda c: c.update(workloads={"strict": {"capp": 3}}),
        "capp: unknown key",
    ),
    "a host names no lane": ("config/hosts/cpu.yaml", lambda c: c.update(arguments={"smol": {}}), "no such lane"),
    "a lane's canary is not there": (
        "config/lanes/tiny-32k.yaml",
        lambda c: c.update(canary="canary-v7"),
        "canary-v7.yaml: cannot be read",
    ),
    "a lane's canary is no canary": (
        "config/lanes/tiny-32k.yaml",
        lambda c: c.update(canary="strict-v1"),
        "strict-v1.yaml",
    ),
    "a lane that costs nothing": (
        "config/lanes/tiny-32k.yaml",
        lambda c: c.update(relative_cost=0),
        "relative_cost: found 0",
    ),
    "a model without a beginning": ("config/models/smollm2-135m-bf16.yaml", lambda c: c.pop("lock"), "either `source`"),
    "models in a circle": (
        "config/models/smollm2-135m-w4a16.yaml",
        lambda c: c.update(source="smollm2-135m-w4a16"),
        "go in a circle",
    ),
    "a suite that lies about its id": (
        "config/suites/strict-v1.yaml",
        lambda c: c.update(id="strict-v9"),
        "the file's own name",
    ),
    "a deadline that is no number": (
        "config/hosts/cpu.yaml",
        lambda c: c.update(idle_s="soon"),
        "idle_s: found 'soon'",
    ),
}


@pytest.mark.parametrize(("path", "change", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_with_file_and_remedy(
    root: Path, path: str, change: Callable[[dict[str, Any]], Any], says: str
) -> None:
    """The error names the file and says what is wrong, before anything starts."""
    edit(root / path, change)
    with pytest.raises(ConfigError) as error:
        resolve(load(root, "campaign_v2"), AVX512)
    assert says in str(error.value)
    assert ".yaml" in str(error.value)


def test_a_doubled_key_is_refused(root: Path) -> None:
    """YAML would let the second silently win."""
    path = root / "config/hosts/cpu.yaml"
    path.write_text(path.read_text(encoding="utf-8") + "\nidle_s: 9\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="stands twice"):
        load(root, "campaign_v2")


@pytest.mark.parametrize("text", ["a: 2026-13-45", "a: " + "1" * 5000, "a: " + "[" * 5000, "a: [-.inf]"])
def test_yaml_without_a_value_is_told(tmp_path: Path, text: str) -> None:
    """A day of no calendar, too many digits, brackets without end, a number that is none: an error of ours, from anybody's file."""
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="not valid YAML"):
        read_yaml(path)
    with pytest.raises(ConfigError, match="not valid YAML"):
        yaml_of_strangers(text, "there")


def test_yaml_cannot_make_objects(root: Path) -> None:
    """A tag that would run code is an error."""
    (root / CAMPAIGN).write_text("title: !!python/object/apply:os.system ['true']\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="not valid YAML"):
        load(root, "campaign_v2")


def test_equal_arms_are_refused(root: Path) -> None:
    """Two arms that launch the same server would measure nothing."""
    edit(
        root / CAMPAIGN,
        lambda c: (
            c["arms"].update(twin=c["arms"]["bf16"]),
            c["sessions"].append({"arm": "twin", "replicate": "a", "workloads": ["strict"]}),
        ),
    )
    with pytest.raises(ConfigError, match="exactly the same server"):
        resolve(load(root, "campaign_v2"), AVX512)


def test_names_of_rules_are_refused() -> None:
    """A campaign named like a rule would be two targets of one name."""
    with pytest.raises(ConfigError, match="already that of a rule"):
        refuse_names(["judge", "mine"], ["judge", "accept"])
    refuse_names(["mine"], ["judge"])


def test_an_unknown_key_of_a_call_is_refused() -> None:
    """--config hots=simulated is a mistake, not a silent nothing."""
    with pytest.raises(ConfigError, match="hots"):
        read_run({"hots": "simulated"})


def test_a_text_outside_the_suites_folder_is_refused(root: Path) -> None:
    """A suite cannot pull in files from elsewhere on the machine."""
    edit(root / "config/suites/long-v1.yaml", lambda c: c["texts"][0].update(file="../../../etc/hostname"))
    with pytest.raises(ConfigError, match="lies outside"):
        load(root, "campaign_v2")


def test_a_missing_processor_feature_leaves_the_arm_out_and_says_so() -> None:
    """Without AVX-512 the W4A16 arms are not planned, the float32 arms stand in, and the plan names what is lacking; with it, the other way round."""
    without = resolve(load(ROOT, "campaign_v2"), frozenset({"avx2"}))
    assert [a.name for a in without.arms] == ["f32", "f32-draft3", "bf16", "tiny-32k", "tiny-32k-draft3"]
    assert {u.arm: u.instead for u in without.unavailable} == {"w4a16": "f32", "w4a16-draft3": "f32-draft3"}
    assert all("avx512f" in u.lacks for u in without.unavailable)
    full = resolve(load(ROOT, "campaign_v2"), AVX512)
    assert [a.name for a in full.arms] == ["w4a16", "w4a16-draft3", "bf16", "tiny-32k", "tiny-32k-draft3"]
    assert full.unavailable == ()


def test_no_path_enters_a_digest(root: Path) -> None:
    """The same configuration in another folder is the same plan."""
    from rungproof.plan.resolve import as_text

    assert as_text(resolve(load(root, "campaign_v2"), AVX512)) == as_text(resolve(load(ROOT, "campaign_v2"), AVX512))


def test_a_lane_may_have_a_canary_of_its_own_and_a_host_one_for_all() -> None:
    """The lane's suite goes before the campaign's and the host's before both; a session's order holds the checks of its own."""
    plan = resolve(load(ROOT, "campaign_v2"), AVX512)
    by_arm = {arm.name: arm.canary for arm in plan.arms}
    assert by_arm["w4a16"] == by_arm["bf16"] == "canary-v1"
    assert by_arm["tiny-32k"] == by_arm["tiny-32k-draft3"] == "canary-tiny-v1"
    assert {name: len(canary["checks"]) for name, canary in plan.canaries.items()} == {
        "canary-v1": 4,
        "canary-tiny-v1": 5,
    }
    assert all(canary["suite"] == name and canary["sampling"] for name, canary in plan.canaries.items())
    rows = {row["id"]: row for row in plan.suites}
    assert "random" in rows["canary-tiny-v1"]["weak"]
    assert "weak" not in rows["canary-v1"]
    simulated = resolve(load(ROOT, "campaign_v2", "simulated"), frozenset())
    assert {arm.canary for arm in simulated.arms} == set(simulated.canaries) == {"canary-v1"}
    assert "canary-tiny-v1" not in {row["id"] for row in simulated.suites}


def test_the_reference_grid_is_whole(root: Path) -> None:
    """Six exact depths on two fresh servers of the base and one of the drafts, each compared: 18 texts of the draft arm against its oracle."""
    plan = resolve(load(root, "campaign_v2"), frozenset())
    depths = [2048, 4096, 8192, 16384, 24576, 32768]
    for seat in ("tiny-32k.a", "tiny-32k.b", "tiny-32k-draft3.a"):
        specs = [item.spec for item in plan.items if item.seat == seat]
        assert [spec["depth"] for spec in specs] == depths
        assert {(spec["kind"], spec["tokens"]) for spec in specs} == {("depth", 128)}
    gates = {gate.subject[0]: gate.oracle[0] for gate in plan.gates if gate.subject[0].startswith("tiny")}
    assert gates == {
        f"{seat}/grid/{d}": f"tiny-32k.a/grid/{d}" for seat in ("tiny-32k.b", "tiny-32k-draft3.a") for d in depths
    }
    arguments = plan.arm("tiny-32k").launch["arguments"]
    wanted = {
        "max-model-len": 33024,
        "max-num-seqs": 1,
        "max-num-batched-tokens": 4096,
        "enable-prompt-tokens-details": True,
        "enable-prefix-caching": False,
    }
    assert {key: arguments[key] for key in wanted} == wanted
    assert "quality" in plan.arm("tiny-32k").note
    assert plan.arm("bf16").note == ""


def test_what_a_lane_demands_of_the_log_is_part_of_its_launch(root: Path) -> None:
    """A server that was never asked for its kernel is not taken for one that was; a lane without demands keeps its digest."""
    before = {a.name: a.launch for a in resolve(load(root, "campaign_v2"), AVX512).arms}
    assert before["w4a16"]["census"]["kernel"]["value"] == "CPUWNA16LinearKernel"
    assert before["w4a16-draft3"]["census"] == before["w4a16"]["census"]
    assert "census" not in before["bf16"]
    edit(
        root / CAMPAIGN,
        lambda c: c["arms"]["bf16"].update(
            census={"eager": {"appears": "Enforce eager set"}}, variables={"CLASSPAD": "1"}
        ),
    )
    after = {a.name: a.launch for a in resolve(load(root, "campaign_v2"), AVX512).arms}
    assert after["bf16"]["census"] == {"eager": {"appears": "Enforce eager set"}}
    assert after["bf16"]["variables"] == {**before["bf16"]["variables"], "CLASSPAD": "1"}
    assert after["tiny-32k"] == before["tiny-32k"]
    assert all("census" not in a.launch for a in resolve(load(root, "campaign_v2", "simulated"), AVX512).arms)


def test_a_container_lane_has_a_launch_of_its_own(root: Path) -> None:
    """Its image is part of the launch, so another image is another server; on the simulated host it is a process like any other."""
    before = {a.name: a.launch_sha256 for a in resolve(load(root, "campaign_v2"), AVX512).arms}
    for at, image in enumerate(("ab", "cd")):
        edit(
            root / "config/lanes/smollm2-bf16.yaml",
            lambda c, i=image: c.update(launcher="container", container={"image": f"sha256:{i * 32}"}),
        )
        edit(
            root / "config/hosts/cpu.yaml",
            lambda c: c.update(container={"command": ["podman"], "arguments": ["--runtime", "runc"]}),
        )
        plan = resolve(load(root, "campaign_v2"), AVX512)
        assert plan.arm("bf16").launch["container"]["image"] == f"sha256:{image * 32}"
        assert plan.arm("bf16").launch_sha256 != before["bf16"], at
        before["bf16"] = plan.arm("bf16").launch_sha256
        assert plan.limits["container"] == {"command": ["podman"], "arguments": ["--runtime", "runc"]}
        assert plan.arm("tiny-32k").launch_sha256 == before["tiny-32k"]
    simulated = resolve(load(root, "campaign_v2", "simulated"), AVX512).arm("bf16").launch
    assert (simulated["launcher"], simulated["engine"], simulated.get("container")) == ("process", "simulated", None)


def test_launches_that_ship_keep_their_digests(root: Path) -> None:
    """New keys of lanes and hosts leave the launch of a lane that does not use them as it was, so nothing is measured again for them."""
    for arm in resolve(load(root, "campaign_v2"), AVX512).arms:
        assert set(arm.launch) - {"census"} == {
            "engine", "launcher", "host", "environment", "environment_sha256", "model", "model_sha256", "arguments", "variables",
        }  # fmt: skip
