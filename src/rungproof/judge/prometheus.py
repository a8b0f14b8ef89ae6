"""The Prometheus text format (exposition format 0.0.4), as far as counters need it."""

import math
import re
from collections.abc import Iterator

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_LABEL = rf"\s*[a-zA-Z_][a-zA-Z0-9_]*\s*=\s*{_QUOTED}\s*"
_LABELS = rf"\{{({_LABEL}(?:,{_LABEL})*(?:,\s*)?|\s*)\}}"
_SAMPLE = re.compile(rf"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:{_LABELS})?\s*([0-9a-zA-Z.+-]+)(?:\s+-?[0-9.]+)?\s*(?:#.*)?")


def counters(text: str) -> dict[str, float]:
    """Value of each name, summed over all of its label sets; lines that are no sample are skipped."""
    made: dict[str, float] = {}
    for name, _, value in _samples(text):
        made[name] = made.get(name, 0.0) + value
    return made


def labelled(text: str, name: str) -> dict[str, float]:
    """Value of each label set of one name, by the label set as it is written ("" for none)."""
    return {labels: value for found, labels, value in _samples(text) if found == name}


def delta(before: str, after: str, name: str) -> float | None:
    """Growth of a counter between two texts, over all of its label sets.

    None: absent on either side, or any label set shrank or vanished (the server was restarted), which is not 0.
    """
    old, new = labelled(before, name), labelled(after, name)
    if not old or not new or any(labels not in new or new[labels] < value for labels, value in old.items()):
        return None
    return math.fsum(new.values()) - math.fsum(old.values())


def delta_by(before: str, after: str, name: str, label: str) -> dict[str, float | None]:
    """Growth of a counter by the value of one of its labels, over all its other labels (each engine has a set of its own).

    A value is None where its samples are absent before, or any of them shrank or vanished; nothing is ever taken as 0.
    Samples without that label are left out.
    """
    old, new = _by_label(before, name, label), _by_label(after, name, label)
    made: dict[str, float | None] = {}
    for value in {**old, **new}:
        was, now = old.get(value, {}), new.get(value, {})
        sound = was and all(labels in now and now[labels] >= count for labels, count in was.items())
        made[value] = math.fsum(now.values()) - math.fsum(was.values()) if sound else None
    return made


def _by_label(text: str, name: str, label: str) -> dict[str, dict[str, float]]:
    """Label value -> label set as written -> count."""
    wanted = re.compile(rf"(?:^|,)\s*{re.escape(label)}\s*=\s*({_QUOTED})")
    made: dict[str, dict[str, float]] = {}
    for labels, count in labelled(text, name).items():
        match = wanted.search(labels)
        if match is not None:
            made.setdefault(match[1][1:-1], {})[labels] = count
    return made


def _samples(text: str) -> Iterator[tuple[str, str, float]]:
    for line in text.split("\n"):
        match = _SAMPLE.fullmatch(line)
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        if math.isfinite(value):
            yield match[1], (match[2] or "").strip(), value
