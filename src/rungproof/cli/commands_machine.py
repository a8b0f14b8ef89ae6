"""Commands about this machine and what lies on it: environments, models, lock and latch."""

from rungproof.cli import env, given, host
from rungproof.cli.command import Command, none

MACHINE = (
    Command(
        ("env",),
        "what servers ran on",
        "The environment of a server: machine, accelerators, limits, software, as found when it was ready.\n",
        ("rungproof env diff results/campaign_v2/sessions/r001.bf16.a results/campaign_v2/sessions/r002.bf16.a",),
        none,
        None,
    ),
    Command(
        ("env", "diff"),
        "compare two environments, a verdict a key",
        """\
Compare what two servers ran on, key by key: what must be equal, what may differ by a share, and
what is only told. A key that one side alone knows counts as a difference. Exit code 1 where the
two are not the same environment.
""",
        (
            "rungproof env diff results/campaign_v2/sessions/r001.bf16.a results/campaign_v2/sessions/r002.bf16.a",
            "rungproof env diff a/env.json b/env.json --all",
        ),
        env.add_options,
        env.diff,
    ),
    Command(
        ("env", "add"),
        "use an environment that you have, described by its packages",
        """\
Describe an environment in which your engine is installed already, such as a vLLM built for your card:
its Python and the digest of every package go into envs/NAME.packages, and a link to it under the build
folder. It is checked before each server. Where envs/NAME.packages is there, FOLDER is held against it.
""",
        ("rungproof env add vllm-xpu /opt/vllm/.venv",),
        given.add_options,
        given.add_environment,
    ),
    Command(
        ("model",),
        "models of your own",
        "A model is made by a recipe, or it is a folder of your own that is described by the hashes of its files.\n",
        (
            "rungproof model add my-8b-int4 /models/My-8B-int4 --licence Apache-2.0 --quantisation 'int4, groups of 128'",
        ),
        none,
        None,
    ),
    Command(
        ("model", "add"),
        "use a folder of weights that you have, described by its files",
        """\
Describe a folder of weights by the sha256 of each file: config/models/NAME.yaml and NAME.sha256 are
written, and a link to the folder under the build folder. The files are checked before each server.
Where the model is described already, as in a replay, FOLDER is held against its list.
""",
        (
            "rungproof model add my-8b-int4 /models/My-8B-int4 --licence Apache-2.0 --quantisation 'int4 weights, groups of 128'",
            "rungproof model add my-8b-int4 /data/My-8B-int4 --root build/replays/0123456789ab --build build",
        ),
        given.add_model_options,
        given.add_model,
    ),
    Command(
        ("host",),
        "who measures on this machine, and whether it is clean",
        "One server is measured on a machine at a time; a lock says who holds it, a latch that something was left behind.\n",
        ("rungproof host show", "rungproof host clear"),
        none,
        None,
    ),
    Command(
        ("host", "show"),
        "lock, latch and devices",
        """\
Show who holds the lock of this machine (user, campaign, session, since when), whether an earlier
session left something behind, and whether the devices of the host profile are free. Exit code 1
where nothing could be measured now.
""",
        ("rungproof host show", "rungproof host show --host cpu"),
        host.add_options,
        host.show,
    ),
    Command(
        ("host", "clear"),
        "measure again after an unclean end",
        """\
When a process of a session does not end, or a device does not give its memory back, the machine
is latched: no server is started until a person has looked. This takes the latch away, unless the
devices of the host profile are still not free. It ends no process.
""",
        ("rungproof host clear", "rungproof host clear --host cpu"),
        host.add_options,
        host.clear,
    ),
)
