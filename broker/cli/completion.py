"""`broker completion`: a script by which a shell completes commands, options and names.

What commands and options there are stands in the script, so that a Tab starts no program for them;
ids, channels and feeds are asked of `broker.cli.known_names`.
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
"""What the arguments of a command name."""
_NAMED_BY_OPTION = {"--channel": "channels", "--subscription": "subscriptions"}


@dataclass(slots=True)
class Words:
    """What may follow a command: `said` as its argument, and behind its options.

    Words, or `@files`, `@dirs`, `@subscriptions`, `@channels`, `@feeds`; nothing of which is known.
    """

    path: str
    help: str
    said: str = ""
    group: bool = False
    options: dict[str, str | None] = field(default_factory=dict)
    """What may follow each, None for one without a value."""
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
    found = list(_walk(context.find_root().command, "broker"))
    name = "fish" if shell == "fish" else "bash"
    script = (files("broker.cli") / f"completion.{name}").read_text(encoding="utf-8")
    table = _fish(found) if shell == "fish" else _cases(found)
    click.echo(script.replace("# TABLE\n", table), nl=False)


def _walk(command: click.Command, path: str) -> Iterator[Words]:
    context = click.Context(command, info_name=path)
    words = Words(path, command.get_short_help_str(80))
    if isinstance(command, click.Group):
        words.group = True
        words.said = " ".join(command.list_commands(context))
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option):
            for name in (*parameter.opts, *parameter.secondary_opts):
                taken = not (parameter.is_flag or parameter.count)
                value: str | None = _value(parameter) if taken else None
                if name in _NAMED_BY_OPTION:
                    value = f"@{_NAMED_BY_OPTION[name]}"
                words.options[name] = value
                words.option_help[name] = (parameter.help or "").split(";")[0].split(". ")[0]
        elif not words.said:
            words.said = _value(parameter)
    if (said := NAMES.get(path.removeprefix("broker "))) is not None:
        words.said = f"@{said}"
    yield words
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                yield from _walk(inner, f"{path} {name}")


def _value(parameter: click.Parameter) -> str:
    kind = parameter.type
    if isinstance(kind, click.Choice):
        return " ".join(map(str, kind.choices))
    if isinstance(kind, click.Path):
        return "@files" if kind.file_okay else "@dirs"
    plain = isinstance(kind, click.File) or "FILE" in (parameter.metavar or "")
    return "@files" if plain else ""


def _cases(found: list[Words]) -> str:
    """Keys are a path for its arguments, with a colon its options, and with one their values."""
    lines = []
    for words in found:
        lines.append(f'    "{words.path}") said="{words.said}" ;;')
        lines.append(f'    "{words.path}:") said="{" ".join(words.options)}" ;;')
        for name, value in words.options.items():
            if value is not None:
                lines.append(f'    "{words.path}:{name}") said="{value}" ;;')
    return "\n".join(lines) + "\n"


_FISH = {"@files": "-F", "@dirs": "-x -a '(__fish_complete_directories)'"}


def _fish(found: list[Words]) -> str:
    helps = {words.path: words.help for words in found}
    lines = [f"set -g __broker_paths {' '.join(_quoted(words.path) for words in found)}"]
    for words in found:
        at = f"complete -c broker -n {_quoted(f'__broker_at {words.path}')}"
        if words.group:
            for name in words.said.split():
                said = _quoted(helps[f"{words.path} {name}"])
                lines.append(f"{at} -a {name} -d {said}")
        elif words.said:
            lines.append(f"{at} {_fish_words(words.said).replace('-x ', '')}")
        for name, value in words.options.items():
            flag = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            taken = "" if value is None else f" {_fish_words(value)}"
            if taken.strip() == "-F":
                taken = " -r -F"
            lines.append(f"{at} {flag}{taken} -d {_quoted(words.option_help[name])}")
    return "\n".join(lines) + "\n"


def _fish_words(said: str) -> str:
    if said in _FISH:
        return _FISH[said]
    if said.startswith("@"):
        return f"-x -a '(__broker_names {said[1:]})'"
    return f"-x -a {_quoted(said)}" if said else "-x"


def _quoted(text: str) -> str:
    """A word of fish."""
    escaped = " ".join(text.split()).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
