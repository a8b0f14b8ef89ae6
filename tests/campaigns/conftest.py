"""Fixtures of the whole-campaign tests."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from campaigns.checkout import Checkout, end_all


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Callable[..., Checkout]]:
    """Makes fresh checkouts; nothing of theirs may be running at the end of the test."""
    made: list[Checkout] = []

    def make(**campaigns: dict[str, Any]) -> Checkout:
        one = Checkout(tmp_path / f"checkout{len(made)}", campaigns)
        made.append(one)
        return one

    yield make
    left = [process for one in made for process in one.processes()]
    for one in made:
        end_all(one)
    assert not left, f"still running after the test: {left}"
