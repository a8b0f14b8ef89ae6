"""Gates: pure functions from judged attempts to a verdict. A gate that has nothing to compare never qualifies."""

from collections.abc import Sequence
from dataclasses import replace

from rungproof.judge.identity import divergence, minority_share
from rungproof.judge.stats import lower_bound
from rungproof.records.formats import Divergence, Input, Judged, Reason, RequestResult, Verdict
from rungproof.records.plan import Gate

ORACLE = "oracle-"
PASS = "pass-"
SHOWN_DIVERGENCES = 200  # a verdict lists at most so many; k and n always count all


def judge_gate(gate: Gate, subject: Judged | None, oracle: Judged | None, inputs: tuple[Input, ...]) -> Verdict:
    """The verdict of one comparison. `subject` or `oracle` None: not measured at all.

    qualified: every compared output is identical to its oracle, and there was at least one to compare.
    withheld: measured and compared, but not all identical. invalid: one side is no sound measurement. skipped: left out by a gate.
    """
    for side, name in ((subject, gate.subject[0]), (oracle, gate.oracle[0])):
        if side is None:
            return _verdict(
                gate, "invalid", (Reason("nothing to compare", found="no measurement", where=name),), inputs
            )
        if side.state == "skipped":
            return _verdict(gate, "skipped", side.reasons, inputs)
        if side.state != "accepted":
            why = Reason(
                "nothing to compare",
                found=f"{side.state}: {side.reasons[0] if side.reasons else 'no reason kept'}",
                where=name,
            )
            return _verdict(gate, "invalid", (why,), inputs)
    assert subject is not None and oracle is not None
    if subject.identity_sha256 != oracle.identity_sha256:
        what = f"{subject.session} and {oracle.session} differ in weights, packages, engine, kernels or processor"
        return _verdict(gate, "invalid", (Reason("stale oracle", found=what, expected="one identity"),), inputs)
    verdict = _rung(gate, subject, inputs) if gate.kind == "ladder_rung" else _pairs(gate, subject, oracle, inputs)
    return replace(verdict, reasons=(*verdict.reasons, *unused_drafts(gate, subject))) if verdict.n else verdict


def unused_drafts(gate: Gate, subject: Judged) -> tuple[Reason, ...]:
    """A remark, which withholds nothing: the subject's server speculates, but no draft was accepted, so identity was never at risk.

    Empty where the server has no counters of drafts, as one that does not speculate.
    """
    if subject.counters.get("drafts") is None or subject.counters.get("accepted_tokens") != 0:
        return ()
    tokens = subject.counters.get("draft_tokens") or 0
    what = "no draft was accepted, so this says nothing about accepted drafts"
    return (Reason(what, found=f"0 of {tokens:g} drafted tokens", expected="at least 1", where=gate.subject[0]),)


def _pairs(gate: Gate, subject: Judged, oracle: Judged, inputs: tuple[Input, ...]) -> Verdict:
    """Each request of the oracle's attempt against the one of the same key: strict prompts, or the texts of a depth."""
    truth = {r.key: r.token_ids for r in oracle.requests}
    got = {r.key: r for r in subject.requests}
    if not truth or set(truth) != set(got) or len(truth) != len(oracle.requests) or len(got) != len(subject.requests):
        why = Reason(
            "nothing to compare",
            found=f"{len(got)} prompts",
            expected=f"{len(truth)}, the same ones",
            where=gate.subject[0],
        )
        return _verdict(gate, "invalid", (why,), inputs)
    broken = [d for key, ids in truth.items() if (d := divergence(key, got[key].batch, got[key].token_ids, ids))]
    n = len(truth)
    return _counted(
        gate,
        n - len(broken),
        n,
        n - len(broken),
        n,
        broken,
        (),
        minority_share([(truth[k], got[k].token_ids) for k in truth]),
        inputs,
    )


def _rung(gate: Gate, subject: Judged, inputs: tuple[Input, ...]) -> Verdict:
    """Every request of every pass against its own one-at-a-time answer on the same server."""
    truth = {r.key: r.token_ids for r in subject.requests if r.batch.startswith(ORACLE)}
    passes = _passes(subject.requests)
    wanted = int(subject.spec["passes"])
    if not truth or len(passes) != wanted or any({r.key for r in one} != set(truth) for one in passes.values()):
        why = Reason(
            "nothing to compare",
            found=f"{len(passes)} passes over {len(truth)} prompts",
            expected=f"{wanted} passes over all",
            where=gate.subject[0],
        )
        return _verdict(gate, "invalid", (why,), inputs)
    broken: list[Divergence] = []
    counts = []
    for name, results in passes.items():
        here = [d for r in results if (d := divergence(r.key, name, r.token_ids, truth[r.key]))]
        counts.append((len(results) - len(here), len(results)))
        broken += here
    sites = set(truth) - {d.site for d in broken}
    samples = [
        (ids, *(r.token_ids for one in passes.values() for r in one if r.key == key)) for key, ids in truth.items()
    ]
    k, n = sum(c[0] for c in counts), sum(c[1] for c in counts)
    return _counted(gate, k, n, len(sites), len(truth), broken, tuple(counts), minority_share(samples), inputs)


def _passes(results: Sequence[RequestResult]) -> dict[str, list[RequestResult]]:
    made: dict[str, list[RequestResult]] = {}
    for r in results:
        if r.batch.startswith(PASS):
            made.setdefault(r.batch, []).append(r)
    return made


def _counted(
    gate: Gate, k: int, n: int, sites_k: int, sites_n: int, broken: Sequence[Divergence],
    passes: tuple[tuple[int, int], ...], share: float | None, inputs: tuple[Input, ...],
) -> Verdict:  # fmt: skip
    reasons: tuple[Reason, ...] = ()
    if broken:
        first = min(broken, key=lambda d: d.index)
        what = f"{n - k} of {n} outputs left the oracle, the earliest at token {first.index}"
        reasons = (
            Reason("not identical", found=f"{k}/{n}", expected=f"{n}/{n}", where=f"{first.batch}/{first.site}"),
            Reason(what),
        )
    return Verdict(
        gate.id, gate.kind, gate.title, "qualified" if k == n else "withheld", k, n, sites_k, sites_n, lower_bound(sites_k, sites_n),
        reasons, tuple(broken[:SHOWN_DIVERGENCES]), passes, share, gate.guards, inputs,
    )  # fmt: skip


def _verdict(gate: Gate, state: str, reasons: tuple[Reason, ...], inputs: tuple[Input, ...]) -> Verdict:
    """A verdict without a comparison."""
    return Verdict(gate.id, gate.kind, gate.title, state, 0, 0, 0, 0, None, reasons, (), (), None, gate.guards, inputs)  # type: ignore[arg-type]
