"""`plan --power`: how many fresh servers, and minutes, a wanted half-width of the strict headline costs."""

from pathlib import Path

from rungproof.cli.words import clean
from rungproof.config.sections import Costs
from rungproof.judge.stats import CONFIDENCE, Refused, deviation, mean, servers_needed
from rungproof.plan.estimate import session_seconds
from rungproof.records.codec import read
from rungproof.records.errors import ConfigError
from rungproof.records.plan import Plan
from rungproof.records.summary import Summary


def describe(
    plan: Plan, study: Path, half_width: float, spread: float | None, costs: Costs, flags: frozenset[str]
) -> list[str]:
    """Lines for `rungproof plan --power`. half_width, spread: in per cent of the centre; spread None: that of the servers measured so far.

    Raises ConfigError for figures that cannot be meant, and where nothing says how far servers differ.
    """
    if half_width <= 0 or (spread is not None and spread <= 0):
        raise ConfigError(f"--power {half_width:g} --spread {spread}: expected per cents above 0")
    pilots = _pilots(study)
    lines = [
        f"  for centre +- {half_width:g} % ({100 * CONFIDENCE:g} % t interval over fresh servers, of the strict decode rate):"
    ]
    told = False
    for arm in plan.arms:
        items = tuple(i for i in plan.items if i.arm == arm.name and i.spec["kind"] == "strict" and i.replicate == "a")
        values = pilots.get(arm.name, [])
        used = spread if spread is not None else 100 * deviation(values) / mean(values) if len(values) > 1 else None
        if not items:
            continue
        if used is None:
            lines.append(
                f"    {arm.name}: fewer than two fresh servers have been measured; say how far they differ with --spread PERCENT"
            )
            continue
        told = True
        lines.append(
            f"    {arm.name}: {_words(half_width, used, sum(session_seconds(plan, items, costs, flags).values()) / 60, spread is None, len(values))}"
        )
    if not told:
        raise ConfigError(
            f"{clean(study)}: nothing there says how far fresh servers differ; add --spread PERCENT, such as --spread 1"
        )
    return lines


def _words(half_width: float, spread: float, minutes: float, measured: bool, pilot: int) -> str:
    count = servers_needed(half_width, spread)
    source = (
        f"as {pilot} servers did, which is a rough guess"
        if measured and pilot < 6
        else f"as {pilot} servers did"
        if measured
        else "as told"
    )
    if isinstance(count, Refused):
        return f"{count.why} (servers differ by a standard deviation of {spread:.2g} %, {source})"
    return f"{count} fresh servers, about {max(1, round(count * minutes))} min (they differ by a standard deviation of {spread:.2g} %, {source})"


def _pilots(study: Path) -> dict[str, list[float]]:
    """Values of each arm's servers so far; none where there is no summary."""
    path = study / "summary.json"
    if not path.exists():
        return {}
    return {h.arm: [v for _, v in h.servers if v is not None] for h in read(Summary, path).headlines}
