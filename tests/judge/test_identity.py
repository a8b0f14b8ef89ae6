"""Identity of complete outputs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungproof.judge.identity import divergence, minority_share

IDS = st.lists(st.integers(0, 3), max_size=12)


@given(IDS, IDS)
def test_divergence_is_the_first_difference(got: list[int], oracle: list[int]) -> None:
    """None means equal and not empty; else all before the index is equal and the index is not."""
    found = divergence("p", "b", got, oracle)
    if found is None:
        assert got
        assert got == oracle
        return
    assert got != oracle or not got
    assert got[: found.index] == oracle[: found.index]
    assert found.got == (got[found.index] if found.index < len(got) else None)
    assert found.oracle == (oracle[found.index] if found.index < len(oracle) else None)
    assert found.got != found.oracle or not (got or oracle)
    assert (found.got_length, found.oracle_length) == (len(got), len(oracle))


@pytest.mark.parametrize(("got", "oracle"), [([], []), ([1], []), ([], [1])])
def test_nothing_is_identical_to_nothing(got: list[int], oracle: list[int]) -> None:
    """Two empty outputs prove nothing and count as a divergence."""
    found = divergence("p", "b", got, oracle)
    assert found is not None
    assert found.index == 0


def test_a_prefix_is_not_identical() -> None:
    """An output that stops early or goes on differs where the shorter one ends."""
    short = divergence("p", "b", (1, 2), (1, 2, 3))
    assert short is not None
    assert (short.index, short.got, short.oracle) == (2, None, 3)
    assert divergence("p", "b", (1, 2, 3), [1, 2, 3]) is None


def test_minority_share() -> None:
    """The share of answers off their own prompt's most common one; empty answers agree with nothing."""
    a, b = (1, 2), (1, 3)
    assert minority_share([[a, a, b], [b, b, b]]) == 1 / 6
    assert minority_share([[a], [b]]) == 0
    assert minority_share([[(), ()]]) == 1
    assert minority_share([[a, (), ()]]) == 2 / 3
    assert minority_share([]) is None
    assert minority_share([[], []]) is None
