"""The command `rungproof`: words and exit codes only. `snakemake` measures, `rungproof` inspects and proves."""

import argparse
import sys
from collections.abc import Callable, Sequence

from rungproof import __version__
from rungproof.cli.command import Command
from rungproof.cli.commands import COMMANDS
from rungproof.cli.completion import SHELLS, script
from rungproof.cli.words import clean_lines
from rungproof.records.errors import ConfigError, EvidenceError, HostError, RungproofError, ServerError, SetupError

EXIT_CODE: dict[type[RungproofError], int] = {
    ConfigError: 2,
    HostError: 3,
    EvidenceError: 4,
    SetupError: 5,
    ServerError: 6,
}
EPILOG = """\
start here, in a checkout:
  rungproof doctor                      what this machine lacks for it
  rungproof plan                        what the next call would measure; starts nothing
  snakemake campaign_v2 --cores 1       measure it
  rungproof status                      every point with its state and reason
  rungproof verify results/campaign_v2  compute every number again from the raw bytes
  snakemake publish --cores 1 --config campaign=campaign_v2   make a proof pack of it

exit codes: 0 done; 1 something is not as it should be; 2 options or configuration;
3 this machine; 4 damaged records; 5 setting up; 6 a server; 130 interrupted;
10 to 14, of verify alone: the first level that failed, L0 to L4.
`rungproof COMMAND --help` explains a command and gives examples.
"""
COMPLETION = """\
Print a script that completes commands, options, and in a checkout the names of campaigns, lanes
and hosts.
"""
COMPLETION_EXAMPLES = (
    "source <(rungproof completion bash)",
    "rungproof completion zsh > ~/.zfunc/_rungproof",
    "rungproof completion fish > ~/.config/fish/completions/rungproof.fish",
)


def parser() -> argparse.ArgumentParser:
    """The command line of `rungproof`."""
    made = argparse.ArgumentParser(
        prog="rungproof", description=__doc__.splitlines()[0], epilog=EPILOG, formatter_class=_layout
    )
    made.add_argument("--version", action="version", version=f"rungproof {__version__}")
    below: dict[tuple[str, ...], argparse._SubParsersAction[argparse.ArgumentParser]] = {}
    below[()] = made.add_subparsers(dest="word", required=True, metavar="COMMAND")
    shells = Command(
        ("completion",), "completion for bash, zsh or fish", COMPLETION, COMPLETION_EXAMPLES, _shell, _completion
    )
    for command in (*COMMANDS, shells):
        epilog = "\n".join(["examples:", *(f"  {line}" for line in command.examples)])
        one = below[command.path[:-1]].add_parser(
            command.path[-1],
            help=command.short,
            description=command.teaches,
            epilog=epilog,
            formatter_class=_layout,
        )
        command.add_options(one)
        if command.run is None:
            below[command.path] = one.add_subparsers(dest="word", required=True, metavar="COMMAND")
        else:
            one.set_defaults(run=command.run)
    below[()].add_parser("simulate", help="the simulated server of the tests; it has its own --help", add_help=False)
    return made


def _layout(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=26)


def _shell(to: argparse.ArgumentParser) -> None:
    to.add_argument("shell", choices=sorted(SHELLS), help="the shell")


def _completion(options: argparse.Namespace) -> int:
    print(script(options.shell, parser()), end="")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Exit code 0: done; 1: something is not as it should be; 2-6: see EXIT_CODE."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["simulate"]:
        from rungproof.measure.simulated import main as simulate  # its own long command line

        return simulate(words[1:])
    if not words:
        parser().print_help(sys.stderr)
        return EXIT_CODE[ConfigError]
    options = parser().parse_args(words)
    return carried_out(options.run, options)


def carried_out(run: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """The exit code of a command; an error of ours is one line."""
    try:
        return int(run(options))
    except RungproofError as error:
        print(f"rungproof: {clean_lines(error)}", file=sys.stderr)
        return EXIT_CODE.get(type(error), 1)
