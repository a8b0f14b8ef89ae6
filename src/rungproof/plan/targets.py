"""Which of a call's new sessions the files that it asks for need: servers run one after the other, but only those that are needed."""

from collections.abc import Iterable

from rungproof.plan.missing import Todo
from rungproof.records.plan import Plan


def sessions_needed(plan: Plan, todo: Todo, files: Iterable[str]) -> tuple[str, ...]:
    """New sessions, in the order of the call, that are needed for files of the campaign's results folder (relative paths).

    An accepted item needs its own server, and those of the base-repeat gate that its arm waits for. Anything else, as a page,
    needs all of them.
    """
    seats: set[str] = set()
    for file in files:
        parts = file.split("/")
        if parts[0] != "accepted" or len(parts) != 4:
            return tuple(session for session, _ in todo.new)
        seats |= {parts[1], *_waited_for(plan, parts[1].rpartition(".")[0])}
    return tuple(session for session, items in todo.new if items and items[0].seat in seats)


def _waited_for(plan: Plan, arm: str) -> set[str]:
    """Seats of the base repeat that an arm with an oracle waits for."""
    oracles = {a.oracle for a in plan.arms if a.name == arm and a.oracle != arm}
    gates = [g for g in plan.gates if g.kind == "base_repeat" and plan.item(g.subject[0]).arm in oracles]
    return {plan.item(key).seat for g in gates for key in (g.subject[0], g.oracle[0])}
