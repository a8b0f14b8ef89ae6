"""A two-layer Llama shape with random weights and 40,960 positions, with another checkpoint's tokenizer.

It stands for no model: it is there so that a whole grid of context depths runs through a real server in minutes. Every
weight is one byte of SHAKE-256 over the tensor's name, as a signed integer, times a power of two: exact in bfloat16, and
the same file on every machine, whatever its processor and libraries.

The powers are chosen so that greedy answers vary: attention scores have a standard deviation near 5, so a head reads few
positions of a long context and not their average; attention adds a fifth to what the embedding and the MLPs say, so a token
often, but not always, has the same successor. The rows of 128 words in the output layer are four times as long, which makes
words come back. Answers then neither stand still nor never repeat, and n-gram drafts are sometimes right.
Run by the server environment's Python, never imported: `python -I tiny_llama.py --source FOLDER --to FOLDER`.
"""

import argparse
import hashlib
import json
import math
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD, MLP, POSITIONS = 256, 2, 4, 2, 64, 512, 40960
COMMON, LONGER = (
    slice(1757, 2781, 8),
    4,
)  # 128 frequent words of SmolLM2's vocabulary, and by how much they are favoured
SEED = "rungproof tiny_llama 1"


def drawn(name: str, shape: tuple[int, ...], halvings: int) -> torch.Tensor:
    """The tensor `name`: whole numbers from -128 to 127, all equally likely, divided by 2**halvings; float32."""
    data = hashlib.shake_256(f"{SEED} {name}".encode()).digest(math.prod(shape))
    return torch.frombuffer(bytearray(data), dtype=torch.int8).reshape(shape).float() / 2**halvings


def tensors(vocabulary: int) -> dict[str, torch.Tensor]:
    """All tensors of the checkpoint, bfloat16."""
    head = drawn("lm_head.weight", (vocabulary, HIDDEN), 11)
    head[COMMON] *= LONGER
    made = {
        "model.embed_tokens.weight": drawn("model.embed_tokens.weight", (vocabulary, HIDDEN), 7),
        "lm_head.weight": head,
    }
    shapes = {
        "self_attn.q_proj": ((HEADS * HEAD, HIDDEN), 9),
        "self_attn.k_proj": ((KV_HEADS * HEAD, HIDDEN), 9),
        "self_attn.v_proj": ((KV_HEADS * HEAD, HIDDEN), 10),
        "self_attn.o_proj": ((HIDDEN, HEADS * HEAD), 12),
        "mlp.gate_proj": ((MLP, HIDDEN), 10),
        "mlp.up_proj": ((MLP, HIDDEN), 10),
        "mlp.down_proj": ((HIDDEN, MLP), 11),
    }
    for layer in range(LAYERS):
        for part, (shape, halvings) in shapes.items():
            name = f"model.layers.{layer}.{part}.weight"
            made[name] = drawn(name, shape, halvings)
        for part in ("input_layernorm", "post_attention_layernorm"):
            made[f"model.layers.{layer}.{part}.weight"] = torch.ones(HIDDEN)
    made["model.norm.weight"] = torch.ones(HIDDEN)
    return {name: tensor.to(torch.bfloat16) for name, tensor in made.items()}


def shaped(config: dict[str, object]) -> dict[str, object]:
    """The source's config.json with this shape; token ids and vocabulary stay the tokenizer's."""
    kept = {key: config[key] for key in ("vocab_size", "bos_token_id", "eos_token_id", "pad_token_id") if key in config}
    return {
        **kept,
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "dtype": "bfloat16",
        "head_dim": HEAD,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "intermediate_size": MLP,
        "max_position_embeddings": POSITIONS,
        "mlp_bias": False,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": KV_HEADS,
        "rms_norm_eps": 1e-05,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
        "tie_word_embeddings": False,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True)
    asked = parser.parse_args()
    asked.to.mkdir(exist_ok=True)
    config = shaped(json.loads((asked.source / "config.json").read_text()))
    save_file(tensors(int(str(config["vocab_size"]))), asked.to / "model.safetensors", {"format": "pt"})
    (asked.to / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        if (asked.source / name).is_file():
            shutil.copyfile(asked.source / name, asked.to / name)


if __name__ == "__main__":
    main()
