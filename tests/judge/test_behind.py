"""What is shown beside the numbers follows from the records, and what is lacking is none, never a median of the rest."""

from dataclasses import replace

import pytest

from rungproof.judge import behind
from rungproof.records.environment import Energy, Environment
from rungproof.records.formats import Agreement, Collision, CopyGroup, Point, Verdict
from rungproof.records.summary import StrictRow, View


def row(kind: str, prompt: str, rate: float | None, seat: str = "a") -> StrictRow:
    return StrictRow("base", seat, kind, prompt, rate, 80.0, 128, 20.0, 1.0, True, "complete")


def point(x: float, state: str, **detail: object) -> Point:
    base = Point(
        "base/depth/d/decode_rate",
        "base",
        "depth",
        "d",
        "decode_rate",
        x,
        10.0,
        "tok/s",
        "qualified",
        3,
        3,
        (),
        (),
        "s",
        (),
    )
    return replace(base, state=state, detail=dict(detail))  # type: ignore[arg-type]


def test_a_class_with_a_prompt_without_a_rate_has_no_median() -> None:
    """The median of a class and its slowest and fastest prompt; one prompt that lacks its rate takes them, and the headline, away."""
    rows = [row("code", "c1", 10.0), row("code", "c2", 14.0), row("prose", "p1", 20.0)]
    (seat,) = behind.seat_medians(rows)
    assert [(c.prompt_class, c.rate, c.low, c.high, c.prompts) for c in seat.classes] == [
        ("code", 12.0, 10.0, 14.0, 2),
        ("prose", 20.0, 20.0, 20.0, 1),
    ]
    assert seat.headline == 16.0
    (short,) = behind.seat_medians([*rows, row("prose", "p2", None)])
    assert (short.classes[1].rate, short.classes[1].prompts, short.headline) == (None, 2, None)
    assert short.ttft_ms == 80.0


def test_drafts_count_sound_points_and_name_where_none_was_accepted() -> None:
    """Invalid points say nothing of drafts; a server that does not say leaves none, not 0."""
    points = [
        point(512.0, "qualified", draft_tokens=90.0, accepted_tokens=0.0, fewest_distinct_ids=7),
        point(1024.0, "withheld", draft_tokens=90.0, accepted_tokens=45.0, fewest_distinct_ids=5),
        point(2048.0, "invalid", draft_tokens=90.0, accepted_tokens=90.0, fewest_distinct_ids=1),
    ]
    (profile,) = behind.profiles(points)
    assert (profile.drafted, profile.accepted, profile.accepted_share) == (180.0, 45.0, 0.25)
    assert (profile.none_at, profile.fewest_distinct) == ((512.0,), 5)
    (silent,) = behind.profiles([point(512.0, "qualified", draft_tokens=True)])
    assert (silent.drafted, silent.accepted_share, silent.fewest_distinct) == (None, None, None)


def test_the_view_without_an_oracle_is_counted() -> None:
    """Counts follow from the names that a verdict holds; a verdict without such a view has no row."""
    copies = (CopyGroup("pass-1", ("p1", "p2"), 2), CopyGroup("pass-2", ("p1", "p2"), 1))
    agreement = Agreement(8, 24, ("p03", "p04"), ("p05",), (), copies, (Collision("p1", "b", "p2", "b"),))
    verdict = Verdict(
        "g", "ladder_rung", "t", "withheld", 1, 2, 1, 2, None, (), (), (), None, (), (), agreement=agreement
    )
    assert behind.views([verdict, replace(verdict, gate="other", agreement=None)]) == (View("g", 8, 2, 1, 0, 2, 1, 1),)


def test_every_state_is_counted_also_those_without_a_point() -> None:
    """A state that no point has is 0 on purpose, since the points themselves are all known."""
    assert behind.tally([point(1.0, "withheld"), point(2.0, "withheld")]) == {
        "qualified": 0, "withheld": 2, "invalid": 0, "failed": 0, "skipped": 0, "missing": 0,
    }  # fmt: skip


def test_power_is_energy_over_time_and_none_for_a_counter_that_went_back() -> None:
    """Watts follow from joules and seconds; no time, or no energy, gives none."""
    energy = {
        "gpu0": Energy(900.0, 60.0, None, "x", ""),
        "gpu1": Energy(None, 60.0, None, "x", "went back"),
        "gpu2": Energy(1.0, 0.0, None, "x", ""),
    }
    env = Environment("s", "base", "b", "2026-01-01T00:00:00Z", {}, None, None, {}, energy)
    assert behind.watts(env) == {"gpu0": pytest.approx(15.0), "gpu1": None, "gpu2": None}
    assert behind.watts(None) == {}


def test_the_longest_wait_and_the_fineness_need_a_figure() -> None:
    """The greatest share is taken over points that have one; without a check of the client nothing is said of its fineness."""
    points = [
        point(1.0, "qualified", client_wait_share=0.002, step_ms_median=20.0),
        point(2.0, "qualified", client_wait_share=None),
    ]
    assert behind.longest_wait(points) == 0.002
    assert behind.longest_wait(points[1:]) is None
    assert behind.finer("s", None, points) is None
