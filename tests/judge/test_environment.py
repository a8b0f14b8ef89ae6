"""Two environments: which differences count, and that nothing to compare is no pass."""

import pytest

from rungproof.judge.environment import changed, compare, same
from rungproof.records.environment import Fact, Kind


def fact(value: object, kind: Kind = "equal", tolerance: float | None = None) -> Fact:
    return Fact(value, kind, "file", "reader", tolerance)


CASES = {
    "equal": (fact("a"), fact("a"), "equal", True),
    "other text": (fact("a"), fact("b"), "differs", False),
    "true is not 1": (fact(True), fact(1), "differs", False),
    "a list in another order": (fact([1, 2]), fact([2, 1]), "differs", False),
    "known on one side": (fact("a"), fact(None), "missing", False),
    "zero is not missing": (fact(0), fact(None), "missing", False),
    "known on neither": (fact(None), fact(None), "unknown", False),
    "within": (fact(100, "tolerance", 0.05), fact(104, "tolerance", 0.05), "within", True),
    "beyond": (fact(100, "tolerance", 0.05), fact(110, "tolerance", 0.05), "differs", False),
    "a tolerance has numbers": (fact("100", "tolerance", 0.05), fact("101", "tolerance", 0.05), "differs", False),
    "told only": (fact(1, "informative"), fact(2, "informative"), "told", False),
    "the stricter kind counts": (fact(1, "informative"), fact(2), "differs", False),
}  # fmt: skip


@pytest.mark.parametrize(("a", "b", "state", "passes"), CASES.values(), ids=CASES)
def test_a_key_has_one_verdict(a: Fact, b: Fact, state: str, passes: bool) -> None:
    """Both ways round alike; and only a key that was compared and held makes two environments the same."""
    for one, two in ((a, b), (b, a)):
        found = compare({"k": one}, {"k": two})
        assert [c.state for c in found] == [state]
        assert same(found) == passes


def test_a_key_that_one_side_lacks_counts() -> None:
    """An environment of which less is known is not the same one."""
    found = compare({"a": fact(1), "b": fact(2)}, {"a": fact(1)})
    assert [(c.key, c.state) for c in found] == [("a", "equal"), ("b", "missing")]
    assert not same(found)
    assert not same(compare({}, {}))


def test_lists_of_names_are_compared_name_by_name() -> None:
    """One package that differs is named, not the whole list."""
    found = compare({"p": fact({"x": "1", "y": "2"})}, {"p": fact({"x": "1", "z": "3"})})
    assert [(c.key, c.state) for c in found] == [("p.x", "equal"), ("p.y", "missing"), ("p.z", "missing")]


def test_what_changed_during_a_session() -> None:
    """Only what must stay equal counts; what can no longer be read has changed."""
    before = {
        "g": fact("performance"),
        "m": fact(1, "tolerance", 0.0),
        "l": fact(1, "informative"),
        "x": fact("there"),
        "n": fact(None),
    }
    after = {"g": fact("powersave"), "m": fact(2, "tolerance", 0.0), "l": fact(2, "informative"), "n": fact(None)}
    assert [(r.where, r.found, r.expected) for r in changed(before, after)] == [
        ("g", "powersave", "performance"),
        ("x", "nothing", "there"),
    ]
    assert changed(before, before) == ()
