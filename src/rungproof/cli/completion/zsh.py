"""The script for zsh."""

from rungproof.cli.completion.tree import Command, Option, Value

HEAD = r"""#compdef rungproof
# Completion of rungproof for zsh. Save it as _rungproof in a folder of $fpath, or: source <(rungproof completion zsh)
_rungproof_config() {
    local -a found
    found=(config/$1/*.yaml(N:t:r))
    compadd -a found
}
"""
TAIL = r"""if [[ "$funcstack[1]" == _rungproof ]]; then _rungproof "$@"; else compdef _rungproof rungproof; fi
"""

BRANCH = """{function}() {{
    local state line
    local -a offered
    _arguments -C {options}
    case $state in
        command) offered=({offered}); _describe command offered ;;
        rest) case $words[1] in
{cases}
        esac ;;
    esac
}}
"""


def script(commands: list[Command]) -> str:
    """The whole script: one function a command, the deepest first."""
    return HEAD + "".join(_function(c) for c in reversed(commands)) + TAIL


def _name(path: tuple[str, ...]) -> str:
    return "_".join(("_rungproof", *path))


def _function(command: Command) -> str:
    words = [part for option in command.options for part in _option(option)]
    if not command.below:
        words += [
            f"'{place}:{_text(value.name)}:{_action(value)}'" for place, value in enumerate(command.values, start=1)
        ]
        listed = " \\\n        ".join(words)
        return (
            f"{_name(command.path)}() {{\n    _arguments {listed}\n}}\n"
            if words
            else f"{_name(command.path)}() {{ _files; }}\n"
        )
    listed = " \\\n        ".join([*words, "'1: :->command'", "'*:: :->rest'"])
    described = " ".join(f"'{name}:{_text(text)}'" for name, text in command.below)
    cases = "\n".join(f"            {name}) {_name((*command.path, name))} ;;" for name, _ in command.below)
    return BRANCH.format(function=_name(command.path), options=listed, offered=described, cases=cases)


def _option(option: Option) -> list[str]:
    value = f":{_text(option.value.name)}:{_action(option.value)}" if option.value else ""
    return [f"'{name}[{_text(option.help)}]{value}'" for name in option.names]


def _action(value: Value) -> str:
    if value.choices:
        return f"({' '.join(value.choices)})"
    if value.config:
        return f" _rungproof_config {value.config}"  # the space: no further arguments are put in
    return "_files" if value.files else "_files -/" if value.folders else " "


def _text(text: str) -> str:
    """Text inside single quotes and the brackets of a specification."""
    for mark in "\\[]:":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("'", "'\\''")
