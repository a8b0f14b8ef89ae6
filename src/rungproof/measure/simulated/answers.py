"""What the simulated server answers: a deterministic function of the prompt and nothing else.

Vocabulary: the 256 byte values. Text becomes tokens as its UTF-8 bytes. In an answer, the 95 printable ASCII ids and
newline are themselves, and the other ids are drawn as short syllables, so that an answer can be read. Answers to the
few questions known by rule are the UTF-8 bytes of the text, then (where the request ignores the end) syllables.

The tokens come from a chain of keyed BLAKE2b hashes: state_0 = H(prompt ids), state_{k+1} = H(state_k); token k, the
size of the step that begins at token k, its margin and the natural length are read from different bytes of those states.
"""

import codecs
import json
import re
from collections.abc import Sequence
from hashlib import blake2b

SHORTEST_NATURAL = 110  # tokens; a suite that needs 100 tokens before the natural end always gets them
LONGEST_NATURAL = 4 * SHORTEST_NATURAL
_KEY = b"rungproof simulated server"


def _texts() -> dict[int, str]:
    plain = {code: chr(code) for code in (10, *range(32, 127))}
    syllables = [lead + first + vowel for lead in (" ", "") for first in "bdfgklmnprstvwzhj" for vowel in "aeiou"]
    others = [code for code in range(256) if code not in plain]
    return plain | dict(zip(others, syllables, strict=False))


TEXTS = _texts()  # id -> its text, for all 256 ids
SYLLABLES = tuple(code for code in range(256) if len(TEXTS[code]) > 1)


def tokenise(text: str) -> tuple[int, ...]:
    """The ids of a text: its UTF-8 bytes. Raises UnicodeEncodeError for lone surrogates."""
    return tuple(text.encode("utf-8"))


def text_of(ids: Sequence[int]) -> str:
    """A prompt given as ids, read as UTF-8 for the rules and for matching; ids that are no bytes read as U+FFFD."""
    if all(code < 256 for code in ids):
        return bytes(ids).decode("utf-8", "replace")
    return "".join(chr(code) if code < 128 else "�" for code in ids)


def known_answer(prompt: str) -> str | None:
    """The answer of the last question in `prompt` that the server knows by rule, or None.

    `What is A plus B?` gives the sum, `Repeat exactly: <sentence>` the sentence up to the end of its line or a
    chat marker `<|`, and a request for JSON a fixed object. JSON counts as asked for where the prompt speaks of a
    name and an age, or ends with the word, so that a long task which mentions JSON is answered at length.
    """
    found: list[tuple[int, str]] = []
    for match in re.finditer(r"What is (\d{1,18}) plus (\d{1,18})\?", prompt, re.ASCII):
        found.append((match.start(), str(int(match[1]) + int(match[2]))))
    for match in re.finditer(r"Repeat exactly: *([^\n]+)", prompt):
        sentence = match[1].split("<|")[0].strip()
        if sentence:
            found.append((match.start(), sentence))
    asked = [match.start() for match in re.finditer(r"\bJSON\b", prompt)]
    described = re.search(r"\bname\b", prompt) and re.search(r"\bage\b", prompt)
    if asked and (described or len(prompt) - asked[-1] <= 40):
        found.append((asked[-1], json.dumps({"name": "Ada", "age": 36})))
    return max(found)[1] if found else None


class Answer:
    """The true tokens of one prompt, computed as far as they are asked for."""

    def __init__(self, prompt_ids: Sequence[int], prompt: str) -> None:
        self._states = [_hash(",".join(map(str, prompt_ids)).encode())]
        known = known_answer(prompt)
        self.spoken = b"" if known is None else known.encode("utf-8", "replace")
        spread = LONGEST_NATURAL - SHORTEST_NATURAL + 1
        drawn = SHORTEST_NATURAL + int.from_bytes(self._states[0][8:12], "big") % spread
        self.natural_length = len(self.spoken) or drawn

    def token(self, k: int) -> int:
        """The id at position k, counted from 0."""
        if k < len(self.spoken):
            return self.spoken[k]
        return SYLLABLES[int.from_bytes(self._state(k)[:2], "big") % len(SYLLABLES)]

    def flipped(self, k: int) -> int:
        """An id for position k that is never the true one: what a broken server says there."""
        true = self.token(k)
        start = int.from_bytes(self._state(k)[2:4], "big")
        choices = (SYLLABLES[(start + turn) % len(SYLLABLES)] for turn in (0, 1))
        return next(code for code in choices if code != true)

    def margin(self, k: int, tie: int | None) -> float:
        """How much likelier the token at position k is than the next [nats]: 1/512 at the position `tie`, else 0.25 to 8."""
        return 1 / 512 if k == tie else 0.25 + self._state(k)[5] * 7.75 / 255

    def step_size(self, k: int, depth: int) -> int:
        """How many tokens the step that begins at position k yields: 1 to depth + 1; the prefill (k = 0) yields one."""
        return 1 if k == 0 else 1 + self._state(k)[4] % (depth + 1)

    def _state(self, k: int) -> bytes:
        while len(self._states) <= k + 1:
            self._states.append(_hash(self._states[-1]))
        return self._states[k + 1]


class Writer:
    """From ids to text as they come; a character of several bytes appears with the id that completes it."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def spoken(self, code: int) -> str:
        """The text that a byte of a literal answer adds; "" inside a character."""
        return self._decoder.decode(bytes([code]))

    def drawn(self, code: int) -> str:
        """The text that a drawn id adds."""
        left = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return left + TEXTS[code]


def _hash(data: bytes) -> bytes:
    return blake2b(data, key=_KEY, digest_size=16).digest()
