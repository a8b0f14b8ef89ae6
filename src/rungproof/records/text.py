"""Text that comes from servers, files and models, made safe for a terminal, a page and a spreadsheet: nothing in it is obeyed."""

import unicodedata

FORMULA_STARTS = "=+-@\uff1d\uff0b\uff0d\uff20"


def clean(text: object) -> str:
    """One line without control characters, escape codes and marks that turn the writing around; line ends become spaces."""
    spaced = str(text).replace("\r\n", " ").translate({10: " ", 13: " ", 9: " ", 0x2028: " ", 0x2029: " "})
    return "".join(char for char in spaced if char.isprintable())


def clean_lines(text: object) -> str:
    """The same for a text of several lines, which stay lines."""
    return "\n".join(clean(line) for line in str(text).split("\n"))


def visible(text: str) -> str:
    """`text` with every character that hides, reorders or cannot be written shown as its code, such as `[U+202E]`.

    Line feeds and tabs stay. Letters of right-to-left scripts stay: only the invisible controls are shown.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(char) for char in text)


def _shown(char: str) -> str:
    never = (ord(char) & 0xFFFE) == 0xFFFE or 0xFDD0 <= ord(char) <= 0xFDEF
    hidden = never or unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    return f"[U+{ord(char):04X}]" if hidden and char not in "\n\t" else char


def shortened(text: str, limit: int) -> str:
    """The first `limit` characters, and how many there are when some were left off."""
    return text if len(text) <= limit else f"{text[:limit].rstrip()}\u2026 ({len(text)} characters)"


def csv_cell(value: object) -> str:
    """One cell: numbers as Python writes them, None empty, text that a spreadsheet would run prefixed by a quote."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    text = visible(str(value))
    runs = text.lstrip()[:1] in tuple(FORMULA_STARTS) or text[:1] in ("\t", "\n")
    return f"'{text}" if runs else text
