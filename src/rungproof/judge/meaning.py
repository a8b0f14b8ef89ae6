"""What the events of an OpenAI-compatible answer mean: completions and chat, streamed or in one document.

Counts tokens by their ids alone: text says nothing about how many tokens it is, and an empty text may be a token.
"""

import json
from dataclasses import dataclass
from typing import Any

from rungproof.judge.sse import Frame

MAX_NOTES = 20  # harmless remarks kept for one answer
MAX_WORDS = 500  # characters kept of an error or a remark
_FAILED_ENDS = frozenset({"error", "abort", "aborted", "cancelled"})
_REASONING = ("reasoning_content", "reasoning")
_CHANNELS = (*_REASONING, "content", "refusal")


@dataclass(frozen=True, slots=True)
class TokensArrived:
    """One event that carried output: its arrival [ns], its token ids (may be empty: text alone), its text.

    reasoning: all of its text came in a reasoning channel.
    """

    at_ns: int
    token_ids: tuple[int, ...]
    text: str
    reasoning: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """The server's own counts [tokens]; None where the server did not say."""

    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None


def sound(text: str) -> str:
    """The same text with lone surrogates replaced: JSON may hold them, files in UTF-8 may not."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def error_text(value: Any) -> str:
    """Words of an error for a person: its message where it has one, else the start of what it is. Never raises."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return sound(str(value)[:MAX_WORDS])
    for _ in range(3):
        if isinstance(value, dict) and isinstance(value.get("error"), (dict, str)) and value["error"]:
            value = value["error"]
    if isinstance(value, dict):
        for name in ("message", "msg", "detail"):
            if isinstance(value.get(name), str) and value[name]:
                value = value[name]
                break
    try:
        return sound((value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))[:MAX_WORDS])
    except (ValueError, RecursionError):
        return "a value that is nested too deep to show"


class Meaning:
    """Collects what the events of one answer say. Methods never raise."""

    def __init__(self) -> None:
        self.events: list[TokensArrived] = []
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.done = False
        self.error: str | None = None
        self.notes: list[str] = []
        self._words: list[str] = []

    def note(self, words: str) -> None:
        """Keep a remark, within a bound."""
        if len(self.notes) < MAX_NOTES:
            self.notes.append(sound(words[:MAX_WORDS]))

    def fail(self, words: str) -> None:
        """Keep the first error."""
        if self.error is None:
            self.error = sound(words[:MAX_WORDS])

    def text(self) -> str:
        """All text so far, in order of arrival."""
        return sound("".join(self._words))

    def frame(self, frame: Frame, at_ns: int) -> None:
        """Take one server-sent event."""
        if not frame.whole:
            self.note("the last event was not ended by a blank line")
        if frame.kind == b"error":
            self.fail(f"event: error: {error_text(frame.data)}")
            return
        data = frame.data.strip()
        if not data:
            return
        if self.done:
            self.fail(f"an event came after [DONE]: {error_text(data)}")
            return
        if data == b"[DONE]":
            self.done = True
            return
        self._json(data, at_ns, cut=not frame.whole, what="event")

    def document(self, body: bytes, at_ns: int, whole: bool) -> None:
        """Take an answer that is one JSON document. `whole`: the framing says that nothing of it is missing."""
        value = self._json(body.strip(b"\xef\xbb\xbf \t\r\n"), at_ns, cut=not whole, what="answer")
        if isinstance(value, dict) and self.error is None:
            self.done = bool(value.get("choices"))
            if not self.done:
                self.fail(f"the answer has no choices: {error_text(value)}")

    def _json(self, data: bytes, at_ns: int, cut: bool, what: str) -> Any:
        try:
            value = json.loads(data.decode("utf-8"))
        except (ValueError, RecursionError):
            words = f"an {what} is not JSON in UTF-8: {error_text(data)}"
            if cut:
                self.note(words)
            else:
                self.fail(words)
            return None
        if isinstance(value, dict):
            self._object(value, at_ns)
        else:
            self.fail(f"an {what} is not a JSON object: {error_text(data)}")
        return value

    def _object(self, value: dict[str, Any], at_ns: int) -> None:
        if value.get("error") not in (None, False, "") or "error" in (value.get("object"), value.get("type")):
            self.fail(error_text(value))
            return
        self._take_usage(value.get("usage"))
        choices = value.get("choices")
        if choices is None or choices == []:
            if "usage" not in value and any(name in value for name in ("message", "msg", "detail", "errors")):
                self.fail(error_text(value))
            elif "usage" not in value and "choices" not in value:
                self.note(f"an event without choices, usage or error: {error_text(value)}")
            return
        if not isinstance(choices, list) or not isinstance(choices[0], dict):
            self.fail(f"found choices {error_text(choices)}; expected a list of objects")
        elif len(choices) > 1 or choices[0].get("index") not in (None, 0):
            self.fail("the answer has several choices; expected one (n = 1)")
        else:
            self._choice(choices[0], value, at_ns)

    def _choice(self, choice: dict[str, Any], event: dict[str, Any], at_ns: int) -> None:
        if choice.get("error") not in (None, False, ""):
            self.fail(error_text(choice))
            return
        ids = _ids_of(choice, event)
        if not isinstance(ids, list) or not all(type(item) is int and item >= 0 for item in ids):
            self.fail(f"found token_ids {error_text(ids)}; expected a list of whole numbers")
            return
        text, reasoning = _text_of(choice)
        if ids or text:
            if self.finish_reason is not None:
                self.note("output came after the finish reason")
            if text and not ids:
                self.note("text came without token ids")
            self._words.append(text)
            self.events.append(TokensArrived(at_ns, tuple(ids), sound(text), reasoning))
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            if reason in _FAILED_ENDS:
                self.fail(f"the server ended this answer with finish_reason {reason}")
            self.finish_reason = sound(reason[:MAX_WORDS])

    def _take_usage(self, value: Any) -> None:
        if not isinstance(value, dict):
            return
        details = value.get("prompt_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, dict) else None
        old = self.usage or Usage(None, None, None)
        self.usage = Usage(
            _count(value.get("prompt_tokens"), old.prompt_tokens),
            _count(value.get("completion_tokens"), old.completion_tokens),
            _count(cached, old.cached_tokens),
        )


def _count(value: Any, old: int | None) -> int | None:
    return value if type(value) is int and value >= 0 else old


def _ids_of(choice: dict[str, Any], event: dict[str, Any]) -> Any:
    """Token ids of an event: vLLM and SGLang give them with the choice; llama.cpp, asked to be verbose, beside it."""
    ids = choice.get("token_ids")
    if ids is None and isinstance(more := event.get("__verbose"), dict):
        ids = more.get("tokens")
    return [] if ids is None else ids


def _text_of(choice: dict[str, Any]) -> tuple[str, bool]:
    """Text of a choice, of whichever shape and channel, and whether all of it is reasoning; a channel that stands there
    twice counts once."""
    if isinstance(choice.get("text"), str):
        return str(choice["text"]), False
    message = choice.get("delta") if isinstance(choice.get("delta"), dict) else choice.get("message")
    if not isinstance(message, dict):
        return "", False
    words = {name: message[name] for name in _CHANNELS if isinstance(message.get(name), str)}
    if words.get("reasoning") == words.get("reasoning_content"):
        words.pop("reasoning", None)
    said = {name for name, text in words.items() if text}
    return "".join(words.values()), bool(said) and said <= set(_REASONING)
