"""`broker completion`: a script by which a shell completes commands, options and names.

The script contains all commands and options, so that completing them starts no program. Ids of
subscriptions, channels and feeds come from `broker.cli.known_names`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files

import click

NAMES = {
    **dict.fromkeys(["unsubscribe", "pause", "resume", "list", "matches", "tail"], "subscriptions"),
    **{f"channels {name}": "channels" for name in ("show", "test", "pause", "resume", "reset")},
    "channels remove": "channels",
    **{f"feeds {name}": "feeds" for name in ("edit", "pause", "resume", "remove", "refresh")},
}
"""The kind of names that the arguments of a command are."""
_NAMED_BY_OPTION = {"--channel": "channels", "--subscription": "subscriptions"}


@dataclass(slots=True)
class CommandWords:
    """The words that may follow a command: `arguments`, options, and the values of options.

    Arguments and values are words separated by blanks, or `@files`, `@dirs`, `@subscriptions`,
    `@channels`, `@feeds`, or "" if nothing is known of them.
    """

    path: str
    help: str
    arguments: str = ""
    group: bool = False
    options: dict[str, str | None] = field(default_factory=dict)
    """The values of each option, None for one without a value."""
    option_help: dict[str, str] = field(default_factory=dict)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes commands, options, ids, channels and feeds.

    It holds the commands of this version; ids, channels and feeds are those of --state as far as it
    is typed, else of BROKER_STATE, else of broker-state.

    \b
    eval "$(broker completion bash)"                      in ~/.bashrc
    eval "$(broker completion zsh)"                       in ~/.zshrc, behind compinit
    broker completion fish > ~/.config/fish/completions/broker.fish
    """
    commands = list(_walk(context.find_root().command, "broker"))
    name = "fish" if shell == "fish" else "bash"
    script = (files("broker.cli") / f"completion.{name}").read_text(encoding="utf-8")
    table = _fish_table(commands) if shell == "fish" else _bash_table(commands)
    click.echo(script.replace("# TABLE\n", table), nl=False)


def _walk(command: click.Command, path: str) -> Iterator[CommandWords]:
    """The words of a command and of its subcommands."""
    context = click.Context(command, info_name=path)
    words = CommandWords(path, command.get_short_help_str(80))
    if isinstance(command, click.Group):
        words.group = True
        words.arguments = " ".join(command.list_commands(context))
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option):
            for name in (*parameter.opts, *parameter.secondary_opts):
                has_value = not (parameter.is_flag or parameter.count)
                value: str | None = _value(parameter) if has_value else None
                if name in _NAMED_BY_OPTION:
                    value = f"@{_NAMED_BY_OPTION[name]}"
                words.options[name] = value
                words.option_help[name] = (parameter.help or "").split(";")[0].split(". ")[0]
        elif not words.arguments:
            words.arguments = _value(parameter)
    if (kind := NAMES.get(path.removeprefix("broker "))) is not None:
        words.arguments = f"@{kind}"
    yield words
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                yield from _walk(inner, f"{path} {name}")


def _value(parameter: click.Parameter) -> str:
    """The words for a value of a parameter, as in `CommandWords`."""
    kind = parameter.type
    if isinstance(kind, click.Choice):
        return " ".join(map(str, kind.choices))
    if isinstance(kind, click.Path):
        return "@files" if kind.file_okay else "@dirs"
    plain = isinstance(kind, click.File) or "FILE" in (parameter.metavar or "")
    return "@files" if plain else ""


def _bash_table(commands: list[CommandWords]) -> str:
    """Branches of a `case`: PATH for arguments, PATH: for options, PATH:OPTION for its values."""
    lines = []
    for words in commands:
        lines.append(f'    "{words.path}") words="{words.arguments}" ;;')
        lines.append(f'    "{words.path}:") words="{" ".join(words.options)}" ;;')
        for name, value in words.options.items():
            if value is not None:
                lines.append(f'    "{words.path}:{name}") words="{value}" ;;')
    return "\n".join(lines) + "\n"


_FISH = {"@files": "-F", "@dirs": "-x -a '(__fish_complete_directories)'"}


def _fish_table(commands: list[CommandWords]) -> str:
    helps = {words.path: words.help for words in commands}
    lines = [f"set -g __broker_paths {' '.join(_quoted(words.path) for words in commands)}"]
    for words in commands:
        complete = f"complete -c broker -n {_quoted(f'__broker_at {words.path}')}"
        if words.group:
            for name in words.arguments.split():
                description = _quoted(helps[f"{words.path} {name}"])
                lines.append(f"{complete} -a {name} -d {description}")
        elif words.arguments:
            lines.append(f"{complete} {_fish_values(words.arguments).replace('-x ', '')}")
        for name, value in words.options.items():
            flag = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            values = "" if value is None else f" {_fish_values(value)}"
            if values.strip() == "-F":
                values = " -r -F"
            lines.append(f"{complete} {flag}{values} -d {_quoted(words.option_help[name])}")
    return "\n".join(lines) + "\n"


def _fish_values(words: str) -> str:
    if words in _FISH:
        return _FISH[words]
    if words.startswith("@"):
        return f"-x -a '(__broker_names {words[1:]})'"
    return f"-x -a {_quoted(words)}" if words else "-x"


def _quoted(text: str) -> str:
    """A quoted word of fish."""
    escaped = " ".join(text.split()).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
