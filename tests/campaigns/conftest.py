"""Fixtures of the whole-campaign tests."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from campaigns.checkout import MINI, Checkout, end_all, left_over
from rungproof.publish.pack import Pack, build
from rungproof.publish.signing import Signer, find_signer


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Callable[..., Checkout]]:
    """Makes fresh checkouts; nothing of theirs may be running at the end of the test."""
    made: list[Checkout] = []

    def make(**campaigns: dict[str, Any]) -> Checkout:
        one = Checkout(tmp_path / f"checkout{len(made)}", campaigns)
        made.append(one)
        return one

    yield make
    left = [process for one in made for process in left_over(one)]
    for one in made:
        end_all(one)
    assert not left, f"still running after the test: {left}"


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout with one finished campaign, `mini`, that has a withheld rung in each arm, and in terminal.txt what the call said.
    Read only: copy what is to be changed."""
    one = Checkout(tmp_path_factory.mktemp("measured") / "checkout", {"mini": MINI})
    one.set_faults({"do": "flip", "match": {"concurrent": 4}, "after_tokens": 20})
    one.environment.pop("TERM", None)
    call = one.run("mini")
    assert call.returncode == 0, call.stdout[-3000:]
    (one.folder / "terminal.txt").write_text(call.stdout, encoding="utf-8")
    return one


@pytest.fixture(scope="session")
def honest(measured: Checkout) -> Path:
    """The results folder of that campaign."""
    return measured.study("mini")


@pytest.fixture(scope="session")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    """A publisher's key."""
    home = tmp_path_factory.mktemp("key")
    return find_signer(str(home / "key.pem"), home / "checkout", {})[0]


@pytest.fixture(scope="session")
def pack(measured: Checkout, signer: Signer, tmp_path_factory: pytest.TempPathFactory) -> Pack:
    """A signed pack of the shared campaign, alone in its reports. Read only: copy what is to be changed."""
    return build(measured.study("mini"), tmp_path_factory.mktemp("reports"), measured.folder, signer)
