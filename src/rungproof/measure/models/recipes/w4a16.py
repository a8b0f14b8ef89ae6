"""A checkpoint with 4-bit weights and 16-bit activations, made by rounding another one.

Every `*_proj.weight` is rounded to symmetric int4 in groups of 64 along the input and stored the way compressed-tensors
calls `pack-quantized`; embeddings, norms and the output layer stay as they are.
Run by the server environment's Python, never imported: `python -I w4a16.py --source FOLDER --to FOLDER`.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

BITS, GROUP = 4, 64
NIBBLES = 8  # in one int32, the lowest first
QUANTISATION = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "quantization_status": "compressed",
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": BITS, "type": "int", "symmetric": True, "strategy": "group", "group_size": GROUP},
        }
    },
    "ignore": ["lm_head"],
}


def pack(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(packed int32 [out, in/8], scale bfloat16 [out, in/64]) of a weight [out, in]."""
    rows, columns = weight.shape
    groups = weight.float().reshape(rows, columns // GROUP, GROUP)
    scale = (groups.abs().amax(dim=2) / 7).clamp(min=1e-8).to(torch.bfloat16)
    rounded = (groups / scale.float().unsqueeze(2)).round().clamp(-8, 7).to(torch.int64).reshape(rows, columns) + 8
    nibbles = rounded.reshape(rows, columns // NIBBLES, NIBBLES) << (4 * torch.arange(NIBBLES))
    packed = nibbles.sum(dim=2)
    packed = torch.where(packed >= 2**31, packed - 2**32, packed).to(torch.int32)
    return packed.contiguous(), scale.contiguous()


def quantise(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors of the new checkpoint."""
    made = {}
    for name in sorted(tensors):
        weight = tensors[name]
        if not name.endswith("_proj.weight"):
            made[name] = weight
            continue
        if weight.shape[1] % GROUP:
            sys.exit(f"{name}: {weight.shape[1]} inputs; expected a multiple of {GROUP}")
        stem = name.removesuffix("weight")
        made[stem + "weight_packed"], made[stem + "weight_scale"] = pack(weight)
        made[stem + "weight_shape"] = torch.tensor(weight.shape, dtype=torch.int64)
    if len(made) == len(tensors):
        sys.exit("the source has no *_proj.weight; expected a Llama-shaped checkpoint")
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True)
    asked = parser.parse_args()
    asked.to.mkdir(exist_ok=True)
    save_file(quantise(load_file(asked.source / "model.safetensors")), asked.to / "model.safetensors", {"format": "pt"})
    config = json.loads((asked.source / "config.json").read_text())
    config["quantization_config"] = QUANTISATION
    (asked.to / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    for path in sorted(asked.source.iterdir()):
        if path.is_file() and path.name not in {"model.safetensors", "config.json", "manifest.json"}:
            shutil.copyfile(path, asked.to / path.name)


if __name__ == "__main__":
    main()
