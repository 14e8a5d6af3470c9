"""`broker config`: checks the settings of the service and shows the origin of each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from broker.cli.shared import Wrong, console

if TYPE_CHECKING:
    from broker.settings.schema import Settings
    from broker.settings.sources import Layers

config_argument = click.argument(
    "file",
    required=False,
    envvar="BROKER_CONFIG",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)


def load_settings(file: Path | None, overrides: Mapping[str, object] | None = None) -> Settings:
    """The settings in effect; warnings are printed. Raises Wrong with all errors."""
    return _read(file, overrides)[0]


def _read(
    file: Path | None, overrides: Mapping[str, object] | None = None
) -> tuple[Settings, Layers]:
    from broker.settings.schema import Settings, SettingsError

    try:
        settings, layers = Settings.read(file, overrides)
    except SettingsError as error:
        several = len(error.problems) > 1
        raise Wrong(f"the settings are wrong\n{error}" if several else str(error)) from None
    for warning in layers.warnings:
        console.print(f"warning: {warning}")
    return settings, layers


@click.group()
def config() -> None:
    """Check and show the settings of the service.

    They come from one TOML file (FILE, or the variable BROKER_CONFIG), from the environment, which
    counts more (BROKER_SERVER__PORT for port in the table server), and from options of `broker
    serve`, which count most.
    """


@config.command()
@config_argument
def check(file: Path | None) -> None:
    """Say all that is wrong with the settings, exit code 2 if there is anything.

    \b
    broker config check broker.toml
    """
    settings, _ = _read(file)
    name = "the settings" if file is None else str(file)
    console.print(f"{name}: no errors; the state is {settings.state}")


@config.command()
@config_argument
@click.option("--changed", is_flag=True, help="Only what is not as it is by default.")
def show(file: Path | None, changed: bool) -> None:
    """Show the settings in effect and where each comes from; secrets are masked.

    What is printed is TOML, and what is commented out there is not set.

    \b
    broker config show broker.toml
    """
    from pydantic import SecretStr

    from broker.settings.shown import MASK, without_logins
    from broker.settings.sources import leaves

    settings, layers = _read(file)
    table: tuple[str, ...] = ()
    for path, value, written in leaves(settings):
        origin = layers.origin(path)
        if changed and origin == "default":
            continue
        if path[:-1] != table:
            table = path[:-1]
            click.echo(f"\n[{'.'.join(table)}]")
        mask = MASK if isinstance(value, SecretStr) else without_logins(written)
        line = (
            f"# {path[-1]} ="
            if value is None and written is None
            else f"{path[-1]} = {_toml(mask)}"
        )
        click.echo(f"{line:<44}  # {origin}")


def _toml(value: Any) -> str:
    """A value of settings in the syntax of TOML."""
    if isinstance(value, dict):
        inner = ", ".join(f"{_name(key)} = {_toml(each)}" for key, each in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _name(key: str) -> str:
    plain = key.replace("_", "").replace("-", "")
    return key if plain.isascii() and plain.isalnum() else json.dumps(key)
