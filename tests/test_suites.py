"""The suites that rungproof ships: their shape, their sizes, and that nothing in them repeats."""

from collections import Counter
from pathlib import Path

import pytest

from rungproof.config.suites import CanarySuite, LadderSuite, LongSuite, StrictSuite, read_suite

SUITES = Path(__file__).resolve().parents[1] / "config" / "suites"


@pytest.fixture(scope="module")
def strict() -> StrictSuite:
    suite = read_suite(SUITES, "strict-v1", "strict")
    assert isinstance(suite, StrictSuite)
    return suite


@pytest.fixture(scope="module")
def ladder() -> LadderSuite:
    suite = read_suite(SUITES, "ladder-v1", "ladder")
    assert isinstance(suite, LadderSuite)
    return suite


@pytest.fixture(scope="module")
def long() -> LongSuite:
    suite = read_suite(SUITES, "long-v1", "depth")
    assert isinstance(suite, LongSuite)
    return suite


@pytest.fixture(scope="module")
def canary() -> CanarySuite:
    suite = read_suite(SUITES, "canary-v1", "canary")
    assert isinstance(suite, CanarySuite)
    return suite


def test_the_strict_suite_has_twelve_prompts_in_six_classes(strict: StrictSuite) -> None:
    """The headline's class medians rest on exactly these counts."""
    assert Counter(prompt.class_ for prompt in strict.prompts) == {
        "operations": 3, "analysis": 3, "code": 2, "prose": 2, "documentation": 1, "structured-writing": 1,
    }  # fmt: skip
    assert len({prompt.text for prompt in strict.prompts}) == 12


def test_strict_and_ladder_prompts_are_raw_completions_of_small_size(strict: StrictSuite, ladder: LadderSuite) -> None:
    """No chat markers, no space at the end (it would split a token), and no prompt longer than a small context."""
    texts = [prompt.text for prompt in strict.prompts] + ladder.unique(len(ladder.openers))
    assert len(texts) >= 12 + 64
    for text in texts:
        assert text == text.strip()
        assert "<|" not in text
        assert 20 <= len(text) <= 700


def test_the_ladder_has_64_unique_prompts_that_differ_from_their_first_words(ladder: LadderSuite) -> None:
    """No two prompts begin alike, so no prefix can be taken from a cache."""
    assert len(ladder.prompts) == 8
    assert len(ladder.openers) >= 64
    unique = ladder.unique(64)
    assert unique[9] == ladder.openers[9] + " " + ladder.prompts[1].text
    openers = [opener.lower() for opener in ladder.openers]
    assert len(set(openers)) == len(openers)
    assert not [(a, b) for a in openers for b in openers if a != b and b.startswith(a)]


def test_the_long_texts_are_three_classes_and_long_enough(long: LongSuite) -> None:
    """Each text has the size of at least 33,000 tokens, names its source and licence, and is described beside it."""
    assert [text.class_ for text in long.texts] == ["prose", "code", "structured documents"]
    described = (SUITES / "long-v1" / "README.md").read_text(encoding="utf-8")
    for text, least in zip(long.texts, (140_000, 150_000, 75_000), strict=True):
        assert (SUITES / text.file).stat().st_size >= least
        assert Path(text.file).name in described
        assert text.source
        assert text.licence


def test_no_long_text_repeats_itself(long: LongSuite) -> None:
    """No passage of 300 characters occurs twice within a text: a repeated text would flatter a draft."""
    for text in long.texts:
        content = (SUITES / text.file).read_text(encoding="utf-8")
        seen: set[int] = set()
        for start in range(len(content) - 300):
            window = hash(content[start : start + 300])
            assert window not in seen, f"{text.file}: {content[start : start + 80]!r}..."
            seen.add(window)
        assert len(seen) > 50_000


def test_the_canary_has_the_four_kinds_of_check(canary: CanarySuite) -> None:
    """Repetition, arithmetic, copying and JSON, each with what it expects and without the answer at the end of its prompt."""
    kinds = {check.id: check.kind for check in canary.checks}
    assert kinds == {"repeat": "repeat8", "arithmetic": "equals", "copy": "contains", "json": "json_object"}
    for check in canary.checks:
        assert bool(check.expect) == (check.kind in ("contains", "equals"))
        assert check.max_tokens <= 32
    last = {check.id: check.prompt.strip().split("\n") for check in canary.checks}
    assert last["arithmetic"][-2:] == ["Question: What is 6 plus 1?", "Answer:"]
    assert last["copy"][-2].startswith("Repeat exactly: ")
    assert "JSON" in last["json"][-1]


def test_the_canary_of_random_weights_asks_for_no_sense_and_says_that_it_is_weak() -> None:
    """Repetition and known answers alone, of different prompts; what it cannot show is said, as the other suite need not."""
    weak = read_suite(SUITES, "canary-tiny-v1", "canary")
    assert isinstance(weak, CanarySuite)
    assert "random" in weak.weak
    kinds = [check.kind for check in weak.checks]
    assert sorted(kinds) == ["equals", "equals", "equals", "repeat8", "repeat8"]
    assert len({check.prompt for check in weak.checks}) == len(weak.checks)
    known = [check.expect for check in weak.checks if check.kind == "equals"]
    assert len(set(known)) == 3
    assert all(len(text) > 40 for text in known)


def test_the_usual_canary_is_not_called_weak(canary: CanarySuite) -> None:
    """Only a suite that cannot ask for sense is."""
    assert canary.weak == ""
