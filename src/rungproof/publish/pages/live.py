"""The page of a campaign that is being measured: what its records show at one moment, plain HTML that asks for itself again."""

from dataclasses import dataclass

from rungproof.publish.pages.engine import templates

ORDER = ("identical", "withheld", "accepted", "measured", "being measured", "invalid", "failed", "skipped", "to do")
STATES = {
    "identical": "qualified",
    "withheld": "withheld",
    "invalid": "invalid",
    "failed": "failed",
    "skipped": "skipped",
}


@dataclass(frozen=True, slots=True)
class ItemNow:
    """One item of the plan as it stands. `state`: one of ORDER; value in `unit`; `counted`: outputs identical, in words."""

    id: str
    state: str
    value: float | None
    unit: str
    counted: str
    session: str
    why: str


@dataclass(frozen=True, slots=True)
class Now:
    """A campaign at one moment. `session`: the one that is measured, "" for none; `doing`: what of it; done of `of` items of this
    call; share of its expected time; left_s: what is left of it [s], 0 where it cannot be told."""

    study: str
    title: str
    simulated: bool
    items: tuple[ItemNow, ...]
    counts: tuple[tuple[str, int], ...]
    session: str
    doing: str
    done: int
    of: int
    share: float
    left_s: float

    @property
    def left(self) -> str:
        """What is left of the call, in words; empty where it cannot be told."""
        return f"about {max(1, round(self.left_s / 60))} min left" if self.left_s else ""

    @property
    def tally(self) -> list[tuple[str, int]]:
        """Items by state, in a fixed order."""
        return sorted(self.counts, key=lambda pair: ORDER.index(pair[0]))


def live_html(now: Now, at: str, every_s: int) -> str:
    """The page. at: the moment it was made, for people; every_s: after how long a browser is told to ask again [s], 0: never."""
    return templates().get_template("live.html.j2").render(now=now, at=at, every_s=every_s, classes=STATES)


def status_lines(now: Now) -> list[str]:
    """The same in lines for a terminal."""
    counted = ", ".join(f"{count} {state}" for state, count in now.tally) or "nothing planned"
    lines = [f"{now.study}: {len(now.items)} items: {counted}"]
    if now.session:
        left = f", {now.left}" if now.left else ""
        lines.append(f"being measured on this machine: {now.session}, {now.doing} [{now.done}/{now.of}{left}]")
    return lines
