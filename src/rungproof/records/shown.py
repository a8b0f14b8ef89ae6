"""How a number is written for people: one rounding for pages, tables in the terminal, and whoever checks a page against its records.

Every form is a pure function of the full value, so a checker that knows the value and the form knows the text.
"""

import math


def shown(value: float, form: str = "") -> str:
    """The text of a number in one of its forms.

    `""`: a measured value, one decimal from 100 up, two below, three significant digits below 0.1; an int in plain digits.
    `whole`: a count, grouped by three digits from 10 000 up. `percent`: a share from 0 to 1 in per cent, rounded down;
    `percent-up`: rounded up.
    `ratio`: three decimals. `position`: an index from 0 as a position counted from 1. Raises ValueError for any other form.
    """
    if form == "":
        return str(value) if isinstance(value, int) else _measured(value)
    if form not in FORMS:
        raise ValueError(f"found the form {form!r}; expected one of {', '.join(map(repr, FORMS))}, or none")
    return FORMS[form](value)


def _measured(value: float) -> str:
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if size >= 100:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.1 or size == 0 else f"{value:.3g}"


def whole(value: float) -> str:
    """A count, such as users or prompt tokens, in groups of three digits from 10 000 up; other numbers as they are."""
    if value != int(value):
        return f"{value:g}"
    return f"{int(value):,}".replace(",", "\u202f") if abs(value) >= 10_000 else str(int(value))


def percent_down(share: float) -> str:
    """A share as per cent with one decimal, rounded down so that a lower bound is never overstated."""
    return f"{math.floor(share * 1000 + 1e-9) / 10:.1f}\u00a0%"


def percent_up(share: float) -> str:
    """A share as per cent with one decimal, rounded up so that an upper bound is never understated."""
    return f"{math.ceil(share * 1000 - 1e-9) / 10:.1f}\u00a0%"


def ratio(value: float) -> str:
    """How many times one thing is another, with three decimals."""
    return f"{value:.3f}"


def position(index: float) -> str:
    """An index that begins at 0, as people count."""
    return str(int(index) + 1)


FORMS = {"whole": whole, "percent": percent_down, "percent-up": percent_up, "ratio": ratio, "position": position}
