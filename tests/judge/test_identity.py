"""Identity of complete outputs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.plan_kit import ids_of, wrong
from rungproof.judge.identity import Sample, agreement, alignment, divergence, minority_share
from rungproof.records.formats import CopyGroup

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
    assert list(found.got_ids) == got[found.index : found.index + 8]
    assert list(found.oracle_ids) == oracle[found.index : found.index + 8]


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
    assert (short.index, short.got, short.oracle, short.alignment) == (2, None, 3, "end")
    assert divergence("p", "b", (1, 2, 3), [1, 2, 3]) is None


TRUE = list(range(100, 130))
ALIGNED: dict[str, tuple[list[int], str, int, int]] = {
    "one token replaced": ([*TRUE[:10], 7, *TRUE[11:]], "substitution", 19, 19),
    "one token more": ([*TRUE[:10], 7, *TRUE[10:29]], "insertion", 19, 19),
    "one token less": ([*TRUE[:10], *TRUE[11:], 7], "deletion", 19, 19),
    "another way": ([*TRUE[:10], *range(500, 520)], "none", 0, 0),
    "the output had ended": (TRUE[:10], "end", 0, 0),
    "too little left to tell": ([*TRUE[:28], 7, TRUE[29]], "none", 0, 0),
}


@pytest.mark.parametrize(("got", "kind", "equal", "compared"), ALIGNED.values(), ids=ALIGNED)
def test_how_outputs_go_on_after_they_part(got: list[int], kind: str, equal: int, compared: int) -> None:
    """Substitution, insertion, deletion by what agrees again; one side ended; or different ways."""
    index = next(i for i in range(len(got) + 1) if i == len(got) or got[i] != TRUE[i])
    assert alignment(got, TRUE, index) == (kind, equal, compared)


@given(IDS, IDS)
def test_an_alignment_never_claims_more_than_it_compared(got: list[int], oracle: list[int]) -> None:
    """Whatever the outputs: at most all of the compared tokens agree, more than half where a kind is named."""
    shared = min(len(got), len(oracle))
    index = next((i for i in range(shared) if got[i] != oracle[i]), shared)
    kind, equal, compared = alignment(got, oracle, index)
    assert 0 <= equal <= compared
    assert kind in ("none", "end") or 2 * equal > compared >= 4


def test_minority_share() -> None:
    """The share of answers off their own prompt's most common one; empty answers agree with nothing."""
    a, b = (1, 2), (1, 3)
    assert minority_share([[a, a, b], [b, b, b]]) == 1 / 6
    assert minority_share([[a], [b]]) == 0
    assert minority_share([[(), ()]]) == 1
    assert minority_share([[a, (), ()]]) == 2 / 3
    assert minority_share([]) is None
    assert minority_share([[], []]) is None


def samples(**outputs: list[tuple[int, ...]]) -> list[Sample]:
    """For each prompt its outputs: the oracle's first, then one a pass."""
    made = []
    for site, ids in outputs.items():
        made += [
            Sample(site, f"pass-{n}" if n else "oracle-0", one, f"body {site}", n == 0) for n, one in enumerate(ids)
        ]
    return made


def test_bistable_unstable_and_outvoted_prompts_are_told_apart() -> None:
    """Two outputs, three, and an oracle that another output outvotes; a prompt with one output is none of these."""
    true, off, other = ids_of("a"), wrong(ids_of("a")), wrong(ids_of("a"), 10)
    view = agreement(samples(
        a=[true, true, off, true], b=[ids_of("b"), wrong(ids_of("b")), wrong(ids_of("b"), 10), ids_of("b")],
        c=[ids_of("c"), wrong(ids_of("c")), wrong(ids_of("c"))], d=[ids_of("d"), ids_of("d")],
    ))  # fmt: skip
    assert (view.prompts, view.samples) == (4, 13)
    assert view.bistable == ("a", "c")
    assert view.unstable == ("b",)
    assert view.oracle_minority == ("c",)
    assert (view.copies, view.collisions) == ((), ())
    assert other


def test_copies_are_known_by_their_bytes_and_batch() -> None:
    """Byte-identical requests of one batch are one group, with the number of their different outputs; those of two batches are not."""
    one, two = ids_of("a"), wrong(ids_of("a"))
    view = agreement(
        [
            Sample("a", "pass-1", one, "x"),
            Sample("a~2", "pass-1", two, "x"),
            Sample("b", "pass-1", ids_of("b"), "y"),
            Sample("a", "pass-2", one, "x"),
        ]
    )
    assert view.copies == (CopyGroup("pass-1", ("a", "a~2"), 2),)
    assert (view.prompts, view.bistable) == (2, ("a",))


def test_one_output_of_two_prompts_is_a_collision() -> None:
    """It is told with both prompts, once a pair; outputs of one prompt, copies, and outputs of a few different ids are none."""
    a, b = ids_of("a"), ids_of("b")
    view = agreement(
        [
            Sample("a", "oracle-0", a, "x"),
            Sample("b", "oracle-1", b, "y"),
            Sample("b", "pass-1", a, "y"),
            Sample("b", "pass-2", a, "y"),
        ]
    )
    assert [(c.site, c.batch, c.other_site, c.other_batch) for c in view.collisions] == [
        ("b", "pass-1", "a", "oracle-0")
    ]
    assert agreement([Sample("a", "p", a, "x"), Sample("c", "p", a, "x")]).collisions == ()
    same = (5, 5, 6, 5, 7)
    assert agreement([Sample("a", "p", same, "x"), Sample("b", "p", same, "y")]).collisions == ()
