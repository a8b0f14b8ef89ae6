"""Captured or not: the rows of a rung against the largest batch that the server captured."""

import pytest

from rungproof.judge.regime import largest_captured_rung, max_captured, regime


@pytest.mark.parametrize(
    ("size", "depth", "concurrency", "wanted"),
    [
        (16, 0, 16, "captured"), (16, 0, 17, "not captured"), (16, 3, 4, "captured"), (16, 3, 5, "not captured"),
        (18, 3, 5, "not captured"), (0, 0, 1, "not captured"), (None, 0, 1, "unknown"),
    ],
)  # fmt: skip
def test_a_rung_is_captured_if_its_rows_fit(size: int | None, depth: int, concurrency: int, wanted: str) -> None:
    """users x (1 + draft depth) rows; nothing captured is not captured; not stated is not known."""
    assert regime(size, depth, concurrency) == wanted
    if size is not None:
        assert (concurrency * (1 + depth) <= size) == (concurrency <= largest_captured_rung(size, depth))


@pytest.mark.parametrize(
    ("stated", "wanted"), [("512", 512), ("0", 0), ("", None), ("-1", None), ("many", None), (None, None)]
)
def test_a_size_is_a_whole_number_or_not_known(stated: object, wanted: int | None) -> None:
    """A server's word on it is text; anything but a whole number is no size."""
    assert max_captured({} if stated is None else {"max_captured": stated}) == wanted
