"""Comparing gates: pure functions from judged attempts to a verdict. A gate that has nothing to compare never qualifies."""

from collections.abc import Sequence
from dataclasses import replace

from rungproof.judge.binding import differing
from rungproof.judge.identity import Sample, agreement, divergence, minority_share
from rungproof.judge.numbers import headline_of
from rungproof.judge.rungs import Pass, rung_of
from rungproof.judge.stats import lower_bound, mean
from rungproof.records.formats import Divergence, Input, Judged, Reason, RequestResult, Verdict
from rungproof.records.plan import Gate
from rungproof.records.requests import prompt_key

ORACLE = "oracle-"
PASS = "pass-"
MIXED_WITHIN = (
    4  # tokens; prompts of one text may flip into each other's output at a tie, but not from the very beginning
)
SHOWN_DIVERGENCES = 200  # a verdict lists at most so many; k and n always count all


def judge_gate(gate: Gate, subject: Judged | None, oracle: Judged | None, inputs: tuple[Input, ...]) -> Verdict:
    """The verdict of one comparison. `subject` or `oracle` None: not measured at all.

    qualified: every compared output is identical to its oracle, and there was at least one to compare.
    withheld: measured and compared, but not all identical. invalid: one side is no sound measurement. skipped: left out by a gate.
    """
    for side, name in ((subject, gate.subject[0]), (oracle, gate.oracle[0])):
        if side is None:
            return uncompared(
                gate, "invalid", (Reason("nothing to compare", found="no measurement", where=name),), inputs
            )
        if side.state == "skipped":
            return uncompared(gate, "skipped", side.reasons, inputs)
        if side.state != "accepted":
            why = Reason(
                "nothing to compare",
                found=f"{side.state}: {side.reasons[0].after(name) if side.reasons else 'no reason kept'}",
                where=name,
            )
            return uncompared(gate, "invalid", (why,), inputs)
    assert subject is not None and oracle is not None
    stale = stale_reasons(subject, oracle)
    if stale:
        return uncompared(gate, "invalid", stale, inputs)
    verdict = _rung(gate, subject, inputs) if gate.kind == "ladder_rung" else _pairs(gate, subject, oracle, inputs)
    return replace(verdict, reasons=(*verdict.reasons, *unused_drafts(gate, subject))) if verdict.n else verdict


def stale_reasons(subject: Judged, oracle: Judged) -> tuple[Reason, ...]:
    """Why the oracle's tokens are no truth for the subject: another image, kernel, parallelism, model or suite. One reason each."""
    where = f"{subject.session} against {oracle.session}"
    found = [
        Reason("stale oracle", found=f"another {name}", expected="the same", where=where)
        for name in differing(subject.identity_parts, oracle.identity_parts)
    ]
    if not found and subject.identity_sha256 != oracle.identity_sha256:
        found = [Reason("stale oracle", found="another identity", expected="the same", where=where)]
    if subject.spec.get("suite_sha256") != oracle.spec.get("suite_sha256"):
        found.append(Reason("stale oracle", found="another suite", expected="the same", where=where))
    return tuple(found)


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
    truth = {r.key: r for r in oracle.requests}
    got = {r.key: r for r in subject.requests}
    if not truth or set(truth) != set(got) or len(truth) != len(oracle.requests) or len(got) != len(subject.requests):
        why = Reason(
            "nothing to compare",
            found=f"{len(got)} prompts",
            expected=f"{len(truth)}, the same ones",
            where=gate.subject[0],
        )
        return uncompared(gate, "invalid", (why,), inputs)
    broken = [d for key, r in truth.items() if (d := divergence(key, got[key].batch, got[key].token_ids, r.token_ids))]
    samples = [_sample(r, oracle=True) for r in truth.values()] + [_sample(r) for r in got.values()]
    prompts = {prompt_key(key) for key in truth}
    off = {prompt_key(d.site) for d in broken}
    k, n = len(truth) - len(broken), len(truth)
    return _counted(gate, not broken, (k, n), (len(prompts - off), len(prompts)), broken, (), samples, inputs)


def judge_spread(gate: Gate, judged: Sequence[Judged], inputs: tuple[Input, ...]) -> Verdict:
    """Whether the headlines of an arm's fresh servers lie near each other: (highest - lowest) / mean at most the rule's `limit`.

    Past it two servers are withheld, until there are as many as the rule names, whose spread is then shown as it is.
    With fewer than two sound headlines there is nothing to compare.
    """
    values = [v for j in judged if j.state == "accepted" and (v := headline_of(gate.rule["classes"], j)) is not None]
    if len(values) < 2:
        why = Reason("nothing to compare", found=f"{len(values)} fresh servers with a headline", expected="at least 2")
        return uncompared(gate, "invalid", (why,), inputs)
    spread, limit = (max(values) - min(values)) / mean(values), float(gate.rule["limit"])
    found, expected = f"{100 * spread:.2f} % over {len(values)} fresh servers", f"at most {100 * limit:g} %"
    if spread <= limit:
        return uncompared(gate, "qualified", (), inputs)
    if len(values) >= int(gate.rule["servers"]):
        return uncompared(
            gate, "qualified", (Reason("spread past its limit, shown as it is", found, expected),), inputs
        )
    return uncompared(
        gate,
        "withheld",
        (Reason("spread: a third fresh server is needed, which the next call measures", found, expected),),
        inputs,
    )


def _rung(gate: Gate, subject: Judged, inputs: tuple[Input, ...]) -> Verdict:
    """Every request of every pass against its own one-at-a-time answer on the same server, by the rule of the gate."""
    truth = {r.key: r.token_ids for r in subject.requests if r.batch.startswith(ORACLE)}
    passes = passes_by_name(subject.requests)
    wanted, requests = int(subject.spec["passes"]), int(subject.spec["concurrency"])
    whole = all(len(one) == requests and {prompt_key(r.key) for r in one} == set(truth) for one in passes.values())
    if not truth or len(passes) != wanted or not whole:
        why = Reason(
            "nothing to compare",
            found=f"{len(passes)} passes over {len(truth)} prompts",
            expected=f"{wanted} passes of {requests} requests over all",
            where=gate.subject[0],
        )
        return uncompared(gate, "invalid", (why,), inputs)
    broken: list[Divergence] = []
    counts = []
    for name, results in passes.items():
        here = [d for r in results if (d := divergence(r.key, name, r.token_ids, truth[prompt_key(r.key)]))]
        counts.append((len(results) - len(here), len(results)))
        broken += here
    sites = set(truth) - {prompt_key(d.site) for d in broken}
    exact = rung_of({"exact": "every-pass", "shown": "last", **gate.rule}, [Pass(k, n, None) for k, n in counts]).exact
    samples = [
        _sample(r, oracle=r.batch.startswith(ORACLE)) for r in subject.requests if r.batch.startswith((ORACLE, PASS))
    ]
    whole_count = (sum(k for k, _ in counts), sum(n for _, n in counts))
    return _counted(gate, exact, whole_count, (len(sites), len(truth)), broken, tuple(counts), samples, inputs)


def breaks_of(judged: Judged) -> dict[str, tuple[int, int]]:
    """Of a rung, for each prompt: how many of its outputs left the oracle, of how many, over all passes and copies."""
    truth = {r.key: r.token_ids for r in judged.requests if r.batch.startswith(ORACLE)}
    made: dict[str, tuple[int, int]] = {}
    for name, results in passes_by_name(judged.requests).items():
        for r in results:
            prompt = prompt_key(r.key)
            off = divergence(r.key, name, r.token_ids, truth.get(prompt, ())) is not None
            broke, of = made.get(prompt, (0, 0))
            made[prompt] = (broke + off, of + 1)
    return made


def passes_by_name(results: Sequence[RequestResult]) -> dict[str, list[RequestResult]]:
    """The requests of each pass, in the order in which the passes were run."""
    made: dict[str, list[RequestResult]] = {}
    for r in results:
        if r.batch.startswith(PASS):
            made.setdefault(r.batch, []).append(r)
    return made


def _sample(r: RequestResult, oracle: bool = False) -> Sample:
    return Sample(r.key, r.batch, r.token_ids, r.body_sha256, oracle)


def _counted(
    gate: Gate, exact: bool, repeats: tuple[int, int], sites: tuple[int, int], broken: Sequence[Divergence],
    passes: tuple[tuple[int, int], ...], samples: Sequence[Sample], inputs: tuple[Input, ...],
) -> Verdict:  # fmt: skip
    k, n = repeats
    view = agreement(samples)
    reasons: list[Reason] = []
    off = {(d.batch, d.site) for d in broken if d.index < MIXED_WITHIN}
    mixed = [c for c in view.collisions if (c.batch, c.site) in off]
    if mixed:
        one = mixed[0]
        what = f"{one.batch}/{one.site} and {one.other_batch}/{one.other_site} have one and the same output"
        reasons.append(Reason("requests mixed up", found=what, expected="different outputs of different prompts"))
    if broken:
        first = min(broken, key=lambda d: d.index)
        reasons.append(
            Reason("not identical", found=f"{k}/{n}", expected=f"{n}/{n}", where=f"{first.batch}/{first.site}")
        )
        reasons.append(Reason(f"{n - k} of {n} outputs left the oracle, the earliest at token {first.index + 1}"))
    by_prompt: dict[str, list[tuple[int, ...]]] = {}
    for one_sample in samples:
        by_prompt.setdefault(prompt_key(one_sample.site), []).append(one_sample.ids)
    good = exact and not mixed
    return Verdict(
        gate.id, gate.kind, gate.title, "qualified" if good else "withheld", k, n, *sites, lower_bound(*sites),
        tuple(reasons), tuple(broken[:SHOWN_DIVERGENCES]), passes, minority_share(list(by_prompt.values())), gate.guards, inputs,
        () if good else gate.guards, lower_bound(k, n), view, gate.rule,
    )  # fmt: skip


def uncompared(gate: Gate, state: str, reasons: tuple[Reason, ...], inputs: tuple[Input, ...]) -> Verdict:
    """A verdict that counts no outputs; unless it is qualified it stops all that the gate guards."""
    stops = () if state == "qualified" else gate.guards
    return Verdict(
        gate.id, gate.kind, gate.title, state, 0, 0, 0, 0, None, reasons, (), (), None, gate.guards, inputs, stops,  # type: ignore[arg-type]
        rule=gate.rule,
    )  # fmt: skip
