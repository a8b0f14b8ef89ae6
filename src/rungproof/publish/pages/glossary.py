"""Terms of the field: what each one means, and a link to that from where a page first uses it."""

import re
from dataclasses import dataclass

from markupsafe import Markup, escape


@dataclass(frozen=True, slots=True)
class Term:
    """One term. `found`: a regular expression of the words that it goes by in running text."""

    key: str
    name: str
    found: str
    text: str


TERMS = (
    Term("lane", "Lane", r"lanes?",
        "Model, quantisation, engine and host class: how a server is launched."),
    Term("arm", "Arm", r"arms?",
        "One lane with one configuration in this campaign."),
    Term("seat", "Seat", r"seats?",
        "An arm and one of its fresh servers, such as base.a."),
    Term("session", "Session, fresh server", r"sessions?|fresh servers?",
        "One server process started for this, with empty compile caches, and everything measured on it. It is"
        " what is repeated: servers, not prompts, are the unit of replication."),
    Term("oracle", "Oracle", r"oracles?",
        "The token ids taken as truth. For strict and depth: the arm of the same lane without speculation. "
        "For a ladder: one pass, one request at a time, on the same server just before."),
    Term("identity", "Identity, identical", r"identity|identical",
        "The complete arrays of output token ids are equal, and each length equals the completion tokens that"
        " the server counted. Text, prefixes and log probabilities are not compared."),
    Term("token", "Token", r"tokens?",
        "The piece of text, with a number (its id), that a model reads and writes; about three quarters of an"
        " English word."),
    Term("decode", "Decode rate", r"decode rate",
        "(w − 1) / (t_w − t_1) in tokens a second, where t_k is the arrival of the event that carries token "
        "k. Prefill and queueing before the first token are left out. A request with fewer than w tokens has "
        "no rate."),
    Term("window", "Window", r"window",
        "The first w tokens of an answer, over which its decode rate is taken. Tokens that arrive in one "
        "event share one time, so a draft that lands several at once gains nothing by it."),
    Term("aggregate", "Aggregate rate", r"aggregate(?: rate)?",
        "All completion tokens of one batch, divided by the wall time from before the first send to the last "
        "token. Prefill is inside. It is a sum over users, never a mean of their rates."),
    Term("per-user", "Rate per user", r"(?:rate )?per user",
        "The aggregate rate divided by the number of users at once."),
    Term("ttft", "Time to first token (TTFT)", r"time to first token|TTFT",
        "From sending a request to the arrival of its first token; waiting in the server's queue and prefill "
        "are inside."),
    Term("prefill", "Prefill", r"prefill",
        "Reading the prompt, before the first token of the answer."),
    Term("speculation", "Speculation, draft", r"speculati\w+|drafts?|drafted",
        "Cheap guesses at the next tokens, which the model checks several at a time. Where it is lossless the"
        " output stays the same and only the speed changes."),
    Term("lossless", "Lossless", r"lossless",
        "With speculation the output is identical to that without, token for token, on everything that was "
        "compared, and the lane without it repeats itself on a second fresh server."),
    Term("step", "Step", r"steps?",
        "One run of the engine over its batch. Step time is the median between two events of a request; it is"
        " not the time of a token where a step yields several."),
    Term("acceptance", "Acceptance length", r"acceptance length",
        "1 + accepted / drafts: how many tokens a step yields on average, from the server's own counters."),
    Term("strict", "Strict suite", r"strict(?: suite)?",
        "A fixed set of prompts in classes, one request at a time, answers as the model ends them. Its "
        "headline is per server the median of the class medians of the decode rate, and the mean of the "
        "servers."),
    Term("ladder", "Ladder", r"ladders?",
        "The same requests at growing numbers of users at once."),
    Term("rung", "Rung, pass", r"rungs?|pass(?:es)?",
        "A rung is one number of users at once; a pass is one sweep over all of them."),
    Term("depth", "Context depth", r"context depths?|depths?",
        "How many tokens the prompt has before the answer begins."),
    Term("short", "Short prompts", r"short prompts?",
        "Prompts of one token and a few more, where speculation has little to go by and faults have hidden."),
    Term("canary", "Canary", r"canar(?:y|ies)",
        "Small fixed checks before and after everything measured on a server."),
    Term("gate", "Gate, verdict", r"gates?|verdicts?",
        "A rule that a number must pass, and the file that says whether it did."),
    Term("qualified", "Qualified", r"qualified",
        "Measured, and passed all its gates."),
    Term("withheld", "Withheld", r"withheld",
        "Measured soundly, but the output was not identical. Shown with its value and count, never as a "
        "claim."),
    Term("invalid", "Invalid", r"invalid",
        "Measured, but unsound: a cache hit, a preemption, a lost or short request, a changed server."),
    Term("failed", "Failed, skipped, missing", r"failed|skipped|missing",
        "No measurement came of it; a gate before it stopped it; not attempted yet."),
    Term("kn", "k of n", r"k of n|k/n",
        "Outputs identical to their oracle, of outputs compared."),
    Term("site", "Site", r"sites?",
        "One prompt over all its repeats. Repeats of one prompt are not independent."),
    Term("bound", "Bound", r"bound",
        "The lowest share of identical outputs that a count supports: exact (Clopper-Pearson), one-sided, at "
        "95 % confidence."),
    Term("range", "Range", r"range",
        "Lowest and highest of the values. Of one to three servers no more can be said; it is no interval of "
        "confidence."),
    Term("p99", "p50, p99", r"p50|p99",
        "Half, or 99 of 100, of the values are no greater."),
    Term("knob", "Knob", r"knobs?",
        "An argument or variable with which a server was asked to start."),
    Term("regime", "Captured graph", r"captured (?:graphs?|batch)",
        "Work recorded once by the engine and replayed for batches up to a size; larger ones run another way."),
    Term("tie", "Tie, margin", r"ties?|margins?",
        "How far apart the log probabilities of the two likeliest tokens are; near 0, rounding decides."),
    Term("replay", "Recompute, replay", r"recomputed?|replay(?:ed)?",
        "To recompute is to make every number again from the raw bytes. To replay is to measure the plan "
        "again on another machine."),
    Term("plan", "Plan", r"plan",
        "Everything that was fixed before the first request; its digest names it."),
    Term("projected", "Projected", r"projected|projection",
        "Computed by a model of the hardware, not measured. It is never shown among measured numbers."),
)  # fmt: skip
# Text in these is not running text of ours, or is a link already.
CLOSED = frozenset(
    ("a", "bdi", "code", "data", "h1", "h2", "h3", "svg", "style", "title", "nav", "label", "dt", "dd", "caption", "th")
)
VOID = frozenset(("meta", "link", "input", "br"))
_TAG = re.compile(r"(<[^>]+>)")


def linked(page: str, home: str = "") -> str:
    """A page's HTML, in whose <main> the first use of each term in running text has become a link to the glossary.

    `home`: the file that holds the glossary, empty for the page itself. Looks only at text between tags, which is escaped.
    """
    head, opened, rest = page.partition("<main")
    main, ending, tail = rest.partition('<section id="glossary"')
    open_terms = {
        term.key: (term, re.compile(rf"(?<![\w-])(?:{term.found})(?![\w-])", re.IGNORECASE)) for term in TERMS
    }
    closed: list[str] = []
    parts = _TAG.split(opened + main)
    for index, part in enumerate(parts):
        if part.startswith("<"):
            _follow(part, closed)
        elif part.strip() and not closed and open_terms:
            parts[index] = _first_uses(part, open_terms, home)
    return head + "".join(parts) + ending + tail


def _follow(tag: str, closed: list[str]) -> None:
    """Keep the stack of open elements in which nothing is linked."""
    name = re.match(r"</?([a-z0-9]+)", tag)
    if name is None or name[1] in VOID or tag.endswith("/>"):
        return
    if tag.startswith("</"):
        if closed and closed[-1] == name[1]:
            closed.pop()
    elif name[1] in CLOSED:
        closed.append(name[1])


def _first_uses(text: str, terms: dict[str, tuple[Term, re.Pattern[str]]], home: str) -> str:
    """`text` with links; terms that were found are taken out of `terms`. The longest words that begin first win."""
    made, rest = "", text
    while True:
        found = [(m.start(), -len(m[0]), key, m) for key, (_, pattern) in terms.items() if (m := pattern.search(rest))]
        if not found:
            return made + rest
        _, _, key, match = min(found, key=lambda one: one[:3])
        term, _ = terms.pop(key)
        link = Markup('<a class="g" href="{}#g-{}">').format(home, term.key)
        made += f"{rest[: match.start()]}{link}{match[0]}</a>"
        rest = rest[match.end() :]


def entries() -> list[tuple[str, Markup]]:
    """(anchor, term as a definition with its text), in alphabetical order."""
    return [
        (f"g-{t.key}", Markup("<dt>{}</dt><dd>{}</dd>").format(escape(t.name), escape(t.text)))
        for t in sorted(TERMS, key=lambda t: t.name.lower())
    ]
