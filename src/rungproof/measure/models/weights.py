"""What the weights of a checkpoint hold, from the headers of their files: how much a token must compute and read with them.

Format of a safetensors file: 8 bytes, the length of the header [bytes, little endian]; the header, a JSON object of tensors with
dtype, shape and offsets. Nothing else of the file is read.
"""

import struct
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from rungproof.records.codec import load_json
from rungproof.records.errors import EvidenceError

LONGEST = 100 * 2**20  # bytes of a header, as the format itself limits it
EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "word_embeddings.weight")
HEADS = ("lm_head.weight", "output.weight", "embed_out.weight")
PACKED = ("weight_packed", "qweight")  # several small integers in each of 32 bits


def tensors_of(model: Path) -> dict[str, int]:
    """`matmul_parameters` and `matmul_bytes` of the matrices that every token passes; {} where there is no safetensors file.

    Never more than is true, since a ceiling is made from it: rows that are looked up (embeddings), experts that only some tokens
    pass, and scales do not count; embeddings that also serve as the output head do. Raises EvidenceError for a damaged header.
    """
    files = [
        path for path in sorted(model.glob("*.safetensors")) if not path.name.startswith(".")
    ]  # hidden: no part of a model
    tensors = {name: of for path in files for name, of in _header(path)}
    if not tensors:
        return {}
    own_head = any(name.endswith(HEADS) for name in tensors)
    packed = _values_of_a_word(model)
    parameters = size = 0
    for name, (shape, length) in tensors.items():
        if len(shape) < 2 or ".experts." in name or (own_head and name.endswith(EMBEDDINGS)):
            continue
        if name.endswith(("scale", "scales", "zeros", "zero_point")):
            continue
        parameters += prod(shape) * (packed if name.endswith(PACKED) else 1)
        size += length
    return {"matmul_parameters": parameters, "matmul_bytes": size}


def _header(path: Path) -> Iterator[tuple[str, tuple[list[int], int]]]:
    """Name, shape and bytes of each tensor."""
    with path.open("rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not 0 < length <= LONGEST:
            raise EvidenceError(f"{path}: a header of {length} bytes; expected a safetensors file")
        held = load_json(file.read(length), str(path))
    try:
        for name, of in held.items():
            if name != "__metadata__":
                yield (
                    name,
                    ([int(size) for size in of["shape"]], int(of["data_offsets"][1]) - int(of["data_offsets"][0])),
                )
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise EvidenceError(
            f"{path}: its header lists no tensors with shape and offsets; expected a safetensors file"
        ) from error


def _values_of_a_word(model: Path) -> int:
    """How many weights a packed word of 32 bits holds, by the checkpoint's configuration; 1 where it does not say."""
    path = model / "config.json"
    config: Any = load_json(path.read_bytes(), str(path)) if path.is_file() else {}
    found = _bits(config.get("quantization_config") if isinstance(config, dict) else None)
    return 32 // found if found in (2, 4, 8) else 1


def _bits(value: Any) -> int | None:
    if isinstance(value, dict):
        own = next((value[key] for key in ("num_bits", "bits") if type(value.get(key)) is int), None)
        return own or next((bits for part in value.values() if (bits := _bits(part))), None)
    return None
