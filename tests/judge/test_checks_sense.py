"""Sense, check by check, on values made by hand: what an honest run looks like passes, each impossible one is told."""

from dataclasses import replace
from typing import Any

import pytest

from judge.evidence_kit import metrics, request
from judge.plan_kit import arm as an_arm
from judge.plan_kit import ladder, plan, rung_record
from rungproof.judge.checks.ceiling import ceiling_of, check_ceiling
from rungproof.judge.checks.found import Found
from rungproof.judge.checks.moments import seconds
from rungproof.judge.checks.stamps import check_samples, check_stamps
from rungproof.records import raw
from rungproof.records.environment import Sample
from rungproof.records.formats import Attempt, Server

S = 10**9
UTC0 = 1_700_000_000  # 2023-11-14T22:13:20Z


@pytest.mark.parametrize(
    ("text", "wanted"),
    {
        "2023-11-14T22:13:20Z": 1_700_000_000.0,
        "2023-11-14T22:13:20.250+00:00": 1_700_000_000.25,
        "1970-01-01T00:00:00Z": 0.0,
        "2023-11-14T22:13:20": None,
        "2023-11-14T22:13:20+01:00": None,
        "2023-13-14T22:13:20Z": None,
        "yesterday": None,
        "": None,
    }.items(),
)
def test_moments_are_utc_or_nothing(text: str, wanted: float | None) -> None:
    """As records write them; a text without a zone, or of another one, is no moment."""
    assert seconds(text) == wanted


def attempt(length: float, **changes: Any) -> Attempt:
    """An attempt of so many seconds from UTC0 on."""
    made = Attempt(
        "c", "r001.base.a", "b", "base", "a", "ladder", "c2", {}, "", "measured", (), None, "2023-11-14T22:13:20.000+00:00",
        f"2023-11-14T22:13:{20 + int(length):02d}.{round(length % 1 * 1000):03d}+00:00", length,
    )  # fmt: skip
    return replace(made, **changes)


def lines(count: int = 4, each_s: float = 2.0, created: int | None = None) -> list[raw.Line]:
    """One batch a request, one after the other, on a clock that began 1000 s before UTC0."""
    made: list[raw.Line] = [raw.Header("r001.base.a", "b", "x"), replace(metrics("before", 0), at_ns=1000 * S)]
    for n in range(count):
        start = 1000 * S + 10**7 + round(n * each_s * S)
        body = f'{{"created": {created if created is not None else UTC0 + int(n * each_s)}}}'
        made.append(raw.Batch(f"b{n}", start, ("p",), "kernel", (UTC0 - 1000) * S, 50))
        one = request(f"b{n}", "p", "{}", body.encode(), start)
        end = start + round(each_s * S) - 10**7
        made.append(replace(one, chunks=((start + S, 1), (end, len(body) - 1)), end_ns=end))
    return [*made, replace(metrics("after", 1), at_ns=1000 * S + round(count * each_s * S) + 10**7)]


def told(what: Attempt, of: list[raw.Line]) -> list[str]:
    """What is said against these stamps."""
    found = Found()
    check_stamps("x", what, rung_record(ladder("base.a", 2), [(2, 100.0), (2, 100.0)]), of, found)
    return found.failures["L4"]


def moved(of: list[raw.Line], factor: float) -> list[raw.Line]:
    """All stamps nearer to the first, as a cheat would."""

    def at(ns: int) -> int:
        return 1000 * S + round((ns - 1000 * S) * factor)

    made: list[raw.Line] = []
    for one in of:
        if isinstance(one, raw.Metrics):
            one = replace(one, at_ns=at(one.at_ns))
        elif isinstance(one, raw.Batch):
            one = replace(one, start_ns=at(one.start_ns))
        elif isinstance(one, raw.Request):
            chunks = tuple((at(ns), length) for ns, length in one.chunks)
            one = replace(
                one,
                chunks=chunks,
                sent_ns=at(one.sent_ns or 0),
                sent_end_ns=at(one.sent_end_ns or 0),
                end_ns=at(one.end_ns),
            )
        made.append(one)
    return made


def test_honest_stamps_pass() -> None:
    """In order, inside the attempt, in step with the server's seconds."""
    assert told(attempt(8.05), lines()) == []


def test_scaled_stamps_disagree_with_every_other_clock() -> None:
    """With the attempt's length; where that was made to fit, with its moments in UTC; where those were, too, with the server's seconds."""
    half = moved(lines(), 0.5)
    assert any("span" in text for text in told(attempt(8.05), half))
    assert any("8.050 s" in text for text in told(attempt(8.05, seconds=4.05), half))
    assert any("that the server gave" in text for text in told(attempt(4.05), half))


def test_stamps_out_of_order_or_of_another_time_are_told() -> None:
    """A byte before its request, a batch before the one before it, an attempt of another day."""
    good = lines()
    early = [
        replace(o, chunks=((o.chunks[0][0] - 5 * S, 1), *o.chunks[1:])) if isinstance(o, raw.Request) else o
        for o in good
    ]
    assert any("back in time" in text for text in told(attempt(8.05), early))
    swapped = [*good[:2], *good[4:6], *good[2:4], *good[6:]]
    assert any("began before the one before it" in text for text in told(attempt(8.05), swapped))
    other = attempt(8.05, began="2023-11-15T22:13:20.000Z", ended="2023-11-15T22:13:28.050Z")
    assert any("outside" in text for text in told(other, good))
    assert any("no moment" in text for text in told(attempt(8.05, began="now"), good))
    assert any("no stamps" in text for text in told(attempt(8.05), good[:2]))
    late = [replace(o, at_ns=o.at_ns + 3 * S) if isinstance(o, raw.Metrics) and o.when == "before" else o for o in good]
    assert any("counters were not read before" in text for text in told(attempt(8.05), late))


def samples(count: int = 20, apart_s: float = 1.0, ticks: float = 200.0) -> list[Sample]:
    """Of a machine with two processors: 200 ticks a second."""
    names = ("cpu.busy_ticks", "cpu.idle_ticks", "cpu.stolen_ticks")
    return [Sample(round(n * apart_s * S), dict.fromkeys(names, n * ticks / 3)) for n in range(count)]


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (samples(), ""),
        (samples(apart_s=0.25, ticks=50), "apart by their stamps"),
        (samples(ticks=100), "by the processors' ticks"),
        (samples(count=1), "expected at least 2"),
        (list(reversed(samples())), "not in order"),
    ],
    ids=["honest", "nearer together", "other ticks", "one sample", "backwards"],
)
def test_samples_are_held_against_the_ticks(of: list[Sample], words: str) -> None:
    """One a second as planned, and as many ticks as so many seconds have."""
    found = Found()
    check_samples("x", of, 1.0, 2, found)
    assert [words in text for text in found.failures["L4"]] == ([True] if words else [])


PEAK = {"flops": 1e12, "bytes_s": 1e9, "cache_bytes": 1e6, "source": "a data sheet"}


def test_the_ceiling_is_the_lower_of_two() -> None:
    """Two operations a parameter and token; a read of the weights a step, in which a stream gets at most 1 + draft depth tokens."""
    one = ceiling_of(PEAK, {"matmul_parameters": 10**7, "matmul_bytes": 10**7}, 3)
    assert one is not None and (one.operations, one.memory) == (50_000.0, 400.0)
    small = ceiling_of(PEAK, {"matmul_parameters": 10**5, "matmul_bytes": 10**5}, 0)
    assert small is not None and small.memory is None  # it fits the caches
    for missing in ({}, {"matmul_parameters": 0}, {"matmul_parameters": True}):
        assert ceiling_of(PEAK, missing, 0) is None
    assert ceiling_of({"bytes_s": 1e9}, {"matmul_parameters": 10**7}, 0) is None


def judged_against(
    peak: dict[str, Any] | None, rate: float, tensors: dict[str, Any] | None, **environment: Any
) -> Found:
    """One rung at this rate on a server with these weights."""
    item = ladder("base.a", 2)
    of = plan([an_arm("base")], [item])
    of = replace(of, limits={**of.limits, **({"peak": peak} if peak else {})})
    record = rung_record(item, [(2, rate), (2, rate)])
    identity = {"model": {"tensors": tensors}}
    server = Server(
        record.session, "base", "a", "ready", (), "b", "", "", {}, "", (), identity, environment, 1, "2023-11-14T22:13:20Z", 1.0
    )  # fmt: skip
    found = Found()
    check_ceiling(of, {item.id: record}, {record.session: server}, found)
    found.close()
    return found


def test_a_rate_above_the_ceiling_fails_and_nothing_declared_is_told() -> None:
    """Above: a failure with both figures. Declared without the weights' parameters: a failure. Not declared: said, and not failed."""
    weights = {"matmul_parameters": 10**6, "matmul_bytes": 10**5}
    assert judged_against(PEAK, 1000.0, weights).failures["L4"] == []
    assert "above what the host can do" in judged_against(PEAK, 600_000.0, weights).failures["L4"][0]
    assert "not recorded" in judged_against(PEAK, 1000.0, None).failures["L4"][0]
    silent = judged_against(None, 1e12, weights)
    assert (
        silent.failures["L4"] == []
        and "no ceiling declared" in silent.notes[0]
        and "not checked" in silent.facts("L4")[-1]
    )


def test_what_no_processor_can_do_is_a_ceiling_where_none_is_declared() -> None:
    """By flags and number of the processors: far above what the default campaign measured on two cores, and below what cannot be."""
    two = {"cpu_flags": "avx avx2 avx512f fma sse2", "cpus_online": 2}
    smollm2 = {"matmul_parameters": 134_479_872, "matmul_bytes": 268_959_744}
    measured = judged_against(None, 382.0, smollm2, **two)
    assert measured.failures["L4"] == [] and measured.counts["rates under a ceiling"] > 0
    assert measured.notes == [
        "rates: no ceiling declared by host profile 'host': held against 2 processors with avx512f at 7 GHz, which no machine passes"
    ]
    assert judged_against(None, 13_000.0, smollm2, **two).failures["L4"] == []
    (first, *_) = judged_against(None, 13_400.0, smollm2, **two).failures["L4"]
    assert "above what the host can do (13325.4; 2 processors with avx512f at 7 GHz, which no machine passes)" in first
    few = judged_against(None, 50_000.0, {**smollm2, "matmul_bytes": 109_707_264}, **two)
    assert few.failures["L4"] == []  # weights below a byte may be looked up
    for changed in ({"cpu_flags": "avx2 sse2"}, {"cpus_online": 1}):
        assert judged_against(None, 7_000.0, smollm2, **{**two, **changed}).failures["L4"]
    assert judged_against(None, 100_000.0, smollm2, **{**two, "cpu_flags": "amx_tile avx512f"}).failures["L4"] == []


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"cpus_online": 2},
        {"cpu_flags": "avx2"},
        {"cpu_flags": "asimd sve", "cpus_online": 2},
        {"cpu_flags": "avx2", "cpus_online": 2, "gpu0.name": "a card"},
    ],
    ids=["nothing", "no flags", "no number", "no x86", "a card"],
)
def test_where_nothing_follows_nothing_is_checked(environment: dict[str, Any]) -> None:
    """An accelerator, another architecture, facts or weights that are not recorded: said, and not failed."""
    found = judged_against(None, 1e9, {"matmul_parameters": 10**9, "matmul_bytes": 10**9}, **environment)
    assert found.failures["L4"] == [] and "none follows from what is recorded of base: not checked" in found.notes[0]
    assert judged_against(None, 1e9, None, cpu_flags="avx2", cpus_online=2).notes


def test_memory_binds_large_weights_alone() -> None:
    """A read of the weights a step, at 8 TB/s, and no smaller than four bits each; none where they could lie in a cache."""
    many = {"cpu_flags": "amx_tile", "cpus_online": 512}
    large = {"matmul_parameters": 70 * 10**9, "matmul_bytes": 140 * 10**9}
    rates = {rate: judged_against(None, rate, large, **many).failures["L4"] for rate in (450.0, 460.0)}
    assert not rates[450.0] and "(457.1;" in rates[460.0][0]  # two streams, 8e12 / 35e9 steps a second
