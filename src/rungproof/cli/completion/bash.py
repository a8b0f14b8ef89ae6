"""The script for bash."""

from rungproof.cli.completion.tree import Command, Value

HEAD = r"""# Completion of rungproof for bash. Load it with: source <(rungproof completion bash)
_rungproof_config() {
    local file
    for file in config/"$1"/*.yaml; do
        if [ -e "$file" ]; then file=${file##*/}; printf '%s\n' "${file%.yaml}"; fi
    done
}
_rungproof_offer() { mapfile -t COMPREPLY < <(compgen "$@"); }
_rungproof() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} path="" at
    for ((at = 1; at < COMP_CWORD; at++)); do
        case "$path ${COMP_WORDS[at]}" in
"""
MIDDLE = r"""                path="${path:+$path }${COMP_WORDS[at]}" ;;
        esac
    done
    COMPREPLY=()
    case "$path:$previous" in
"""
TAIL = r"""    esac
}
complete -F _rungproof rungproof
"""


def script(commands: list[Command]) -> str:
    """The whole script."""
    known = [f'"{" ".join(c.path[:-1])} {c.path[-1]}"' for c in commands if c.path]
    lines = [f"            {' | '.join(known)})"]
    asked = []
    for c in commands:
        for option in c.options:
            if option.value is not None:
                names = " | ".join(f'"{" ".join(c.path)}:{name}"' for name in option.names)
                asked.append(f"        {names}) {_offer(option.value)}return ;;")
    offered = []
    for c in commands:
        words = [*(name for name, _ in c.below), *(name for option in c.options for name in option.names)]
        words += [choice for value in c.values for choice in value.choices]
        words += [f"$(_rungproof_config {value.config})" for value in c.values if value.config]
        flags = "".join(" -f" if v.files else " -d" if v.folders else "" for v in c.values[:1])
        files = "compopt -o filenames 2>/dev/null; " if flags else ""
        offered.append(
            f'        "{" ".join(c.path)}") {files}_rungproof_offer{flags} -W "{" ".join(words)}" -- "$current" ;;'
        )
    middle = MIDDLE + "\n".join(asked) + '\n    esac\n    case "$path" in\n'
    return HEAD + "\n".join(lines) + "\n" + middle + "\n".join(offered) + "\n" + TAIL


def _offer(value: Value) -> str:
    if value.choices:
        return f'_rungproof_offer -W "{" ".join(value.choices)}" -- "$current"; '
    if value.config:
        return f'_rungproof_offer -W "$(_rungproof_config {value.config})" -- "$current"; '
    if value.files or value.folders:
        return f'compopt -o filenames 2>/dev/null; _rungproof_offer {"-f" if value.files else "-d"} -- "$current"; '
    return ""
