"""Every command with what its help teaches: what it does, in words, and examples to copy."""

import argparse

from rungproof.cli import (
    compare,
    doctor,
    from_command,
    inspect,
    lane,
    measure,
    published,
    replay,
    selftest,
    tokens,
    verify,
)
from rungproof.cli.command import Command, none
from rungproof.cli.commands_machine import MACHINE


def _verified(to: argparse.ArgumentParser) -> None:
    verify.add_options(to)
    tokens.add_options(to)


COMMANDS = (
    Command(
        ("plan",),
        "what a campaign would measure now, how long and how much disk",
        """\
Show what the next call of a campaign would do: which fresh servers it starts, what it measures
on each, about how many minutes and how much disk that takes. Nothing is started or written.
What already has a result is not measured again, so it is not listed.
With --power, also how many fresh servers and minutes a wanted half-width would cost.
""",
        (
            "rungproof plan campaign_v2",
            "rungproof plan campaign_v2 --host simulated",
            "rungproof plan campaign_v2 --power 0.5 --spread 1",
        ),
        inspect.add_plan_options,
        inspect.plan,
    ),
    Command(
        ("status",),
        "what is qualified, withheld and still to do",
        """\
Show every point of a campaign: qualified (output proven identical), withheld (measured, not
identical), invalid (the measurement is unsound), failed, missing; each with k of n identical
outputs and its first reason. Then how many items are accepted, withheld, being measured and to
do, what is left of a call that runs on this machine, and what the next call would measure.
""",
        ("rungproof status campaign_v2",),
        inspect.add_options,
        inspect.status,
    ),
    Command(
        ("watch",),
        "a live page while a campaign runs, on this machine alone",
        """\
Serve one page on 127.0.0.1 that shows what is accepted, withheld, being measured and to do, with
the values as they are accepted, and how long it takes still. The page needs no script and asks
again by itself. Nothing is locked, asked or changed; Ctrl-C ends it.
""",
        ("rungproof watch campaign_v2", "rungproof watch campaign_v2 --host simulated --port 0"),
        inspect.add_watch_options,
        inspect.watch,
    ),
    Command(
        ("gates",),
        "every gate with its state, figures and reasons",
        """\
List every gate of a campaign: its rule, its state, the sites (prompts) and outputs that were
identical, what the sites support at 95 % confidence, and how many of the points it guards it
stops. A gate without a verdict, or whose files have changed since, has not passed.
Exit code 1 where one has not passed.
""",
        ("rungproof gates campaign_v2", "rungproof gates campaign_v2 --bound 99", "rungproof gates campaign_v2 --json"),
        inspect.add_gates_options,
        inspect.gates,
    ),
    Command(
        ("explain",),
        "why a point is withheld or invalid, and what to try",
        """\
Tell in words why a point is what it is: where its outputs left their oracle, how they went on,
what else broke at that batch shape, and what to try.
""",
        ("rungproof explain campaign_v2 bf16/ladder/c4",),
        inspect.add_explain_options,
        inspect.explain,
    ),
    Command(
        ("show",),
        "one record with every request, its gates and files",
        """\
Show what was measured of one item on each of its servers: every batch and request with state,
tokens, rates and how it stands against its oracle, the gates that guard it, the server's
counters, and the files behind it. CAMPAIGN may be a results folder or a pack, too.
""",
        ("rungproof show campaign_v2 bf16/ladder/c4", "rungproof show results/campaign_v2 w4a16.b/strict/suite --text"),
        inspect.add_show_options,
        inspect.show,
    ),
    Command(
        ("suite",),
        "suites made from what was measured",
        "A suite is a file of prompts under config/suites/.\n",
        ("rungproof suite tie campaign_v2 bf16/ladder/c16 --id ties-bf16",),
        none,
        None,
    ),
    Command(
        ("suite", "tie"),
        "the prompts that broke at a rung, with how often",
        """\
Write a suite of those prompts of a rung whose outputs left the oracle, with how many of their
outputs did. Run the rung many times first (passes up to 20); then name the suite in a workload,
with `copies` to send each prompt several times at once.
""",
        ("rungproof suite tie campaign_v2 bf16/ladder/c16 --id ties-bf16",),
        inspect.add_tie_options,
        inspect.tie,
    ),
    Command(
        ("verify",),
        "check a proof pack, or a campaign's results, level by level",
        """\
Check a pack (a folder, a zip, or an address of a zip), or a results folder, and print each level:
L0 bytes, L1 signer, L2 numbers, L3 identity, L4 sense (docs/verify.md). Every number is made again
from the raw bytes by the installed program, not by the pack's own. Needs no server. Exit code 10
to 14: the first level that failed. A results folder has no L0 and L1: it is told so.
With --tokens the answers are put through the model's pinned weights again, on the processor, by
the server environment's Python: each emitted token must be the likeliest, or within a margin.
""",
        (
            "rungproof verify results/campaign_v2",
            "rungproof verify reports/campaign_v2/0123456789ab --trust lab.pem --log reports/log.jsonl",
            "rungproof verify https://lab.example/reports/campaign_v2/0123456789ab.zip --trust lab.pem --json",
            "rungproof verify --tokens results/campaign_v2 --arm w4a16",
        ),
        _verified,
        inspect.verify,
    ),
    Command(
        ("compare",),
        "packs beside each other: what differs, then ratios",
        """\
Set packs, or results folders, beside the first one: conditions that differ come first, then each
rate with its ratio and what its fresh servers allow to say. A rate is compared only where both
are qualified, with the same suite under the same rules, on one class of host; all else is told
with the reason. Exit code 1 where not one rate could be compared.
""",
        (
            "rungproof compare reports/campaign_v2/0123456789ab reports/campaign_v2/ba9876543210",
            "rungproof compare results/one results/two --pair base=base-new --out compared",
        ),
        compare.add_options,
        compare.run,
    ),
    Command(
        ("log",),
        "what was published, superseded, withdrawn and replayed",
        "reports/log.jsonl tells every change of what is published; each line is bound to the one before it.\n",
        ("rungproof log verify",),
        none,
        None,
    ),
    Command(
        ("log", "verify"),
        "check the log: its chain, its signatures, the packs that it names",
        """\
Check reports/log.jsonl: that no line was changed, taken out or put in, that signatures hold, that the packs
lie there with the bytes that it names, and that no merged replay is gone. Exit code 1 where something is
wrong, 4 where the chain is broken.
""",
        ("rungproof log verify", "rungproof log verify --reports /elsewhere/reports"),
        published.add_log_options,
        published.verify_log,
    ),
    Command(
        ("withdraw",),
        "say that a published pack is taken back, and why",
        """\
Say in the published log and on the pack's own pages that it is withdrawn, and why. Its files stay:
what was said is not unsaid. Entry and pages are signed by the key that signed the pack.
""",
        ("rungproof withdraw reports/campaign_v2/0123456789ab --reason 'the client was starved'",),
        published.add_withdraw_options,
        published.take_back,
    ),
    Command(
        ("replay",),
        "measure a published plan again here, compare, and sign what came of it",
        """\
Verify a pack, look whether this machine can serve its plan, build environments and models from the
pack's pins, measure the plan as it was, and hold every output token against the published ones;
rates are compared within 2 % where the hosts are comparable. Gives a report and a signed line to
send to the publisher. The same command again goes on after an interruption. With --recompute
nothing is measured: every level of verification is recomputed, and that is signed.
`rungproof replay merge PACK LINE...` takes such lines into a pack and draws its page again.
Exit code 1 where the published tokens did not come again; the report and line say so, too.
""",
        (
            "rungproof replay reports/campaign_v2/0123456789ab",
            "rungproof replay reports/campaign_v2/0123456789ab --recompute",
            "rungproof replay merge reports/campaign_v2/0123456789ab line.intoto.jsonl",
        ),
        replay.add_options,
        replay.run,
    ),
    Command(
        ("doctor",),
        "what this machine lacks for a campaign, and how to mend it",
        """\
Look, before an accelerator is used, at what a campaign needs: processor, memory, disk, ports, limits,
governor, other load, devices, container engine and images, package index, host lock and latch. Each
thing that is lacking is told with its fix. Nothing is started or changed. Exit code 1 where
something is lacking; warnings alone give 0.
""",
        ("rungproof doctor", "rungproof doctor smoke --host cpu --json"),
        doctor.add_options,
        doctor.run,
    ),
    Command(
        ("lane",),
        "how the server of a lane is launched",
        "A lane is a model, its quantisation, an engine and a class of host: how a server is launched.\n",
        ("rungproof lane show smollm2-f32",),
        none,
        None,
    ),
    Command(
        ("lane", "show"),
        "its command, its environment, and what is verified",
        """\
Show exactly how the server of a lane is launched: the command, its environment, and where each
argument and variable is looked up again in the running server. What differs from machine to
machine stands as <python>, <model>, <port>. Nothing is started.
""",
        (
            "rungproof lane show smollm2-f32",
            "rungproof lane show smollm2-w4a16 --campaign campaign_v2 --arm w4a16-draft3",
        ),
        lane.add_options,
        lane.show,
    ),
    Command(
        ("lane", "from-command"),
        "turn a launch command into a lane file",
        """\
Turn the command by which a server is started today, or a `docker run` line, into a lane file on
standard output. What rungproof sets itself (name, port, mounts), what looks like a secret and what
must be mended is told in comments. Nothing is run. Exit code 1 where it must be mended.
""",
        (
            "rungproof lane from-command 'vllm serve org/model --dtype bfloat16' > config/lanes/mine.yaml",
            "rungproof lane from-command 'docker run --device /dev/dri IMAGE --model org/model' --model mine",
        ),
        from_command.add_options,
        from_command.run,
    ),
    *MACHINE,
    Command(
        ("selftest",),
        "is the measuring itself true on this machine",
        "Checks of rungproof's own instruments on this machine.\n",
        ("rungproof selftest client --streams 128 --interval-ms 20",),
        none,
        None,
    ),
    Command(
        ("selftest", "client"),
        "how late, how dear and how fast the client is here",
        """\
Hold the client against a server on this machine whose events carry the server's own send
stamps: how late the client's stamps are, what an event costs in processor time, and the highest
rate of events at which the stamps stay true. Takes about five seconds. A campaign does the same
on each of its servers, at its own concurrency.
""",
        (
            "rungproof selftest client --streams 128 --interval-ms 20",
            "rungproof selftest client --streams 1024 --interval-ms 20 --json",
        ),
        selftest.add_options,
        selftest.client,
    ),
    Command(
        ("measure",),
        "measure a server that already runs: figures, no proof",
        """\
Measure an OpenAI-compatible server that already runs, with the client, the requests and the
judge of a campaign's ladder: for each concurrency its prompts one at a time, then passes of all
at once. Gives speed, times to first token, and how many outputs are identical to those given
one at a time. What rungproof did not launch cannot be qualified: these are figures, no proof.
Exit code 1 if any request did not complete.
""",
        (
            "rungproof measure --url http://127.0.0.1:8000",
            "rungproof measure --url http://127.0.0.1:8080 --plain --concurrency 1,8 --tokens 256",
            "rungproof measure --url http://gpu7:8000/v1 --model NAME --prompts prompts.txt --out measured --json",
        ),
        measure.add_options,
        measure.run,
    ),
)
