"""Steps of the engine, drafts and their acceptance, and the client's own error beside what it measured."""

from collections.abc import Sequence
from dataclasses import dataclass

from rungproof.publish.details import figure, shares
from rungproof.records.formats import ClientCheck, Point
from rungproof.records.shown import percent_down, shown, whole
from rungproof.records.summary import Summary


@dataclass(frozen=True, slots=True)
class StepRow:
    """The steps behind one number, all as text; "none" where the records do not tell."""

    point: Point
    step: str
    tokens: str
    length: str
    positions: str
    at_once: str
    dispatch: str


@dataclass(frozen=True, slots=True)
class ClientRow:
    """The client's check on one server, all as text. `finer`: the shortest step time measured there over the lag's p99."""

    session: str
    streams: str
    p50: str
    p99: str
    largest: str
    cost: str
    rate: str
    finer: str


def step_rows(summary: Summary) -> list[StepRow]:
    """Every point with a step time, in the order of the plan."""
    return [_step_row(p) for p in summary.points if figure(p.detail, "step_ms_median") is not None]


def client_rows(summary: Summary) -> list[ClientRow]:
    """Every server before which the client was checked."""
    return [
        _client_row(session.session, session.client, summary.points) for session in summary.sessions if session.client
    ]


def _step_row(point: Point) -> StepRow:
    positions = shares(point.detail)
    in_flight, decoding = figure(point.detail, "in_flight"), figure(point.detail, "decoding")
    return StepRow(
        point=point,
        step=_known(point, "step_ms_median"),
        tokens=_known(point, "tokens_per_step"),
        length=_known(point, "acceptance_length"),
        positions="none" if positions is None else ", ".join(percent_down(share) for share in positions),
        at_once="none" if in_flight is None or decoding is None else f"{whole(in_flight)}, {whole(decoding)}",
        dispatch=_known(point, "dispatch_ms"),
    )


def _client_row(session: str, check: ClientCheck, points: Sequence[Point]) -> ClientRow:
    mine = [figure(point.detail, "step_ms_median") for point in points if point.session == session]
    steps = [step for step in mine if step is not None]
    lag, rate = check.lag_p99_ms, check.rate_events_s
    return ClientRow(
        session=session,
        streams=whole(check.streams),
        p50=_number(check.lag_p50_ms),
        p99=_number(lag),
        largest=_number(check.lag_max_ms),
        cost=_number(check.cpu_us_event),
        rate="none" if rate is None else whole(round(rate)),
        finer=f"{whole(int(min(steps) / lag))} times" if steps and lag and lag > 0 else "none",
    )


def _known(point: Point, name: str) -> str:
    return _number(figure(point.detail, name))


def _number(value: float | None) -> str:
    return "none" if value is None else shown(value)
