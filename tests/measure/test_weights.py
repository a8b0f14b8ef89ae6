"""What a token passes of a checkpoint, from the headers of its files: never more than is true, since a ceiling is made from it."""

import json
import struct
from pathlib import Path

import pytest

from rungproof.measure.models.weights import tensors_of
from rungproof.records.errors import EvidenceError


def save(folder: Path, tensors: dict[str, tuple[str, list[int], int]], config: dict[str, object] | None = None) -> Path:
    """A safetensors file with these tensors (dtype, shape, bytes), all zeros."""
    at, header = 0, {}
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))
    (folder / "config.json").write_text(json.dumps(config or {}))
    return folder


def test_matrices_count_and_looked_up_rows_do_not(tmp_path: Path) -> None:
    """With a head of its own the embedding is only looked up; norms are no matrices; experts are passed by some tokens only."""
    tensors = {
        "model.embed_tokens.weight": ("BF16", [100, 8], 1600),
        "model.norm.weight": ("BF16", [8], 16),
        "model.layers.0.mlp.up_proj.weight": ("BF16", [16, 8], 256),
        "model.layers.0.mlp.experts.3.up_proj.weight": ("BF16", [16, 8], 256),
        "lm_head.weight": ("BF16", [100, 8], 1600),
    }
    assert tensors_of(save(tmp_path, tensors)) == {"matmul_parameters": 928, "matmul_bytes": 1856}
    del tensors["lm_head.weight"]
    assert tensors_of(save(tmp_path, tensors)) == {"matmul_parameters": 928, "matmul_bytes": 1856}


def test_packed_weights_are_counted_as_many_as_they_are(tmp_path: Path) -> None:
    """Eight weights of 4 bits in a word, where the configuration says so; as many words as there are where it does not."""
    tensors = {"a.weight_packed": ("I32", [16, 2], 128), "a.weight_scale": ("BF16", [16, 1], 32)}
    config = {"quantization_config": {"config_groups": {"group_0": {"weights": {"num_bits": 4}}}}}
    assert tensors_of(save(tmp_path, tensors, config)) == {"matmul_parameters": 256, "matmul_bytes": 128}
    assert tensors_of(save(tmp_path, tensors)) == {"matmul_parameters": 32, "matmul_bytes": 128}


def test_no_weights_and_broken_ones(tmp_path: Path) -> None:
    """No safetensors file: nothing is known. A header that cannot be one: an error that names the file."""
    assert tensors_of(tmp_path) == {}
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 16)
    with pytest.raises(EvidenceError, match=r"model\.safetensors"):
        tensors_of(tmp_path)


@pytest.mark.parametrize(
    "header", ["[]", '{"w": 1}', '{"w": {"shape": [1]}}', '{"w": {"shape": ["x"], "data_offsets": [0, 2]}}',
               '{"w": {"shape": [1], "data_offsets": [0]}}'],
)  # fmt: skip
def test_a_header_of_another_form_is_told(tmp_path: Path, header: str) -> None:
    """Files of a user's own may be anything."""
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header.encode())
    with pytest.raises(EvidenceError, match=r"model\.safetensors: its header lists no tensors"):
        tensors_of(tmp_path)


def test_hidden_files_and_an_odd_configuration_are_no_reason_to_stop(tmp_path: Path) -> None:
    """Some file systems get a ._NAME beside each file; it is no part of the model, whose list leaves hidden files out."""
    save(tmp_path, {"a.weight": ("BF16", [16, 8], 256)})
    (tmp_path / "._model.safetensors").write_bytes(b"\xff" * 16)
    (tmp_path / "config.json").write_text("[]")
    assert tensors_of(tmp_path) == {"matmul_parameters": 128, "matmul_bytes": 256}
