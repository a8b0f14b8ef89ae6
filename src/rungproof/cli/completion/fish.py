"""The script for fish."""

from rungproof.cli.completion.tree import Command, Value

HEAD = """# Completion of rungproof for fish. Save it as ~/.config/fish/completions/rungproof.fish
function __rungproof_config
    for file in config/$argv[1]/*.yaml
        string replace -r '\\.yaml$' '' (basename $file)
    end
end
complete -c rungproof -f
"""


def script(commands: list[Command]) -> str:
    """The whole script: a line a command, option and value."""
    return HEAD + "".join(f"{line}\n" for c in commands for line in _lines(c))


def _lines(command: Command) -> list[str]:
    where = f"complete -c rungproof -n {_quoted(_condition(command))}"
    lines = [f"{where} -a {name} -d {_quoted(text)}" for name, text in command.below]
    for option in command.options:
        names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names)
        value = ""
        if option.value:
            value = " -r -F" if option.value.files else f" -x{_offer(option.value)}"
        lines.append(f"{where} {names}{value} -d {_quoted(option.help)}")
    lines += [f"{where}{offer}" for value in command.values if (offer := _offer(value))]
    return lines


def _condition(command: Command) -> str:
    """This command, and none below it, has been typed."""
    if not command.path:
        return "__fish_use_subcommand"
    seen = [f"__fish_seen_subcommand_from {name}" for name in command.path]
    if command.below:
        seen.append(f"not __fish_seen_subcommand_from {' '.join(name for name, _ in command.below)}")
    return "; and ".join(seen)


def _offer(value: Value) -> str:
    if value.choices:
        return f" -a {_quoted(' '.join(value.choices))}"
    if value.config:
        return f" -a {_quoted(f'(__rungproof_config {value.config})')}"
    return " -F" if value.files else f" -a {_quoted('(__fish_complete_directories)')}" if value.folders else ""


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
