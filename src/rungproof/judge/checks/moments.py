"""Moments as records write them (UTC, ISO 8601) as seconds, so that they can be compared. Pure: no clock is read."""

import calendar
import re

_UTC = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(\.\d{1,9})?(?:Z|\+00:00)")


def seconds(text: str) -> float | None:
    """Seconds since 1970 of a UTC moment; None for any other text."""
    found = _UTC.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61):
        return None
    whole = calendar.timegm((year, month, day, hour, minute, second))
    return whole + float(found[7] or 0)
