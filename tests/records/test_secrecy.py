"""Secrets in free text are taken out, and what only looks a little like one stays."""

import pytest

from rungproof.records.secrecy import OUT, hidden

SECRETS = {
    "a hub's token": ("loading with hf_abcdefghijklmnopqrstuvwx now", "hf_abcdefghijklmnopqrstuvwx"),
    "a variable": ("HF_TOKEN=Abc123!x more", "Abc123!x"),
    "a variable in a dump": ("{'AWS_SECRET_ACCESS_KEY': 'wJalrXUtnFEMI/K7MDENG', 'A': '1'}", "wJalrXUtnFEMI/K7MDENG"),
    "an argument": ("--api-key sesame-open --port 1", "sesame-open"),
    "an argument of a repr": ("non-default args: {'api_key': ['open-sesame'], 'port': 1}", "open-sesame"),
    "a header": ("Authorization: Bearer abcdefgh12345678", "abcdefgh12345678"),
    "a user in a URL": ("pulling https://me:hunter2@example.org/x", "me:hunter2"),
    "a web token": ("got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig here", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig"),
    "a private key": ("x\n-----BEGIN PRIVATE KEY-----\nMC4CAQAw\n-----END PRIVATE KEY-----\ny", "MC4CAQAw"),
    "a key id of a cloud": ("id AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
}


@pytest.mark.parametrize(("text", "secret"), SECRETS.values(), ids=SECRETS)
def test_secrets_are_taken_out(text: str, secret: str) -> None:
    """Only the secret goes; what stands around it stays."""
    assert hidden(text) == text.replace(secret, OUT)


PLAIN = (
    "max_num_batched_tokens=8192, max_tokens: 128, prompt_token_ids=[1, 2]",
    "sha256 dcd2e4ca9b3fd6d9d1fe70319826974f337bd329960ac477d349389c970e05f3",
    "INFO 11-30 17:21:46 [model.py:733] Resolved architecture: LlamaForCausalLM",
    "GET http://127.0.0.1:41255/metrics tokenizer_mode=auto, skip_tokenizer_init=False",
    "risk-free disk-cache mask-rcnn",
)


@pytest.mark.parametrize("text", PLAIN)
def test_ordinary_lines_stay(text: str) -> None:
    """Token counts, digests and addresses are no secrets."""
    assert hidden(text) == text


@pytest.mark.parametrize(
    "piece",
    [
        "ey-",
        "eyeyeyeyeyey.",
        "://",
        "KEY ",
        "TOKEN",
        "A-",
        "api key ",
        "password  ",
        "-----BEGIN PRIVATE KEY-----",
        "bearer ",
    ],
)
def test_a_hostile_log_takes_no_longer_than_an_ordinary_one(piece: str) -> None:
    """Half a megabyte of what each pattern begins with: the time does not grow with the square of the length."""
    assert len(hidden(piece * (512 * 1024 // len(piece)))) > 0
