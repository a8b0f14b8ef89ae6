"""How far each emitted token is from the likeliest one, by the checkpoint itself on a processor: prompt and output in one pass.

Run by the server environment's Python, never imported: `python -I teacher_force.py --model FOLDER --dtype float32 --samples FILE
--to FILE`. `--samples`: a JSON list of {"id", "prompt": text or token ids, "token_ids"}; `--to` gets a JSON object: id ->
{"prompt_tokens", "gaps", "best"}, where gap i = largest logit - logit of token i [logits], 0 for the likeliest, and best i is the
likeliest token. Nothing is generated, so no engine's own choice comes in; rounding differs from the engine's, and so a token that the
engine chose of two almost equal ones may have a small gap. Weights of `pack-quantized` checkpoints (compressed-tensors: symmetric
int4 in groups, eight to an int32, the lowest first, 8 added) are unpacked here, by shape and scale as the file has them.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForCausalLM

NIBBLES, OFFSET = 8, 8


def unpack(packed: torch.Tensor, scale: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
    """The weight [out, in] in float32 of packed int32 [out, in/8] and scale [out, groups]."""
    nibbles = (packed.to(torch.int64).unsqueeze(2) >> (4 * torch.arange(NIBBLES))) & 15
    whole = (nibbles.reshape(packed.shape[0], -1)[:, : shape[1]] - OFFSET).float()
    return whole * scale.float().repeat_interleave(shape[1] // scale.shape[1], dim=1)


def weights(model: Path) -> dict[str, torch.Tensor]:
    """All tensors of a checkpoint by name, packed ones unpacked. Ends the script for a packing that it does not know."""
    held: dict[str, torch.Tensor] = {}
    for path in sorted(model.glob("*.safetensors")):
        held |= load_file(path)
    config = json.loads((model / "config.json").read_text()).get("quantization_config")
    if config is None:
        return held
    groups = config.get("config_groups", {}).values()
    plain = all(g["weights"].get("symmetric") and g["weights"].get("num_bits") == 4 for g in groups)
    if config.get("format") != "pack-quantized" or not plain:
        sys.exit(f"{model}: quantised as {config.get('format')}; this script unpacks symmetric int4 of pack-quantized")
    made = {}
    for name, tensor in held.items():
        stem, _, kind = name.rpartition("_")
        if kind == "packed":
            rows, columns = (int(n) for n in held[f"{stem}_shape"])
            made[stem] = unpack(tensor, held[f"{stem}_scale"], (rows, columns))
        elif f"{stem}_packed" not in held:
            made[name] = tensor
    return made


def load(model: Path, dtype: torch.dtype) -> torch.nn.Module:
    """The model with these weights in `dtype`. Ends the script where a weight is missing or left over, and for files of another kind."""
    if not any(model.glob("*.safetensors")):
        sys.exit(f"{model}: holds no *.safetensors; weights in other files (as GGUF) cannot be put through here")
    config = AutoConfig.from_pretrained(model, local_files_only=True)
    for name in ("quantization_config", "compression_config"):
        if hasattr(config, name):
            delattr(config, name)
    made = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    lacks, more = made.load_state_dict({k: v.to(dtype) for k, v in weights(model).items()}, strict=False)
    tied = {"lm_head.weight"} if config.tie_word_embeddings else set()
    if set(lacks) - tied or more:
        sys.exit(f"{model}: weights missing {sorted(set(lacks) - tied)[:3]}, left over {sorted(more)[:3]}")
    made.tie_weights()
    return made.eval()


def score(model: torch.nn.Module, prompt: list[int], ids: list[int]) -> tuple[list[float], list[int]]:
    """(gaps, likeliest tokens), one a token of `ids` after `prompt`."""
    with torch.inference_mode():
        logits = model(torch.tensor([prompt + ids[:-1]]), logits_to_keep=len(ids), use_cache=False).logits[0].float()
    best = logits.max(dim=1)
    gaps = best.values - logits.gather(1, torch.tensor(ids).unsqueeze(1)).squeeze(1)
    return [float(g) for g in gaps], [int(i) for i in best.indices]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    parser.add_argument("--samples", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True)
    asked = parser.parse_args()
    torch.manual_seed(0)
    model = load(asked.model, getattr(torch, asked.dtype))
    tokenizer = Tokenizer.from_file(str(asked.model / "tokenizer.json"))
    made: dict[str, Any] = {}
    samples = json.loads(asked.samples.read_text(encoding="utf-8"))
    for number, sample in enumerate(samples, start=1):
        prompt = sample["prompt"]
        ids = tokenizer.encode(prompt).ids if isinstance(prompt, str) else prompt
        gaps, best = score(model, ids, sample["token_ids"])
        made[sample["id"]] = {"prompt_tokens": len(ids), "gaps": gaps, "best": best}
        print(f"{number}/{len(samples)}", flush=True)
    asked.to.write_text(json.dumps(made), encoding="utf-8")


if __name__ == "__main__":
    main()
