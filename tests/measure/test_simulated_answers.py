"""The simulated server's answers, command line and faults file, without a process."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from rungproof.measure.simulated.answers import SYLLABLES, TEXTS, Answer, known_answer, text_of, tokenise
from rungproof.measure.simulated.completions import check
from rungproof.measure.simulated.faults import BrokenFaults, Faults, Situation
from rungproof.measure.simulated.options import parse
from rungproof.measure.simulated.wire import Refused

BASE = ["--port", "0", "--served-model-name", "m"]


def tokens(prompt: str, count: int) -> list[int]:
    """The first `count` true tokens of a prompt."""
    answer = Answer(tokenise(prompt), prompt)
    return [answer.token(k) for k in range(count)]


def test_tokens_depend_on_the_prompt_alone() -> None:
    """The same prompt gives the same tokens in any order of asking, and another prompt gives others."""
    answer = Answer(tokenise("alpha"), "alpha")
    backwards = [answer.token(k) for k in reversed(range(128))]
    assert backwards[::-1] == tokens("alpha", 128)
    assert tokens("alpha", 128) != tokens("beta", 128)


def test_the_tokens_of_a_prompt_never_change_between_releases() -> None:
    """Recorded oracles of the simulated server stay true: the first tokens of a fixed prompt are fixed."""
    assert tokens("hello", 5) == [12, 164, 242, 3, 186]


def test_answers_are_not_degenerate() -> None:
    """Every answer has many distinct ids and enough length for a 100-token window."""
    for number in range(200):
        prompt = f"prompt {number}"
        answer = Answer(tokenise(prompt), prompt)
        assert 110 <= answer.natural_length <= 440
        assert len({answer.token(k) for k in range(128)}) > 60


def test_flipped_tokens_differ_at_every_position() -> None:
    """A flipped answer is wrong at each token, also inside a literal answer."""
    for prompt in ("x", "Repeat exactly: café crème brûlée"):
        answer = Answer(tokenise(prompt), prompt)
        assert all(answer.flipped(k) != answer.token(k) for k in range(300))


def test_step_sizes_use_the_whole_draft() -> None:
    """With depth d, steps yield 1 to d+1 tokens, each size occurs, and without drafts each step yields one."""
    answer = Answer(tokenise("sizes"), "sizes")
    assert {answer.step_size(k, 3) for k in range(1, 200)} == {1, 2, 3, 4}
    assert {answer.step_size(k, 0) for k in range(200)} == {1}
    assert answer.step_size(0, 3) == 1


def test_every_id_has_printable_text() -> None:
    """Any answer can be shown: all 256 ids have text without control characters but newline."""
    assert sorted(TEXTS) == list(range(256))
    assert all(text.replace("\n", "").isprintable() for text in TEXTS.values())
    assert len(SYLLABLES) > 100


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Question: What is 2 plus 3?\nAnswer: 5\nQuestion: What is 17 plus 25?\nAnswer:", "42"),
        ("Repeat exactly: The lamp is green.<|im_end|>\n<|im_start|>assistant\n", "The lamp is green."),
        ("Write a JSON object with the name Ada and the age 36.", '{"name": "Ada", "age": 36}'),
        ("Repeat exactly:  \n", None),
        ("Describe in two paragraphs how JSON came to be, and how teams use it in operations.", None),
    ],
)
def test_known_questions_are_answered_by_rule(prompt: str, expected: str | None) -> None:
    """The canary's fixed questions get their right answer, and long tasks do not end early."""
    assert known_answer(prompt) == expected


def test_a_prompt_given_as_ids_reads_as_its_text() -> None:
    """Ids and text of the same prompt are the same prompt; ids beyond bytes are accepted."""
    assert text_of(tokenise("What is 1 plus 1?")) == "What is 1 plus 1?"
    assert len(text_of([70000, 65])) == 2


def test_unknown_arguments_are_remembered() -> None:
    """Knobs of a real engine can be passed to the simulated server in every spelling."""
    options = parse(
        [*BASE, "--dtype", "bfloat16", "--enforce-eager", "--max-num-seqs=16", "--no-enable-prefix-caching"]
    )
    expected = {"dtype": "bfloat16", "enforce-eager": True, "max-num-seqs": "16", "no-enable-prefix-caching": True}
    assert options.extra == expected


def test_draft_depth_comes_from_a_speculative_config() -> None:
    """A launch description for vLLM with speculation gives the simulated server the same draft depth."""
    assert parse([*BASE, "--speculative-config", '{"method":"ngram","num_speculative_tokens":3}']).draft_depth == 3
    assert parse([*BASE, "--draft-depth", "2"]).draft_depth == 2
    assert parse(BASE).draft_depth == 0


@pytest.mark.parametrize(
    "bad",
    [
        ["--token-ms", "-1"], ["--token-ms", "nan"], ["--draft-depth", "x"], ["--port", "70000"], ["stray"],
        ["--speculative-config", "{"], ["--draft-depth", "1", "--speculative-config", '{"num_speculative_tokens":2}'],
        ["--served-model-name", ""], ["--max-model-len", "1"],
    ],
)  # fmt: skip
def test_a_bad_argument_is_refused_by_name(bad: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A bad value ends with code 2 and a message that names the argument or the value."""
    with pytest.raises(SystemExit) as stop:
        parse([*BASE, *bad])
    assert stop.value.code == 2
    assert bad[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "status", "named"),
    [
        ({"prompt": ""}, 400, "prompt"), ({"prompt": []}, 400, "prompt"), ({"prompt": ["a", "b"]}, 400, "prompt"),
        ({"prompt": [1, True]}, 400, "prompt"), ({"prompt": [-1]}, 400, "prompt"),
        ({"prompt": "\ud800"}, 400, "prompt"),
        ({"prompt": None}, 400, "prompt"), ({"max_tokens": "8"}, 400, "max_tokens"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"max_tokens": True}, 400, "max_tokens"), ({"max_tokens": 10**30}, 400, "max_tokens"),
        ({"stream": 1}, 400, "stream"), ({"stream_options": {}}, 400, "stream_options"),
        ({"temperature": "hot"}, 400, "temperature"), ({"temperature": float("nan")}, 400, "temperature"),
        ({"n": 2}, 400, "n"), ({"logprobs": 0}, 400, "logprobs"), ({"stop": ["x"]}, 400, "stop"),
        ({"model": "other"}, 404, "model"), ({"model": {}}, 404, "model"),
    ],
)  # fmt: skip
def test_wrong_requests_are_refused_with_the_parameter(change: dict[str, Any], status: int, named: str) -> None:
    """A request that cannot be answered as asked is refused, and the answer names what is wrong."""
    with pytest.raises(Refused) as refused:
        check(json.dumps({"model": "m", "prompt": "hi"} | change).encode(), "m", 1000)
    assert (refused.value.status, refused.value.param) == (status, named)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'"x"', b"1" * 10_000])
def test_bodies_that_are_no_json_object_are_refused(body: bytes) -> None:
    """No bytes crash the request check."""
    with pytest.raises(Refused):
        check(body, "m", 1000)


def faults_from(folder: Path, entries: object) -> Faults:
    """A faults file with these entries."""
    path = folder / "faults.json"
    path.write_text(json.dumps(entries))
    return Faults(str(path))


def test_all_conditions_must_hold_and_times_limits(tmp_path: Path) -> None:
    """A fault comes only where each condition holds, and no more often than it says."""
    match = {"inflight_at_least": 2, "prompt_contains": "p", "model_contains": "m"}
    faults = faults_from(
        tmp_path, [{"do": "drop", "match": match, "times": 2}, {"do": "hang", "match": {"concurrent": 4}}]
    )
    drop, hang = faults.read()
    for wrong in (Situation(1, "p", "m"), Situation(2, "q", "m"), Situation(2, "p", "n")):
        assert not faults.comes(drop, wrong)
    came = [faults.comes(drop, Situation(size, "p", "m")) for size in (2, 3, 4)]
    assert came == [True, True, False]
    assert [faults.comes(hang, Situation(size, "", "")) for size in (3, 4, 5)] == [False, True, False]


def test_a_missing_faults_file_means_no_faults(tmp_path: Path) -> None:
    """Without a file, or without the variable, nothing is wrong with the server."""
    assert Faults(str(tmp_path / "none.json")).read() == ()
    assert Faults(None).read() == ()


@pytest.mark.parametrize(
    ("entries", "named"),
    [
        ({}, "list"), ([1], "fault 0"), ([{"do": "explode"}], "explode"), ([{"do": "drop", "whne": 1}], "whne"),
        ([{"do": "drop", "after_tokens": -1}], "after_tokens"), ([{"do": "drop", "times": 1.5}], "times"),
        ([{"do": "drop", "match": {"inflight": 1}}], "inflight"), ([{"do": "drop", "match": {"concurrent": "2"}}], "2"),
        ([{"do": "http_500", "after_tokens": 3}], "after_tokens"), ([{"do": "exit_at_start", "code": 256}], "code"),
        ([{"do": "slow_start", "seconds": "2"}], "seconds"), ([{"do": "drop", "match": []}], "match"),
    ],
)  # fmt: skip
def test_a_broken_faults_file_is_named(tmp_path: Path, entries: object, named: str) -> None:
    """A mistake in the faults file is never taken for "no fault": the message says what is wrong."""
    with pytest.raises(BrokenFaults, match=named):
        faults_from(tmp_path, entries).read()


def test_answers_of_many_prompts_differ_early() -> None:
    """Different prompts are told apart by their first tokens, so a mixed-up answer cannot pass as identical."""
    heads = [tuple(tokens(f"{number} topic", 8)) for number in range(100)]
    assert all(a != b for a, b in itertools.combinations(heads, 2))
