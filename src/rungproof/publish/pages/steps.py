"""Steps of the engine, drafts and their acceptance, and the client's own error beside what it measured."""

from dataclasses import dataclass

from markupsafe import Markup

from rungproof.publish.details import figure, shares
from rungproof.publish.pages.claimed import NONE, Claims
from rungproof.records.formats import Point
from rungproof.records.summary import Summary


@dataclass(frozen=True, slots=True)
class StepRow:
    """The steps behind one number; "none" where the records do not tell."""

    point: Point
    ttft: Markup
    step: Markup
    tokens: Markup
    length: Markup
    positions: Markup
    at_once: Markup
    dispatch: Markup


@dataclass(frozen=True, slots=True)
class ClientRow:
    """The client's check on one server. `finer`: the shortest step time measured there over the lag's p99."""

    session: str
    figures: tuple[Markup, ...]


CHECKED = (
    ("streams", ""), ("lag_p50_ms", ""), ("lag_p99_ms", ""), ("lag_max_ms", ""), ("cpu_us_event", ""), ("rate_events_s", "whole"),
)  # fmt: skip


def step_rows(summary: Summary, claims: Claims) -> list[StepRow]:
    """Every point with a step time, in the order of the plan."""
    return [_step_row(claims, p) for p in summary.points if figure(p.detail, "step_ms_median") is not None]


def drafted_rows(summary: Summary, claims: Claims) -> list[StepRow]:
    """Of the step rows, those of arms that draft."""
    drafting = {arm.name for arm in summary.arms if arm.draft_depth}
    return [row for row in step_rows(summary, claims) if row.point.arm in drafting]


def client_rows(summary: Summary, claims: Claims) -> list[ClientRow]:
    """Every server before which the client was checked."""
    return [
        ClientRow(
            session.session,
            (
                *(claims.at("sessions", i, "client", name, form=form) for name, form in CHECKED),
                claims.at("sessions", i, "finer"),
            ),
        )
        for i, session in enumerate(summary.sessions)
        if session.client
    ]


def _step_row(claims: Claims, point: Point) -> StepRow:
    known = shares(point.detail)
    both = figure(point.detail, "in_flight") is not None and figure(point.detail, "decoding") is not None
    return StepRow(
        point=point,
        ttft=_known(claims, point, "ttft_ms_median"),
        step=_known(claims, point, "step_ms_median"),
        tokens=_known(claims, point, "tokens_per_step"),
        length=_known(claims, point, "acceptance_length"),
        positions=NONE
        if known is None
        else Markup(", ").join(
            claims.of(point, "detail", "acceptance_by_position", i, form="percent") for i in range(len(known))
        ),
        at_once=Markup("{}, {}").format(claims.of(point, "detail", "in_flight"), claims.of(point, "detail", "decoding"))
        if both
        else NONE,
        dispatch=_known(claims, point, "dispatch_ms"),
    )


def _known(claims: Claims, point: Point, name: str) -> Markup:
    return claims.of(point, "detail", name) if name in point.detail else NONE
