"""Token ids of texts, by a checkpoint's own tokenizer, without special tokens.

Run by the server environment's Python, never imported. `--texts` is a JSON object: name -> path of a UTF-8 file;
`--to` gets a JSON object: name -> list of ids.
"""

import argparse
import json
from pathlib import Path

from tokenizers import Tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True)
    asked = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(asked.model / "tokenizer.json"))
    made = {}
    for name, path in json.loads(asked.texts.read_text(encoding="utf-8")).items():
        text = Path(path).read_bytes().decode("utf-8")
        made[name] = tokenizer.encode(text, add_special_tokens=False).ids
    asked.to.write_text(json.dumps(made), encoding="utf-8")


if __name__ == "__main__":
    main()
