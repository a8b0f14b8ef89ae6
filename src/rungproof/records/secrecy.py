"""What looks like a secret, by the name of its variable or by itself: kept out of every record and pack."""

import re

NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|CRED|AUTH|COOKIE|SIGNATURE|BEARER|PRIVATE|SESSION", re.IGNORECASE)
# A value that looks like a secret is one, whatever its name: long and without a break, or of a known beginning.
VALUE = re.compile(
    r"^(hf_|sk-|ghp_|gho_|github_pat_|glpat-|xox[a-z]-|AKIA|ASIA|ey[A-Za-z0-9_-]{10,}\.)|[A-Za-z0-9+=_-]{32,}|://[^/\s]*@"
)
OUT = "[left out]"
# Secrets in free text. The first group of each stays.
_TEXT = (
    re.compile(
        r"()(?<![A-Za-z0-9_-])(?:(?:hf_|sk-|ghp_|gho_|github_pat_|glpat-|xox[a-z]-)[A-Za-z0-9_-]{8,}|(?:AKIA|ASIA)[A-Z0-9]{12,})"
    ),
    re.compile(r"()(?<![A-Za-z0-9_-])ey[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?"),
    re.compile(r"(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE),
    re.compile(r"(://)[^/\s@]+(?=@)"),
    re.compile(
        r"(\b[A-Z0-9_]*(?:TOKEN|SECRET|PASSWORD|PASSPHRASE|KEY|CREDENTIALS?|COOKIE)[\"']?\s*[=:]\s*[\"']?)(?!\[?left out)[^\s\"',}\]]+"
    ),
    re.compile(
        r"((?:api|access|private|secret)[_-]?key[\"']?(?:\s*[=:]|\s)\s*[\"'\[]*|(?:password|passwd|passphrase|secret|(?:hf|auth|access)[_-]token)"
        r"[\"']?\s*[=:]\s*[\"'\[]*)(?!\[?left out)[^\s\"',}\]]+",
        re.IGNORECASE,
    ),
    re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----\n?)[\s\S]*?(?=\n?-----END|\Z)"),
)


def hidden(text: str) -> str:
    """Free text, such as a server's log, with what looks like a secret taken out. It guesses: a log is no place for secrets."""
    for pattern in _TEXT:
        text = pattern.sub(lambda found: (found[1] or "") + OUT, text)
    return text
