"""rungproof's client on one load, everything stored and judged as in a campaign: raw file, states, counts."""

import argparse
import json
import sys
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

from truth import Answer, plain

from rungproof.judge.outcome import result_of
from rungproof.judge.wire import parse_response
from rungproof.measure.client import Address, Planned, run_batch
from rungproof.records import raw


def main() -> int:
    """Exit code 1 where a request is not complete, or has a reason against it."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("url", "model", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--streams", type=int, required=True)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--processes", type=int)
    options = parser.parse_args()
    parts = urlsplit(options.url)
    body = {
        "model": options.model, "max_tokens": options.tokens, "stream": True, "stream_options": {"include_usage": True},
        "return_token_ids": True, "temperature": 0.0,
    }  # fmt: skip
    planned = [Planned(f"r{i:04d}", {**body, "prompt": [i, 1, 2, 3]}) for i in range(options.streams)]
    batch, requests = run_batch(
        Address(str(parts.hostname), int(parts.port or 80)), planned, batch="bench", path=f"{parts.path}/v1/completions",
        deadline_s=300.0, idle_s=5.0, processes=options.processes,
    )  # fmt: skip
    stored = Path(options.out).with_suffix(".raw.jsonl.gz")
    stored.write_bytes(raw.encode([raw.Header("bench", "", "bench"), batch, *requests]))
    answers, sound = [], True
    for request in requests:
        found = result_of(
            request, window=max(2, options.tokens), tokens=options.tokens, exact_length=True, prompt_tokens=None
        )
        sound = sound and found.state == "complete" and not found.reasons
        data, at, chunks = request.data(), 0, []
        for at_ns, length in request.chunks:
            chunks.append((at_ns, data[at : at + length]))
            at += length
        stamps = [event.at_ns for event in parse_response(chunks).events]
        gaps = [(after - before) / 1e6 for before, after in pairwise(stamps)]
        ttft = None if found.ttft_ns is None else found.ttft_ns / 1e6
        answers.append(Answer(found.state == "complete", ttft, gaps, len(found.token_ids), found.text))
    Path(options.out).write_text(json.dumps(plain(answers)))
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
